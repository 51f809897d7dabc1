"""k votes from one forward pass, and their majority, for all rows in one call."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evoctx_kernels.expect import expect
from evoctx_kernels.majority_vote import ABSTAIN, LOWEST, tie_code
from evoctx_kernels.sample_votes.checks import check
from evoctx_kernels.sample_votes.cpu import vectorized
from evoctx_kernels.sample_votes.probability import majority_probability
from evoctx_kernels.sample_votes.reference import SampledVotes, reference

__all__ = ["ABSTAIN", "LOWEST", "SampledVotes", "majority_probability", "reference", "sample_votes"]


def sample_votes(
    logits: Tensor, seeds: Tensor, k: int, *, temperature: float | Tensor = 1.0, tie: int | str = "lowest"
) -> SampledVotes:
    """k independent samples of softmax(logits / temperature) a row, their plurality, and how probable each outcome was.

    ACE's vote without k generations (arXiv 2601.08747 v1): one forward pass scores the O action words, each vote is an
    inverse-CDF sample keyed by the row's own seed and the vote's index (`evoctx_kernels.hashing`, step 0):

        u    = uniform(seed, vote's index), strictly inside (0, 1)
        vote = the number of o < O − 1 with u · Σw ≥ w_0 + … + w_o,   w = exp((logits − max) / temperature)

    so a row's outputs have the same bits alone, in any batch and at any position, and its first votes are the same for
    every k. All in float64: between devices exp differs in its last bit, which moves a vote with probability 1e-15.

    Args:
        logits: `[B, O]` float32, float16, bfloat16 or float64, O from 1 to 8, any strides; −inf is an impossible option.
        seeds: `[B]` int64 in [0, 2⁶³), one a row.
        k: votes a row, 1 to 64.
        temperature: finite, ≥ 0; a float or `[B]` of a floating dtype. At 0 every vote is the lowest option of highest logit.
        tie: as in `majority_vote`: an option that ties go to, "lowest" or "abstain".

    Returns:
        `votes` `[B, k]`, `winner` `[B]`, `counts` `[B, O]`, `margin` `[B]` int64, as `majority_vote` has them, and
        `probability` `[B, O + 1]` float64: of each winner, that of −1 (a tie under "abstain") last; a row sums to 1.
        A row whose logits hold NaN or +inf or are all −inf, or whose temperature in a tensor is negative or not finite:
        votes and winner −1, counts and margin 0, probability NaN.
        None of them carries a gradient; `majority_probability(softmax(logits / temperature), k, tie)` is differentiable.

    Raises:
        ValueError: a shape, device, number of votes or options, float temperature or tie rule is wrong.
        TypeError: a dtype is wrong.
    """
    if not isinstance(temperature, Tensor):
        expect(0 <= temperature < math.inf, "sample_votes: temperature", "a finite number of at least 0", temperature)
        temperature = torch.full((1,), float(temperature), dtype=torch.float64, device=logits.device)
    return SampledVotes(*operator(logits, seeds, k, temperature, tie_code(tie, logits.shape[-1], "sample_votes")))


@torch.library.custom_op("evoctx::sample_votes", mutates_args=())
def operator(
    logits: Tensor, seeds: Tensor, k: int, temperature: Tensor, tie: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The registered operator."""
    check(logits, seeds, k, temperature, tie)
    return tuple(vectorized(logits, seeds, k, temperature, tie)) if len(logits) else empty_outputs(logits, k)


@operator.register_kernel("cuda")
def _(logits: Tensor, seeds: Tensor, k: int, temperature: Tensor, tie: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    from evoctx_kernels.sample_votes.triton_kernel import launch

    check(logits, seeds, k, temperature, tie)
    return launch(logits, seeds, k, temperature, tie) if len(logits) else empty_outputs(logits, k)


@operator.register_fake
def _(logits, seeds, k, temperature, tie):
    return empty_outputs(logits, k)


def empty_outputs(logits: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Uninitialized outputs of the right shapes and dtypes."""
    rows, options = logits.shape
    shapes = ((rows, k), (rows,), (rows, options), (rows,))
    integers = (logits.new_empty(shape, dtype=torch.int64) for shape in shapes)
    return *integers, logits.new_empty((rows, options + 1), dtype=torch.float64)
