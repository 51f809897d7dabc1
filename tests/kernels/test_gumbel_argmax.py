"""gumbel_argmax: the CPU path against the definition, company, edges, distribution, and the ways torch traces it."""

from __future__ import annotations

import math

import pytest
import scipy.stats
import torch
from evoctx_kernels.row_gumbel import gumbel_argmax, reference, row_gumbel
from evoctx_kernels.row_gumbel import operator as registered
from evoctx_kernels.row_gumbel.checks import check_choice
from evoctx_kernels.row_gumbel.cpu import vectorized
from gumbel_cases import batch, strange
from hypothesis import given, settings
from hypothesis import strategies as st

PATHS = pytest.mark.parametrize("path", [reference, vectorized])


def same_bits(a, b) -> bool:
    return all(torch.equal(x.nan_to_num(nan=7.0), y.nan_to_num(nan=7.0)) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("rows", [1, 2, 5, 33])
def test_cpu_path_is_the_definition(rows, dtype):
    for vocab in (1, 2, 31, 1000, 5003):
        inputs = batch(rows, vocab, dtype=dtype)
        got, expected = vectorized(*inputs), reference(*inputs)
        assert torch.equal(got.token, expected.token)
        torch.testing.assert_close(got.logprob, expected.logprob, rtol=0, atol=1e-12 if dtype == torch.float64 else 2e-6)
        assert got.logprob.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


def test_the_token_is_the_argmax_of_tempered_logits_and_row_gumbel():
    logits, seeds, steps, temperature = batch(40, 3000)
    got = gumbel_argmax(logits, seeds, steps, temperature)
    warm = temperature > 0
    noisy = logits[warm] / temperature[warm, None] + row_gumbel(seeds[warm], steps[warm], 3000)
    assert torch.equal(got.token[warm], noisy.argmax(1))
    assert torch.equal(got.token[~warm], logits[~warm].argmax(1))
    torch.testing.assert_close(got.logprob, logits.log_softmax(1).gather(1, got.token[:, None])[:, 0])


@pytest.mark.parametrize("vocab", [7, 1000, 70_000])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_has_the_same_bits_alone_and_in_any_batch(vocab, threads):
    inputs = batch(9, vocab)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        together = gumbel_argmax(*inputs)
        order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
        shuffled = gumbel_argmax(*(x[order] for x in inputs))
        torch.set_num_threads(1)
        assert same_bits(shuffled, [x[order] for x in together])
        for b in range(9):
            assert same_bits(gumbel_argmax(*(x[b : b + 1] for x in inputs)), [x[b : b + 1] for x in together])
    finally:
        torch.set_num_threads(before)


@PATHS
def test_rows_without_a_choice_are_flagged_and_alone(path):
    logits, seeds, steps, temperature, allowed, good = strange()
    got = path(logits, seeds, steps, temperature, allowed)
    assert (got.token >= 0).tolist() == good
    assert (~got.logprob.isnan()).tolist() == good
    assert (got.token[~torch.tensor(good)] == -1).all()
    assert got.token[4] != 0
    assert got.token[8] == 8
    assert got.token[9] == 0
    rest = torch.tensor(good)
    assert same_bits([x[rest] for x in got], path(logits[rest], seeds[rest], steps[rest], temperature[rest], allowed[rest]))


@PATHS
def test_allowed_shows_in_the_token_but_not_in_the_logprob(path):
    logits, seeds, steps, temperature = batch(50, 300)
    allowed = torch.rand(logits.shape, generator=torch.Generator().manual_seed(1)) < 0.1
    got = path(logits, seeds, steps, temperature, allowed)
    assert allowed.gather(1, got.token[:, None]).all()
    torch.testing.assert_close(got.logprob, logits.log_softmax(1).gather(1, got.token[:, None])[:, 0])
    assert torch.equal(got.token, path(logits.masked_fill(~allowed, -math.inf), seeds, steps, temperature).token)
    assert same_bits(path(logits, seeds, steps, temperature, torch.ones_like(allowed)), path(logits, seeds, steps, temperature))


@PATHS
def test_equal_scores_take_the_lowest_token(path):
    zeros = torch.zeros(3, 40)
    seeds = torch.arange(3)
    assert path(zeros, seeds, seeds, torch.zeros(3)).token.tolist() == [0, 0, 0]
    zeros[:, 11] = zeros[:, 30] = 50.0  # noise is lost in the rounding of 1e9
    assert path(zeros, seeds, seeds, torch.full((3,), 5e-8)).token.tolist() == [11, 11, 11]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_draws_follow_the_tempered_softmax(temperature):
    row, draws = torch.tensor([2.0, 1.0, 0.0, -1.0, -math.inf, -3.0]), 40_000
    got = gumbel_argmax(row.expand(draws, 6), torch.arange(draws), 3, temperature)
    counts, expected = torch.bincount(got.token, minlength=6).double(), (row.double() / temperature).softmax(0) * draws
    assert counts[4] == 0
    kept = [0, 1, 2, 3, 5]
    assert scipy.stats.chisquare(counts[kept].numpy(), expected[kept].numpy()).pvalue > 1e-3


@given(seed=st.integers(0, 2**63 - 1), step=st.integers(0, 10**6), temperature=st.floats(0.125, 8.0), shift=st.integers(-64, 64))
@settings(max_examples=40, deadline=None)
def test_a_constant_added_to_all_logits_changes_nothing(seed, step, temperature, shift):
    logits = torch.randn(1, 200, generator=torch.Generator().manual_seed(step)).mul_(64).round_().div_(16)  # sums are exact
    seeds = torch.tensor([seed])
    got, moved = (gumbel_argmax(x, seeds, step, temperature) for x in (logits, logits + shift))
    exact = logits.double() / temperature + row_gumbel(seeds, step, 200).double()
    best = exact.topk(2).values[0]
    if best[0] - best[1] > 1e-4:  # quotients round differently
        assert got.token == moved.token
        assert abs(got.logprob - moved.logprob) < 1e-4


def test_inputs_are_left_as_they_were_and_strides_do_not_matter():
    inputs = batch(6, 50)
    copies = [x.clone() for x in inputs]
    got = gumbel_argmax(*inputs)
    assert all(torch.equal(a, b) for a, b in zip(inputs, copies, strict=True))
    assert same_bits(got, gumbel_argmax(inputs[0].T.contiguous().T, *inputs[1:]))
    wide = torch.randn(6, 3, 50)
    wide[:, 1] = inputs[0]
    assert same_bits(got, gumbel_argmax(wide[:, 1], *inputs[1:]))


def test_empty_batch():
    got = gumbel_argmax(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64), 0, 1.0)
    assert got.token.shape == got.logprob.shape == (0,)
    assert got.token.dtype == torch.int64


