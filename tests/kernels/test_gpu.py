"""Every operator on a CUDA device: against its reference, on edges, alone and in company, and twenty times with the same bits.

Skipped where there is no such device. EVOCTX_GPU_TEST_DEVICE=cpu runs the same tests on the operators' CPU path, which tries the
tests themselves; those that concern CUDA alone are skipped then.
"""

from __future__ import annotations

import gc
import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gumbel_cases
import pytest
import torch
import unseen_cases
import vector_cases
import vote_cases
from boundary_cases import SIZES, THRESHOLDS, batch
from evoctx_kernels import boundary_signals as signals
from evoctx_kernels import first_unseen as unseen
from evoctx_kernels import greedy_diverse as diverse
from evoctx_kernels import majority_vote as majority
from evoctx_kernels import max_similarity as similarity
from evoctx_kernels import row_gumbel as gumbel
from evoctx_kernels import sample_votes as sampled
from evoctx_kernels.hashing import uniforms
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "kernels"))
from cases import CASES, TINY, Case

DEVICE = os.environ.get("EVOCTX_GPU_TEST_DEVICE", "cuda")
CUDA = DEVICE.startswith("cuda")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(CUDA and not torch.cuda.is_available(), reason="no CUDA device")]
cuda_only = pytest.mark.skipif(not CUDA, reason="concerns CUDA alone")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
FLOATS = {"boundary_signals", "greedy_diverse", "max_similarity", "boundary_signals_backward"}
REPEATS = 20


def build(name: str, rows: int, dim: int = 48, dtype: torch.dtype = torch.float32) -> Case:
    return CASES[name].build(DEVICE, rows, TINY._replace(dim=dim, dtype=dtype, longest=63, candidates=24, vocab=5000, votes=11))


def there(*values: Any) -> tuple[Any, ...]:
    """Tensors on the device."""
    return tuple(value.to(DEVICE) if isinstance(value, Tensor) else value for value in values)


def poison() -> None:
    """Leave NaN in the memory that the next outputs are made of."""
    for size in (64, 1024, 1 << 14, 1 << 20, 1 << 24) if CUDA else (64, 1024):
        blocks = [torch.full((size,), math.nan, device=DEVICE) for _ in range(8)]
        del blocks


def bits(values: Any) -> list[Tensor]:
    """Outputs as integers, so that NaN equals itself and 0 differs from -0."""
    kinds = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}
    return [value.contiguous().view(kinds[value.element_size()]) for value in values]


def same_bits(a: Any, b: Any) -> bool:
    return all(torch.equal(x, y) for x, y in zip(bits(a), bits(b), strict=True))


def close(got: Any, expected: Any, tolerance: float) -> None:
    """Floats within the tolerance, integers exactly; the expected may have fewer outputs."""
    for number, (a, b) in enumerate(zip(got, expected, strict=False)):
        assert a.shape == b.shape, (number, a.shape, b.shape)
        if a.is_floating_point():
            torch.testing.assert_close(a.cpu().double(), b.double(), atol=tolerance, rtol=tolerance, equal_nan=True, msg=lambda m, n=number: f"output {n}: {m}")
        else:
            assert torch.equal(a.cpu(), b.to(a.dtype)), f"output {number}"


@pytest.mark.parametrize("rows", [1, 2, 33])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_reference(name, rows):
    for dtype in DTYPES if name in FLOATS else DTYPES[:1]:
        for dim in (16, 384) if name in FLOATS else (16,):
            case = build(name, rows, dim, dtype)
            poison()
            close(case.run(), case.reference(), case.tolerance)


@pytest.mark.parametrize("name", CASES)
def test_twenty_runs_have_the_same_bits(name):
    case = build(name, 2048 if CUDA else 9, 384)
    if name == "boundary_signals_backward":
        case = replace(case, arguments=(*case.arguments[:-1], True))  # deterministic
    first = [value.clone() for value in case.run()]
    for _ in range(REPEATS - 1):
        poison()
        assert same_bits(case.run(), first)


