"""The definition of first_unseen: one row after the other, in plain Python."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class FirstUnseen(NamedTuple):
    """What each row takes; fields are described in `first_unseen`."""

    ids: Tensor
    ranks: Tensor
    skipped: Tensor


def reference(candidates: Tensor, indptr: Tensor, seen: Tensor, k: int, distinct: bool = True) -> FirstUnseen:
    """As `first_unseen`, with inputs unchecked."""
    rows = len(candidates)
    ids, ranks, skipped = candidates.new_full((rows, k), -1), candidates.new_full((rows, k), -1), candidates.new_zeros(rows)
    for b, row in enumerate(candidates.tolist()):
        known, taken = set(seen[indptr[b] : indptr[b + 1]].tolist()), 0
        for rank, candidate in enumerate(row):
            if taken == k:
                break
            if candidate < 0:
                continue
            if candidate in known:
                skipped[b] += 1
                continue
            ids[b, taken], ranks[b, taken] = candidate, rank
            taken += 1
            if distinct:
                known.add(candidate)
    return FirstUnseen(ids, ranks, skipped)
