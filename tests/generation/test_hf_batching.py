"""Micro-batches: a partition under the budget, of rows of similar length."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.generation.batching import micro_batches

SIZES = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 60)), max_size=40)


def padded(sizes, batch):
    return len(batch) * (max(sizes[i][0] for i in batch) + max(sizes[i][1] for i in batch))


@given(SIZES, st.integers(1, 3000))
def test_every_row_once_and_within_the_budget(sizes, budget):
    batches = micro_batches(sizes, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(sizes)))
    assert all(batch and (len(batch) == 1 or padded(sizes, batch) <= budget) for batch in batches)


@given(SIZES, st.integers(1, 3000))
def test_rows_come_by_falling_length_and_no_batch_could_have_taken_the_next_row(sizes, budget):
    batches = micro_batches(sizes, budget)
    lengths = [sizes[i] for batch in batches for i in batch]
    assert lengths == sorted(lengths, reverse=True)
    for batch, after in itertools.pairwise(batches):
        assert padded(sizes, [*batch, after[0]]) > budget


def test_equal_rows_keep_their_order():
    assert micro_batches([(10, 5)] * 5, 45) == [[0, 1, 2], [3, 4]]


def test_similar_lengths_share_a_batch():
    assert micro_batches([(10, 2), (100, 2), (11, 2), (99, 2)], 210) == [[1, 3], [2, 0]]