@cuda_only
def test_the_fast_backward_agrees_with_the_deterministic_one():
    case = build("boundary_signals_backward", 2048, 384)
    slow = case.operator(*case.arguments[:-1], True)
    for _ in range(REPEATS):
        poison()
        fast = case.operator(*case.arguments[:-1], False)
        close(fast, [x.cpu() for x in slow], 1e-5)
        assert same_bits(fast[:1], case.operator(*case.arguments[:-1], False)[:1]), "the traces' gradient is no sum of atomics"


CSR = {"boundary_signals": (2, 3), "first_unseen": (1, 2)}  # where indptr and its values stand among the arguments


def some_rows(case: Case, order: list[int]) -> tuple[Any, ...]:
    """The arguments of these rows alone, in this order."""
    at = torch.tensor(order, device=DEVICE)
    chosen = [a[at] if isinstance(a, Tensor) and len(a) == case.rows else a for a in case.arguments]
    if case.name in CSR:
        pointer, values = CSR[case.name]
        indptr, flat = case.arguments[pointer].tolist(), case.arguments[values]
        parts = [flat[indptr[row] : indptr[row + 1]] for row in order]
        chosen[pointer] = torch.tensor([0, *map(len, parts)], device=DEVICE).cumsum(0)
        chosen[values] = torch.cat(parts)
    return tuple(chosen)


@pytest.mark.parametrize("name", [name for name in CASES if name != "boundary_signals_backward"])
def test_a_row_has_the_same_bits_alone_and_in_any_company(name):
    case = build(name, 33, 384)
    whole = [value.clone() for value in case.run()]
    orders = [[row] for row in (0, 7, 32)] + [torch.randperm(33, generator=torch.Generator().manual_seed(1)).tolist(), [5, 5, 31], list(range(9, 26))]
    for order in orders:
        poison()
        got = case.operator(*some_rows(case, order))
        expected = [value[order] if len(value) == 33 else value for value in whole]
        assert same_bits(got, expected), order


@pytest.mark.parametrize("name", CASES)
def test_opcheck(name):
    case = build(name, 5, 16)
    torch.library.opcheck(case.operator, case.arguments)


@pytest.mark.parametrize("name", [name for name in CASES if name != "boundary_signals_backward"])
def test_an_empty_batch_has_empty_outputs(name):
    case = build(name, 5, 16)
    arguments = [a[:0] if isinstance(a, Tensor) and len(a) == case.rows else a for a in case.arguments]
    if name in CSR:
        pointer, values = CSR[name]
        arguments[pointer], arguments[values] = case.arguments[pointer][:1], case.arguments[values][:0]
    got = case.operator(*arguments)
    assert all(len(value) == 0 and value.device.type == torch.device(DEVICE).type for value in got)


# What is special in each operator.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [16, 384, 1024])
def test_signals_of_rows_of_every_length(dim, dtype):
    inputs = batch([*SIZES, 1024, 3], dim, seed=dim, dtype=dtype)
    inputs[1][7] = math.nan
    inputs[0][-1, 0] = math.inf
    active = torch.tensor([True] * 8 + [False, True])
    taus = torch.tensor(THRESHOLDS)
    for quantile, interpolation in ((0.9, "linear"), (0.0, "lower"), (1.0, "higher"), (0.5, "midpoint"), (0.37, "nearest")):
        poison()
        got = signals.boundary_signals(*there(*inputs, taus), active=active.to(DEVICE), quantile=quantile, interpolation=interpolation)
        exact = (x.double() if x.is_floating_point() else x for x in inputs)
        expected = signals.reference(*exact, taus.double(), active, quantile, interpolation)
        close(got, expected, 2e-6)


def test_a_score_of_exactly_one_retrieves():
    pool = torch.eye(16)[:2].contiguous()
    trace = torch.zeros(1, 16)
    trace[0, :2] = torch.tensor([0.75, 0.5])
    got = signals.boundary_signals(*there(trace, pool, torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([0.25, 0.25, 2.0])))
    assert got.near.item() == 0.25 and got.score.item() == 1 and got.action.item() == 1
    below = torch.nextafter(torch.tensor(0.25), torch.tensor(1.0)).item()
    got = signals.boundary_signals(*there(trace, pool, torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([below, 0.25, 2.0])))
    assert got.action.item() == 0


