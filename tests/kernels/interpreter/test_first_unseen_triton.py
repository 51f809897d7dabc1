"""first_unseen's Triton kernel in the interpreter: the reference's choice on poisoned memory, and no company in it."""

from __future__ import annotations

import pytest
import torch
from evoctx_kernels.first_unseen import reference
from evoctx_kernels.first_unseen.triton_kernel import KNOWN, TILE, launch
from unseen_cases import SHAPES, batch, rows_of
from vote_cases import same_bits


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """Outputs hold an impossible number before the kernel writes them."""
    fresh = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *a, **k: fresh(*a, **k).fill_(-99))


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.parametrize(("rows", "length", "most", "k"), SHAPES)
def test_kernel_is_the_reference(rows, length, most, k, distinct):
    inputs = batch(rows, length, most)
    assert same_bits(launch(*inputs, k, distinct), reference(*inputs, k, distinct))


def test_the_borders_of_tiles():
    """What decides about a candidate stands in another tile than it, and k is reached at the end of one."""
    row = torch.arange(3 * TILE)
    row[2 * TILE] = 0  # a repeat of the first
    for seen in ([], [TILE], list(range(1, KNOWN + 2))):
        for k in (TILE - 1, TILE, TILE + 1, 3 * TILE + 5):
            inputs = row[None], torch.tensor([0, len(seen)]), torch.tensor(seen, dtype=torch.int64)
            assert same_bits(launch(*inputs, k, True), reference(*inputs, k, True))


def test_a_row_is_the_same_alone_and_in_any_batch():
    inputs = batch(6, 40, 12)
    together, order = launch(*inputs, 5, True), [4, 0, 1, 2, 5, 3]
    assert same_bits(launch(*rows_of(inputs, order), 5, True), [x[order] for x in together])
    for b in range(6):
        assert same_bits(launch(*rows_of(inputs, [b]), 5, True), [x[b : b + 1] for x in together])


def test_an_indptr_that_lies_reads_nothing_outside():
    """On a device its values are not waited for."""
    candidates, seen = torch.tensor([[1, 2, 3]] * 3), torch.tensor([2, 1])
    got = launch(candidates, torch.tensor([-5, 1, 900, -7]), seen, 2, True)
    assert got[0].tolist() == [[1, 3], [2, 3], [1, 2]]
