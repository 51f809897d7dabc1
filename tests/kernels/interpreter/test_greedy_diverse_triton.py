"""greedy_diverse's Triton kernel in the interpreter: what the definition keeps, edges, company, memory that held junk."""

from __future__ import annotations

import math

import pytest
import torch
from evoctx_kernels.greedy_diverse import reference
from evoctx_kernels.greedy_diverse import triton_kernel as kernel
from vector_cases import clustered, decided, ranked, same_bits

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """Outputs hold an impossible number before the kernel writes them."""
    fresh = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *a, **k: fresh(*a, **k).fill_(-99))


@pytest.mark.parametrize(
    ("rows", "width", "dim", "k", "dtype"),
    [(1, 1, 16, 1, torch.float32), (2, 7, 48, 3, torch.float16), (5, 43, 384, 8, torch.float32), (5, 40, 384, 8, torch.bfloat16),
     (33, 9, 16, 4, torch.float32), (2, 20, 1024, 5, torch.float16), (3, 33, 304, 8, torch.float32), (2, 70, 16, 33, torch.float32)],
)  # fmt: skip
def test_keeps_what_the_definition_keeps(rows, width, dim, k, dtype):
    pool = clustered(60, dim, seed=width, dtype=dtype)
    assert decided(pool, 0.85)
    slots = ranked(rows, width, 60, seed=rows)
    got, expected = kernel.launch(pool, slots, 0.85, k), reference(pool, slots, 0.85, k)
    for name in expected._fields:
        assert torch.equal(getattr(got, name), getattr(expected, name)), name


def test_exact_threshold_and_extremes():
    pool = torch.zeros(3, 16)
    pool[0, 0], pool[1, :2], pool[2, :2] = 1, torch.tensor([0.75, 0.5]), torch.tensor([0.8125, -0.5])
    slots = torch.tensor([[0, 1], [0, 2], [1, 0]])
    assert kernel.launch(pool, slots, 0.75, 2).count.tolist() == [2, 1, 2]
    assert kernel.launch(pool, slots, torch.nextafter(torch.tensor(0.75), torch.tensor(0.0)).item(), 2).count.tolist() == [1, 1, 1]
    assert kernel.launch(pool, slots, math.inf, 2).count.tolist() == [2, 2, 2]
    assert kernel.launch(pool, slots, -2.0, 2).count.tolist() == [1, 1, 1]


def test_invalid_vectors_and_slots():
    pool = clustered(40, 48)
    pool[3, 7], pool[8, 0], pool[11, 47] = math.nan, math.inf, -math.inf
    slots = ranked(4, 30, 40, seed=5)
    slots[0, :3], slots[1], slots[2, 20:] = torch.tensor([3, 8, 11]), -1, 3
    got, expected = kernel.launch(pool, slots, 0.85, 6), reference(pool, slots, 0.85, 6)
    assert same_bits(got, expected)
    assert got.invalid[0] >= 3
    outside = slots[:1].clone()
    outside[0, :3] = torch.tensor([40, -2, 2**40])  # never read: counted like a vector with NaN
    assert same_bits(kernel.launch(pool, outside, 0.85, 6), kernel.launch(pool, slots[:1], 0.85, 6))
    assert kernel.launch(pool, torch.zeros(2, 0, dtype=torch.int64), 0.85, 2).kept.tolist() == [[-1, -1]] * 2


def test_a_row_does_not_depend_on_its_company():
    pool, slots = clustered(90, 384), ranked(6, 30, 90)
    together = kernel.launch(pool, slots, 0.8, 6)
    order = torch.tensor([4, 1, 5, 0, 3, 2])
    assert same_bits(kernel.launch(pool, slots[order], 0.8, 6), [x[order] for x in together])
    assert same_bits(kernel.launch(pool, slots[3:4], 0.8, 6), [x[3:4] for x in together])
