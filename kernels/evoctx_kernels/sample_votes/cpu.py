"""sample_votes in vectorized PyTorch: the CPU path, and the path of any device that has no kernel of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.hashing import uniforms
from evoctx_kernels.majority_vote import LOWEST
from evoctx_kernels.majority_vote.cpu import vectorized as majority
from evoctx_kernels.sample_votes.probability import majority_probability
from evoctx_kernels.sample_votes.reference import SampledVotes


def vectorized(logits: Tensor, seeds: Tensor, k: int, temperature: Tensor, tie: int = LOWEST) -> SampledVotes:
    """As `sample_votes`, with `temperature` `[1]` or `[B]`, `tie` an integer as in `majority_vote`, and inputs unchecked."""
    options = logits.shape[1]
    logits = logits.double()
    peak, first = logits.max(1)  # NaN where the row has one; the lowest of equals
    valid = (peak.isfinite() & (temperature >= 0) & temperature.isfinite())[:, None]
    heat = temperature.double()[:, None]
    cold = heat == 0
    weights = ((logits - peak[:, None]) / torch.where(cold, 1.0, heat)).exp()
    weights = torch.where(cold, torch.nn.functional.one_hot(first, options), weights)
    weights = torch.where(valid, weights, 1.0)

    edges = weights.cumsum(1)
    points = uniforms(seeds, k) * edges[:, -1:]  # strictly below the last edge, also after rounding
    votes = (points[:, :, None] >= edges[:, None, :-1]).sum(2)
    votes = torch.where(valid, votes, -1)
    probability = torch.where(valid, majority_probability(weights / edges[:, -1:], k, tie), torch.nan)
    return SampledVotes(votes, *majority(votes, options, tie), probability)
