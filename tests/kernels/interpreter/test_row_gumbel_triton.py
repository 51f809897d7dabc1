"""gumbel_argmax's Triton kernels in the interpreter: tokens of the definition, edges, company, memory that held NaN."""

from __future__ import annotations

import pytest
import torch
from evoctx_kernels.row_gumbel import reference
from evoctx_kernels.row_gumbel import triton_kernel as kernel
from gumbel_cases import batch, strange

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy speaks where NaN is what we test


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """Outputs and scratch hold NaN, or an impossible token, before the kernels write them."""
    fresh = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *a, dtype, **k: fresh(*a, dtype=dtype, **k).fill_(torch.nan if dtype.is_floating_point else -99))


def same_bits(a, b) -> bool:
    return all(torch.equal(x.nan_to_num(nan=7.0), y.nan_to_num(nan=7.0)) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("rows", "vocab", "dtype"),
    [(1, 1, torch.float32), (2, 31, torch.float16), (5, 4096, torch.bfloat16), (5, 4097, torch.float32), (33, 1000, torch.float32),
     (33, 70, torch.float16), (5, 999, torch.bfloat16), (2, 20_001, torch.float32)],
)  # fmt: skip
def test_tokens_are_those_of_the_definition(rows, vocab, dtype):
    inputs = batch(rows, vocab, dtype=dtype)
    got, expected = kernel.launch(*inputs), reference(*inputs)
    assert torch.equal(got.token, expected.token)
    torch.testing.assert_close(got.logprob, expected.logprob, rtol=0, atol=2e-6)


def test_rows_without_a_choice_are_flagged():
    *inputs, good = strange()
    got, expected = kernel.launch(*inputs), reference(*inputs)
    assert torch.equal(got.token, expected.token)
    assert (~got.logprob.isnan()).tolist() == good
    torch.testing.assert_close(got.logprob, expected.logprob, rtol=0, atol=1e-6, equal_nan=True)


def test_what_makes_a_row_strange_may_lie_in_any_split():
    logits, seeds, steps, temperature = batch(5, 2 * kernel.TOKENS + 5)
    for b, at in enumerate((0, kernel.TOKENS, 2 * kernel.TOKENS + 4)):
        logits[b, at] = (torch.nan, torch.inf, torch.nan)[b]
    logits[3, : 2 * kernel.TOKENS] = -torch.inf
    logits[4, kernel.TOKENS :] = -torch.inf
    got, expected = kernel.launch(logits, seeds, steps, temperature), reference(logits, seeds, steps, temperature)
    assert got.token.tolist() == expected.token.tolist()
    assert got.token[:3].tolist() == [-1, -1, -1]
    assert got.logprob[:3].isnan().all()


def test_equal_scores_take_the_lowest_token_over_splits():
    logits, keys = torch.zeros(2, 3 * kernel.TOKENS), torch.arange(2)
    assert kernel.launch(logits, keys, keys, torch.zeros(2)).token.tolist() == [0, 0]
    logits[:, [kernel.TOKENS + 3, kernel.TOKENS + 9, 2 * kernel.TOKENS + 1]] = 50.0
    assert kernel.launch(logits, keys, keys, torch.tensor([0.0, 5e-8])).token.tolist() == [kernel.TOKENS + 3] * 2


def test_a_row_has_the_same_bits_alone_and_in_any_batch():
    inputs = batch(6, 5000)
    together = kernel.launch(*inputs)
    order = torch.tensor([4, 1, 5, 0, 3, 2])
    assert same_bits(kernel.launch(*(x[order] for x in inputs)), [x[order] for x in together])
    for b in (0, 3, 5):
        assert same_bits(kernel.launch(*(x[b : b + 1] for x in inputs)), [x[b : b + 1] for x in together])


def test_strides_and_masks():
    logits, seeds, steps, temperature = batch(4, 70)
    allowed = torch.rand(4, 70, generator=torch.Generator().manual_seed(0)) < 0.3
    expected = kernel.launch(logits, seeds, steps, temperature, allowed)
    wide, wide_mask = torch.full((4, 2, 70), torch.nan), torch.zeros(4, 2, 70, dtype=torch.bool)
    wide[:, 1], wide_mask[:, 1] = logits, allowed
    assert same_bits(expected, kernel.launch(wide[:, 1], seeds, steps, temperature, wide_mask[:, 1]))
    assert same_bits(expected, kernel.launch(logits.T.contiguous().T, seeds, steps, temperature, allowed.T.contiguous().T))
    assert torch.equal(expected.token, reference(logits, seeds, steps, temperature, allowed).token)
