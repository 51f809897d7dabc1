"""greedy_diverse: reference and CPU path against numpy in float64, the law of the filter, edges, company, tracing."""

from __future__ import annotations

import math

import pytest
import torch
from evoctx_kernels.greedy_diverse import cpu, greedy_diverse, reference
from evoctx_kernels.greedy_diverse import operator as registered
from evoctx_kernels.greedy_diverse.checks import check
from evoctx_kernels.greedy_diverse.cpu import vectorized
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_cases import DTYPES, clustered, decided, greedy_by_hand, ranked, same_bits

PATHS = pytest.mark.parametrize("path", [reference, vectorized])


def lists(got) -> list[list[int]]:
    """The kept positions as lists; what stands after them must be −1."""
    rows = [row[:count] for row, count in zip(got.kept.tolist(), got.count.tolist(), strict=True)]
    assert all(set(row[count:]) <= {-1} for row, count in zip(got.kept.tolist(), got.count.tolist(), strict=True))
    return rows


@PATHS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [16, 48, 384])
def test_keeps_what_a_loop_keeps(path, dtype, dim):
    pool = clustered(60, dim, dtype=dtype)
    assert decided(pool, 0.85, 1e-7)
    for rows, width, k in ((1, 1, 1), (2, 7, 3), (5, 43, 8), (33, 20, 20)):
        slots = ranked(rows, width, 60, seed=rows)
        got = path(pool, slots, 0.85, k)
        assert lists(got) == greedy_by_hand(pool, slots, 0.85, k)
        assert got.kept.shape == (rows, k)
        assert not got.invalid.any()


@PATHS
def test_a_cosine_of_exactly_the_threshold_is_kept(path):
    pool = torch.zeros(3, 16)
    pool[0, 0], pool[1, :2], pool[2, :2] = 1, torch.tensor([0.75, 0.5]), torch.tensor([0.8125, -0.5])  # products are exact
    assert lists(path(pool, torch.tensor([[0, 1], [0, 2], [1, 0]]), 0.75, 2)) == [[0, 1], [0], [0, 1]]
    below = torch.nextafter(torch.tensor(0.75), torch.tensor(0.0)).item()
    assert lists(path(pool, torch.tensor([[0, 1], [1, 0]]), below, 2)) == [[0], [0]]


@PATHS
def test_extreme_thresholds(path):
    pool, slots = clustered(20, 48), ranked(3, 12, 20, holes=0)
    assert lists(path(pool, slots, 2.0, 5)) == [[0, 1, 2, 3, 4]] * 3
    assert lists(path(pool, slots, math.inf, 12)) == [list(range(12))] * 3
    assert lists(path(pool, slots, -2.0, 5)) == [[0]] * 3


@PATHS
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_invalid_vectors_are_counted_never_kept_and_suppress_nothing(path, poison):
    pool = clustered(20, 48, clusters=20, spread=0.01)
    order = list(range(19))
    clean = lists(path(pool, torch.tensor([order]), 0.85, 8))[0]
    bad = torch.cat((pool, pool[:1]))
    bad[20, 5] = poison
    got = path(bad, torch.tensor([[20, *order], [*order[:1], 20, *order[1:]], [*order, 20], [20] * 20]), 0.85, 8)
    shifted = [p + 1 for p in clean]
    assert lists(got) == [shifted, [p if p == 0 else p + 1 for p in clean], clean, []]
    assert got.invalid.tolist() == [1, 1, 0, 20]  # in the third row 8 are kept before it is met


@PATHS
def test_padding_may_stand_anywhere(path):
    pool = clustered(30, 48)
    got = path(pool, torch.tensor([[-1, 3, -1, 4, 9, -1], [-1] * 6, [3, 4, 9, -1, -1, -1]]), 0.85, 4)
    compact = lists(got)[2]
    assert [[-1, 3, -1, 4, 9, -1][p] for p in lists(got)[0]] == [[3, 4, 9][p] for p in compact]
    assert got.count[1] == 0
    assert lists(path(pool[:0], torch.full((2, 3), -1), 0.85, 2)) == [[], []]
    assert lists(path(pool, torch.zeros(2, 0, dtype=torch.int64), 0.85, 2)) == [[], []]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_does_not_depend_on_its_company(dtype):
    pool, slots = clustered(300, 384, dtype=dtype), ranked(17, 40, 300)
    together = greedy_diverse(pool, slots, threshold=0.8, k=8)
    order = torch.randperm(17, generator=torch.Generator().manual_seed(2))
    assert same_bits(greedy_diverse(pool, slots[order], threshold=0.8, k=8), [x[order] for x in together])
    for b in (0, 9, 16):
        wider = torch.nn.functional.pad(slots[b : b + 1], (0, 5), value=-1)
        assert same_bits(greedy_diverse(pool, wider, threshold=0.8, k=8), [x[b : b + 1] for x in together])


@pytest.mark.parametrize("dtype", DTYPES)
def test_company_does_not_show_at_the_threshold_itself(dtype, monkeypatch):
    """Thresholds are cosines of the candidates, down to the last bits, where a matrix product alone would waver."""
    pool, slots = clustered(120, 384, dtype=dtype, clusters=3), ranked(9, 40, 120, seed=4)
    near = (pool[slots[0, :4]].double() @ pool[slots[0, 4:8]].double().T).flatten().tolist()
    for threshold in [*near[:6], 1.0]:
        together = greedy_diverse(pool, slots, threshold=threshold, k=30)
        for b in range(0, 9, 3):
            assert same_bits(greedy_diverse(pool, slots[b : b + 1], threshold=threshold, k=30), [x[b : b + 1] for x in together])
        with monkeypatch.context() as patch:
            patch.setattr(cpu, "GATHERED", 40_000)
            assert same_bits(greedy_diverse(pool, slots, threshold=threshold, k=30), together)


