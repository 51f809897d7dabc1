"""majority_vote in vectorized PyTorch: the CPU path, and the path of any device that has no kernel of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.majority_vote.reference import LOWEST, MajorityVote


def vectorized(votes: Tensor, options: int, tie: int = LOWEST) -> MajorityVote:
    """As `majority_vote`, with `tie` an option, ABSTAIN or LOWEST, and inputs unchecked."""
    valid = (votes >= 0) & (votes < options)
    counts = torch.zeros((len(votes), options + 1), dtype=torch.int64, device=votes.device)
    counts.scatter_add_(1, torch.where(valid, votes, options).long(), torch.ones_like(votes, dtype=torch.int64))
    counts = counts[:, :options].contiguous()  # the last column holds the invalid votes
    best, leader = counts.max(1)  # the lowest of equals
    second = counts.scatter(1, leader[:, None], 0).amax(1)
    winner = leader if tie == LOWEST else torch.where(best == second, tie, leader)
    return MajorityVote(torch.where(best == 0, -1, winner), counts, best - second)
