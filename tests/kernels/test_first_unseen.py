"""first_unseen: the rules by hand, the vectorized path against the reference, and laws of exclusion."""

from __future__ import annotations

import pytest
import torch
from evoctx_kernels.first_unseen import first_unseen, reference
from hypothesis import given, settings
from hypothesis import strategies as st
from unseen_cases import SHAPES, batch, rows_of
from vote_cases import same_bits


def by_reference(candidates, indptr, seen, k, *, distinct=True):
    return reference(candidates, indptr, seen, k, distinct)


def one(row: list[int], seen: list[int]) -> tuple:
    return torch.tensor([row], dtype=torch.int64), torch.tensor([0, len(seen)]), torch.tensor(seen, dtype=torch.int64)


@pytest.mark.parametrize("path", [by_reference, first_unseen])
@pytest.mark.parametrize(
    ("row", "seen", "distinct", "ids", "ranks", "skipped"),
    [
        ([7, 3, 9, 4], [3], True, [7, 9], [0, 2], 1),
        ([7, 9, 3, 4], [3, 4], True, [7, 9], [0, 1], 0),  # what stands after the last taken is not counted
        ([3, 4, 7, 3], [4, 3, 3, 99], True, [7, -1], [2, -1], 3),  # too few: all that were skipped count
        ([-1, 7, -1, -1, 9], [8], True, [7, 9], [1, 4], 0),  # padding is not skipped, its rank stays
        ([7, 7, 9, 7], [], True, [7, 9], [0, 2], 1),  # a repeat is seen
        ([7, 7, 9, 7], [], False, [7, 7], [0, 1], 0),  # or wanted
        ([7, 8, 7, 8], [7], False, [8, 8], [1, 3], 2),
        ([], [7], True, [-1, -1], [-1, -1], 0),
        ([-1, -1], [-1], True, [-1, -1], [-1, -1], 0),
        ([2**62, 0], [0], True, [2**62, -1], [0, -1], 1),
    ],
)
def test_the_rules_by_hand(path, row, seen, distinct, ids, ranks, skipped):
    got = path(*one(row, seen), 2, distinct=distinct)
    assert (got.ids[0].tolist(), got.ranks[0].tolist(), got.skipped.item()) == (ids, ranks, skipped)


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.parametrize(("rows", "length", "most", "k"), [*SHAPES, (33, 33, 64, 40), (600, 9, 4, 3)])
def test_vectorized_is_the_reference(rows, length, most, k, distinct):
    inputs = batch(rows, length, most)
    assert same_bits(first_unseen(*inputs, k, distinct=distinct), reference(*inputs, k, distinct))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-1, 9), max_size=15), st.lists(st.integers(0, 9), max_size=8), st.integers(1, 6), st.booleans())
def test_laws(row, seen, k, distinct):
    got = first_unseen(*one(row, seen), k, distinct=distinct)
    ids, ranks = [i for i in got.ids[0].tolist() if i >= 0], [r for r in got.ranks[0].tolist() if r >= 0]
    assert ranks == sorted(ranks)
    assert [row[r] for r in ranks] == ids
    assert not set(ids) & set(seen)
    assert not distinct or len(set(ids)) == len(ids)
    deeper = first_unseen(*one(row, seen), k + 1, distinct=distinct)
    assert torch.equal(deeper.ids[:, :k], got.ids), "a larger k changes what comes first"
    assert deeper.skipped >= got.skipped
    if len(ids) == k:
        before = row[: ranks[-1]]
        assert got.skipped == sum(i >= 0 for i in before) - (k - 1)
    again = first_unseen(*one(row, seen + ids), k, distinct=distinct)
    assert not set(again.ids[0].tolist()) & set(ids), "what was taken is seen the next time"


def test_a_row_is_the_same_alone_and_in_any_batch():
    inputs = batch(9, 20, 12)
    together, order = first_unseen(*inputs, 5), [4, 8, 0, 1, 7, 2, 6, 3, 5]
    assert same_bits(first_unseen(*rows_of(inputs, order), 5), [x[order] for x in together])
    for b in range(9):
        assert same_bits(first_unseen(*rows_of(inputs, [b]), 5), [x[b : b + 1] for x in together])


def test_strides_and_an_empty_batch():
    candidates, indptr, seen = batch(5, 20, 12)
    wide = torch.stack((seen, seen + 1), 1)[:, 0]
    assert same_bits(first_unseen(candidates.T.contiguous().T, indptr, wide, 4), first_unseen(candidates, indptr, seen, 4))
    assert [x.shape for x in first_unseen(candidates[:0], indptr[:1], seen[:0], 4)] == [(0, 4), (0, 4), (0,)]


class TestRegistration:
    def test_opcheck(self):
        for distinct in (True, False):
            results = torch.library.opcheck(torch.ops.evoctx.first_unseen.default, (*batch(3, 7, 4), 2, distinct))
            assert set(results.values()) == {"SUCCESS"}

    def test_compiles_whole_and_for_any_shape(self):
        compiled = torch.compile(first_unseen, fullgraph=True, dynamic=True, backend="aot_eager")
        for rows, length, k in ((3, 7, 2), (1, 4, 3), (9, 30, 5)):
            inputs = batch(rows, length, 6)
            assert same_bits(compiled(*inputs, k), first_unseen(*inputs, k))

    def test_exports(self):
        class Unseen(torch.nn.Module):
            def forward(self, *inputs):
                return tuple(first_unseen(*inputs, 3))

        inputs = batch(4, 9, 5)
        program = torch.export.export(Unseen(), inputs)
        assert same_bits(program.module()(*inputs), first_unseen(*inputs, 3))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"candidates": torch.zeros(4).long()}, ValueError, r"candidates: expected \[B, K\], got \[4\]"),
        ({"candidates": torch.zeros(2, 4)}, TypeError, "candidates: expected torch.int64, got torch.float32"),
        ({"indptr": torch.tensor([0, 3])}, ValueError, r"indptr: expected \[3\] for 2 rows, got \[2\]"),
        ({"indptr": torch.tensor([0, 2, 4])}, ValueError, "indptr: expected 0 first and nnz = 3 last, got 0 and 4"),
        ({"indptr": torch.tensor([1, 2, 3])}, ValueError, "indptr: expected 0 first and nnz = 3 last, got 1 and 3"),
        ({"indptr": torch.tensor([0, 5, 3])}, ValueError, "indptr: expected non-decreasing values, got a decrease after row 1"),
        ({"indptr": torch.tensor([0, 2, 3], dtype=torch.int32)}, TypeError, "indptr: expected torch.int64, got torch.int32"),
        ({"seen": torch.zeros(1, 3).long()}, ValueError, r"seen: expected \[nnz\], got \[1, 3\]"),
        ({"k": 0}, ValueError, "k: expected at least 1, got 0"),
    ],
)
def test_wrong_input_is_refused(change, error, words):
    inputs = {"candidates": torch.zeros(2, 4).long(), "indptr": torch.tensor([0, 2, 3]), "seen": torch.tensor([1, 2, 3]), "k": 2}
    first_unseen(**inputs)
    with pytest.raises(error, match=f"first_unseen: {words}"):
        first_unseen(**{**inputs, **change})