@pytest.mark.filterwarnings("ignore")
def test_the_operator_is_registered_well():
    logits, seeds, steps, temperature = batch(4, 33)
    allowed = torch.ones_like(logits, dtype=torch.bool)
    for args in ((logits, seeds, steps, temperature, None), (logits.half(), seeds, steps, temperature, allowed)):
        torch.library.opcheck(registered, args)


@pytest.mark.filterwarnings("ignore")
def test_compile_and_export():
    compiled = torch.compile(gumbel_argmax, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (3, 5):
        logits, seeds, _, _ = batch(rows, 33)
        assert same_bits(compiled(logits, seeds, 2, 0.7), gumbel_argmax(logits, seeds, 2, 0.7))

    class Sampler(torch.nn.Module):
        def forward(self, logits, seeds):
            return tuple(gumbel_argmax(logits, seeds, 2, 0.7))

    logits, seeds, _, _ = batch(4, 33)
    exported = torch.export.export(Sampler(), (logits, seeds), dynamic_shapes=({0: torch.export.Dim("B")}, {0: torch.export.Dim("B")}))
    logits, seeds, _, _ = batch(7, 33)
    assert same_bits(exported.module()(logits, seeds), gumbel_argmax(logits, seeds, 2, 0.7))


def test_wrong_input_is_refused():
    logits, seeds, steps, temperature = batch(3, 9)
    for args, error, words in (
        ((logits[0], seeds, 0, 1.0), ValueError, r"logits: expected \[B, V\], got \[9\]"),
        ((logits.long(), seeds, 0, 1.0), TypeError, "logits: expected float32, float16, bfloat16 or float64, got torch.int64"),
        ((logits[:, :0], seeds, 0, 1.0), ValueError, r"vocab: expected a size from 1 to \d+, got 0"),
        ((logits, seeds[:2], 0, 1.0), ValueError, r"seeds: expected \[3\], got \[2\]"),
        ((logits, seeds.int(), 0, 1.0), TypeError, "seeds: expected torch.int64, got torch.int32"),
        ((logits, seeds, steps[:1], 1.0), ValueError, r"step: expected an int or \[3\], got \[1\]"),
        ((logits, seeds, 0, -1.0), ValueError, "temperature: expected a finite number of at least 0, got -1.0"),
        ((logits, seeds, 0, math.nan), ValueError, "temperature: expected a finite number of at least 0, got nan"),
        ((logits, seeds, 0, temperature[:2]), ValueError, r"temperature: expected \[3\], got \[2\]"),
        ((logits, seeds, 0, temperature.double()), TypeError, "temperature: expected torch.float32, got torch.float64"),
    ):
        with pytest.raises(error, match=words):
            gumbel_argmax(*args)
    with pytest.raises(ValueError, match=r"allowed: expected \[3, 9\], got \[3, 8\]"):
        gumbel_argmax(logits, seeds, 0, 1.0, allowed=torch.ones(3, 8, dtype=torch.bool))
    with pytest.raises(TypeError, match=r"allowed: expected torch.bool, got torch.int64"):
        gumbel_argmax(logits, seeds, 0, 1.0, allowed=torch.ones(3, 9, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"gumbel_argmax: temperature: expected device cpu, got meta"):
        check_choice(logits, seeds, steps, temperature.to("meta"), None)
