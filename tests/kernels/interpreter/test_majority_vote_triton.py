"""majority_vote's Triton kernel in the interpreter: the reference's counts on poisoned memory, and no company in them."""

from __future__ import annotations

import pytest
import torch
from evoctx_kernels.majority_vote import reference, tie_code
from evoctx_kernels.majority_vote.triton_kernel import launch
from vote_cases import MAJORITIES, TIES, random_votes, same_bits, tie_rule


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """Outputs hold an impossible number before the kernel writes them."""
    fresh = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *a, **k: fresh(*a, **k).fill_(-99))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize(("rows", "k", "options"), MAJORITIES)
def test_kernel_is_the_reference(rows, k, options, dtype):
    votes = random_votes(rows, k, options).to(dtype)
    for tie in TIES:
        code = tie_code(tie_rule(tie, options), options, "test")
        assert same_bits(launch(votes, options, code), reference(votes, options, code))


def test_invalid_votes_of_any_size():
    votes = torch.tensor([[2**40, -(2**40), 1, 2**32]])
    assert same_bits(launch(votes, 2, -2), reference(votes, 2, -2))


def test_a_row_is_the_same_alone_and_in_any_batch():
    votes = random_votes(130, 5, 2)  # more rows than one program takes
    together, order = launch(votes, 2, 0), torch.randperm(130, generator=torch.Generator().manual_seed(1))
    assert same_bits(launch(votes[order], 2, 0), [x[order] for x in together])
    for b in (0, 64, 129):
        assert same_bits(launch(votes[b : b + 1], 2, 0), [x[b : b + 1] for x in together])


def test_strided_votes():
    votes = random_votes(4, 7, 3)
    assert same_bits(launch(votes.T.contiguous().T, 3, -1), launch(votes, 3, -1))