def test_dense_candidates_are_a_pool_of_their_own():
    pool, slots = clustered(50, 48), ranked(6, 20, 50, holes=0)
    assert same_bits(greedy_diverse(pool[slots], threshold=0.85, k=4), greedy_diverse(pool, slots, threshold=0.85, k=4))
    turned = pool[slots].transpose(0, 1).contiguous().transpose(0, 1)
    assert same_bits(greedy_diverse(turned, threshold=0.85, k=4), greedy_diverse(pool, slots, threshold=0.85, k=4))


@given(
    row=st.lists(st.integers(-1, 39), min_size=1, max_size=40), threshold=st.floats(-1.0, 1.1), k=st.integers(1, 12), seed=st.integers(0, 3)
)
@settings(max_examples=60, deadline=None)
def test_the_kept_are_diverse_and_the_dropped_are_not(row, threshold, k, seed):
    pool = clustered(40, 48, seed=seed)
    got = greedy_diverse(pool, torch.tensor([row]), threshold=threshold, k=k)
    kept = lists(got)[0]
    assert kept == sorted(set(kept))
    assert len(kept) <= k
    cosine = pool.double() @ pool.double().T
    for i, position in enumerate(kept):
        assert all(cosine[row[position], row[other]] <= threshold + 1e-6 for other in kept[:i])
    end = kept[-1] if len(kept) == k else len(row)
    for position, slot in enumerate(row[:end]):
        if slot >= 0 and position not in kept:
            assert any(cosine[slot, row[other]] > threshold - 1e-6 for other in kept if other < position)
    again = greedy_diverse(pool, torch.tensor([[row[p] for p in kept] or [-1]]), threshold=threshold, k=k)
    assert again.count.item() == len(kept), "what is kept is kept again"


def test_empty_batch():
    got = greedy_diverse(clustered(5, 16), torch.zeros(0, 4, dtype=torch.int64), threshold=0.85, k=3)
    assert [list(x.shape) for x in got] == [[0, 3], [0], [0]]
    assert greedy_diverse(torch.zeros(0, 4, 16), threshold=0.85, k=3).kept.shape == (0, 3)


@pytest.mark.filterwarnings("ignore")
def test_the_operator_is_registered_well():
    for dtype in (torch.float32, torch.float16):
        torch.library.opcheck(registered, (clustered(20, 16, dtype=dtype), ranked(4, 7, 20), 0.85, 3))


@pytest.mark.filterwarnings("ignore")
def test_compile_and_export():
    def keep(pool, slots):
        return tuple(greedy_diverse(pool, slots, threshold=0.85, k=3))

    compiled = torch.compile(keep, fullgraph=True, dynamic=True, backend="aot_eager")
    pool = clustered(20, 16)
    for rows in (3, 5):
        slots = ranked(rows, 7, 20)
        assert same_bits(compiled(pool, slots), keep(pool, slots))

    class Filter(torch.nn.Module):
        def forward(self, candidates):
            return tuple(greedy_diverse(candidates, threshold=0.85, k=3))

    exported = torch.export.export(Filter(), (pool[ranked(4, 7, 20, holes=0)],), dynamic_shapes=({0: torch.export.Dim("B")},))
    candidates = pool[ranked(6, 7, 20, seed=1, holes=0)]
    assert same_bits(exported.module()(candidates), greedy_diverse(candidates, threshold=0.85, k=3))


def test_wrong_input_is_refused():
    pool, slots = clustered(9, 16), torch.zeros(2, 3, dtype=torch.int64)
    for args, threshold, k, error, words in (
        ((pool,), 0.85, 2, ValueError, r"candidates: expected \[B, K, D\] where no slots are given, got \[9, 16\]"),
        ((pool[None], slots), 0.85, 2, ValueError, r"candidates: expected \[N, D\] with slots"),
        ((pool, slots[0]), 0.85, 2, ValueError, r"slots: expected \[B, K\], got \[3\]"),
        ((pool, slots + 9), 0.85, 2, ValueError, r"slots: expected values in \[0, 9\), or -1, got values from 9 to 9"),
        ((pool, slots - 2), 0.85, 2, ValueError, "got values from -2 to -2"),
        ((pool, slots.int()), 0.85, 2, TypeError, r"slots: expected torch.int64, got torch.int32"),
        ((pool.long(), slots), 0.85, 2, TypeError, "candidates: expected float32, float16, bfloat16 or float64, got torch.int64"),
        ((pool.T, slots), 0.85, 2, ValueError, "expected a contiguous pool"),
        ((pool, slots), math.nan, 2, ValueError, "threshold: expected a number, got nan"),
        ((pool, slots), 0.85, 0, ValueError, "k: expected at least 1, got 0"),
    ):
        with pytest.raises(error, match=words):
            greedy_diverse(*args, threshold=threshold, k=k)
    with pytest.raises(ValueError, match="slots: expected device cpu, got meta"):
        check(pool, slots.to("meta"), 0.85, 2)
