"""The definition of majority_vote: one row after the other, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

LOWEST, ABSTAIN = -2, -1  # how tie rules that are no option are written as integers


class MajorityVote(NamedTuple):
    """Who won each row's vote; fields are described in `majority_vote`."""

    winner: Tensor
    counts: Tensor
    margin: Tensor


def reference(votes: Tensor, options: int, tie: int = LOWEST) -> MajorityVote:
    """As `majority_vote`, with `tie` an option, ABSTAIN or LOWEST, and inputs unchecked."""
    counts = [[row.count(option) for option in range(options)] for row in votes.tolist()]
    decided = [decide(row, tie) for row in counts]
    kind = {"dtype": torch.int64, "device": votes.device}
    winner, margin = torch.tensor(decided, **kind).view(-1, 2).unbind(1)
    return MajorityVote(winner.clone(), torch.tensor(counts, **kind).view(-1, options), margin.clone())


def decide(counts: Sequence[int], tie: int) -> tuple[int, int]:
    """(winner, margin) of one row's counts."""
    best, second = sorted([*counts, 0], reverse=True)[:2]
    if best == 0:
        return -1, 0
    return (counts.index(best) if best > second or tie == LOWEST else tie), best - second