def test_gradients_of_the_signals():
    traces, pool, indptr, slots = batch([0, 1, 2, 31, 64, 65, 257], 48)
    weights = torch.randn(4, len(traces), generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def gradients(call, traces, pool, weights, *rest):
        traces, pool = traces.clone().requires_grad_(), pool.clone().requires_grad_()
        got = call(traces, pool, *rest)
        columns = [torch.where(x.isfinite(), x, 0) for x in (got.near, got.centroid, got.tail, got.score)]
        (torch.stack(columns) * weights).sum().backward()
        return traces.grad, pool.grad

    taus = torch.tensor(THRESHOLDS)
    got = gradients(signals.boundary_signals, *there(traces, pool, weights.float(), indptr, slots, taus))
    expected = gradients(signals.reference, traces.double(), pool.double(), weights, indptr, slots, taus.double())
    close(got, [torch.nan_to_num(x) for x in expected], 1e-5)


@cuda_only
def test_slots_outside_the_pool_flag_their_row_and_no_other():
    inputs = batch([3, 4, 5, 6], 48)
    inputs[3][4], inputs[3][8] = -1, len(inputs[1])  # rows 1 and 2
    got = signals.boundary_signals(*there(*inputs, torch.tensor(THRESHOLDS)))
    assert got.near.isnan().tolist() == [False, True, True, False]


@pytest.mark.parametrize(("rows", "k", "options"), vote_cases.MAJORITIES)
def test_majorities_under_every_tie_rule(rows, k, options):
    votes = vote_cases.random_votes(rows, k, options)
    for tie in vote_cases.TIES:
        code = majority.tie_code(vote_cases.tie_rule(tie, options), options, "test")
        poison()
        close(majority.operator(votes.to(DEVICE), options, code), majority.reference(votes, options, code), 0)


@pytest.mark.parametrize(("options", "k"), [(1, 1), (2, 5), (3, 16), (8, 3), (2, 64)])
def test_sampled_votes(options, k):
    for rows in (1, 33):
        logits, seeds, temperature = vote_cases.logits_and_seeds(rows, options)
        poison()
        got = sampled.sample_votes(*there(logits, seeds), k, temperature=temperature.to(DEVICE))
        expected = sampled.reference(logits, seeds, k, temperature, sampled.LOWEST)
        close(got, expected, 1e-12)
    logits, seeds, temperature, good = vote_cases.strange_logits()
    got = sampled.sample_votes(*there(logits, seeds), k, temperature=temperature.to(DEVICE))
    assert (got.winner >= 0).tolist() == good and got.probability.isnan().any(1).logical_not().tolist() == good


def test_hashed_numbers_are_the_cpus():
    seeds = torch.randint(0, 2**63 - 1, (50,), generator=torch.Generator().manual_seed(3))
    assert torch.equal(uniforms(seeds.to(DEVICE), 70, 5).cpu(), uniforms(seeds, 70, 5))


@pytest.mark.parametrize(("rows", "length", "most", "k"), unseen_cases.SHAPES)
def test_first_unseen_of_every_shape(rows, length, most, k):
    inputs = unseen_cases.batch(rows, length, most)
    for distinct in (True, False):
        poison()
        close(unseen.first_unseen(*there(*inputs), k, distinct=distinct), unseen.reference(*inputs, k, distinct), 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_diverse_candidates_with_holes_and_nan(dtype):
    pool = vector_cases.clustered(60, 384, dtype=dtype)
    for rows, width, k in ((1, 1, 1), (5, 43, 8), (33, 20, 20)):
        slots = vector_cases.ranked(rows, width, 60, seed=rows)
        for poisoned in (pool, pool.index_fill(0, torch.tensor([4, 9]), math.nan)):
            poison()
            close(diverse.greedy_diverse(*there(poisoned, slots), threshold=0.85, k=k), diverse.reference(poisoned, slots, 0.85, k), 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_similarity_to_rows_of_a_pool_without_oneself(dtype):
    pool = vector_cases.clustered(257, 384, dtype=dtype)
    own = [list(range(row, 257, 1 + row)) if row % 4 else [] for row in range(33)]
    exclude = torch.arange(33) - 1
    for csr in ((None, None), vector_cases.csr(own)):
        poison()
        inputs = pool[:33].contiguous(), pool, *csr
        got = similarity.max_similarity(*there(*inputs), exclude=exclude.to(DEVICE))
        expected = similarity.reference(*inputs, exclude)
        torch.testing.assert_close(got.similarity.cpu(), expected.similarity, atol=2e-6, rtol=0)
        cosine = pool[:33].double() @ pool.double().T  # a tie within rounding may go to either
        for row, (a, b) in enumerate(zip(got.argmax.tolist(), expected.argmax.tolist(), strict=True)):
            assert a == b or abs(cosine[row, a] - cosine[row, b]) < 2e-6, row


def test_tokens_of_rows_without_a_choice():
    logits, seeds, steps, temperature, allowed, good = gumbel_cases.strange()
    poison()
    got = gumbel.operator(*there(logits, seeds, steps, temperature, allowed))
    assert (got[0] >= 0).tolist() == good and got[1].isnan().logical_not().tolist() == good
    close(got, gumbel.reference(logits, seeds, steps, temperature, allowed), 2e-5)


@pytest.mark.parametrize("vocab", [1, 5, 4096, 4097, 50_000])
def test_tokens_of_every_vocabulary(vocab):
    for dtype in DTYPES:
        inputs = gumbel_cases.batch(8, vocab, dtype=dtype)
        poison()
        close(gumbel.operator(*there(*inputs), None), gumbel.reference(*inputs), 2e-5)


@cuda_only
def test_rows_beyond_two_to_the_31_are_reached():
    """Offsets that overflow 32 bits: 4.6 GB of a pool, of which the last vector is the only one that is not zero."""
    dim, size = 384, 6_000_000
    if torch.cuda.mem_get_info()[0] < 16 << 30:
        pytest.skip("needs 16 GB of free memory")
    pool = torch.zeros(size, dim, dtype=torch.float16, device=DEVICE)
    pool[-1, 0] = 1
    slots = torch.tensor([0, size - 1], device=DEVICE)
    trace = pool[-1:].clone()
    got = signals.boundary_signals(trace, pool, torch.tensor([0, 2], device=DEVICE), slots)
    assert got.near.item() == 0 and got.argmin.item() == 1
    assert similarity.max_similarity(trace, pool).argmax.item() == size - 1
    assert similarity.max_similarity(trace, pool, torch.tensor([0, 2], device=DEVICE), slots).argmax.item() == size - 1
    assert diverse.greedy_diverse(pool, slots[None].flip(1), threshold=0.5, k=2).kept.tolist() == [[0, 1]]
    del pool
    gc.collect()
    logits = torch.zeros(18_000, 128_256, dtype=torch.float16, device=DEVICE)
    logits[-1, 5] = 50
    zeros = torch.zeros(len(logits), dtype=torch.int64, device=DEVICE)
    token, logprob = gumbel.operator(logits, zeros, zeros, torch.zeros(len(logits), device=DEVICE), None)
    assert token[-1].item() == 5 and token[0].item() == 0 and abs(logprob[-1].item()) < 1e-6


@cuda_only
@pytest.mark.parametrize("name", [name for name in CASES if name != "first_unseen"])  # which looks at its indptr first
def test_a_captured_call_reads_its_inputs_anew(name):
    case, other = build(name, 33, 384), build(name, 33, 384)
    case.run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = case.run()
    data = [isinstance(a, Tensor) and (a.is_floating_point() or name == "majority_vote") for a in other.arguments]
    flipped = [a.flip(0).contiguous() if new else a for a, new in zip(other.arguments, data, strict=True)]
    expected = [value.clone() for value in case.operator(*flipped)]
    for ours, new in zip(case.arguments, flipped, strict=True):
        if isinstance(ours, Tensor):
            ours.copy_(new)
    graph.replay()
    torch.cuda.synchronize()
    if name == "boundary_signals_backward":
        close(outputs, [x.cpu() for x in expected], 1e-5)
    else:
        assert same_bits(outputs, expected)
