"""Who wins a plurality of k independent votes, exactly, for any number of options: sums of positive terms only."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evoctx_kernels.majority_vote import LOWEST


def majority_probability(chances: Tensor, k: int, tie: int = LOWEST) -> Tensor:
    """The probability of each outcome of k votes, `[B, O + 1]` float64, the outcome −1 in the last column.

    A winner with m > k/2 votes has no rival, so these m are a binomial sum. For the others the counts of the options are
    taken from the multinomial's generating function, a product of exponential series that are cut off (for the exact
    distribution of multinomial maxima see Corrado 2011, Statistics and Computing 21):

        P(j alone has m, the others less) = k! · pⱼᵐ/m! · [x^(k−m)] Π_{i≠j} Σ_{c<m} (pᵢx)ᶜ/c!

    and likewise where options above j have m too, so that j is the lowest of a tie. Every term is positive: relative
    errors stay near 1e-14 even for outcomes of vanishing probability. Differentiable; a row's bits are its own.

    Args:
        chances: `[B, O]` float64, rows sum to 1.
        k: number of votes; to 64 no term leaves the range of float64.
        tie: an option, ABSTAIN or LOWEST, as in `majority_vote`.
    """
    rows, options = chances.shape
    binomial, clear = torch.ones_like(chances), torch.zeros_like(chances)
    others = torch.stack([sum((chances[:, i] for i in range(options) if i != j), chances.new_zeros(rows)) for j in range(options)], 1)
    for m in range(1, k + 1):
        binomial = binomial * chances * (k - m + 1) / m
        if m > k // 2:
            clear = clear * others + binomial  # Horner's rule: Σ C(k, m) pᵐ qᵏ⁻ᵐ

    undecided = chances.new_zeros(rows)
    weight = torch.full_like(chances, float(math.factorial(k)))
    for m in range(1, k // 2 + 1):
        weight = weight * chances / m
        if m * options >= k:
            alone, level = beside(chances, m, k - m)
            clear = clear + weight * (alone + level if tie == LOWEST else alone)
            undecided = undecided + (weight * level).sum(1)
    outcomes = [*clear.unbind(1), chances.new_zeros(rows)]
    if tie != LOWEST:
        outcomes[tie] = outcomes[tie] + undecided
    return torch.stack(outcomes, 1)


def beside(chances: Tensor, m: int, votes: int) -> tuple[Tensor, Tensor]:
    """Two `[B, O]`: the weights of the ways in which, beside option j, the other options share `votes` ≥ m votes.

    Each has less than m; or options above j may have m, and at least one does. The weight of counts c is Π pᵢ^cᵢ/cᵢ!.
    """
    rows, options = chances.shape
    # [alone or level, B, j, x]: the coefficient of xⁿ over the options seen so far
    series = torch.cat((chances.new_ones(1, rows, options, 1), chances.new_zeros(1, rows, options, 1))), (0, votes)
    series = torch.nn.functional.pad(*series)
    for i in range(options):
        product, power = series.clone(), torch.ones_like(chances[:, i, None, None])
        for c in range(1, m + 1):
            power = power * chances[:, i, None, None] / c
            moved = series[..., : votes + 1 - c] * power
            if c < m:
                product[..., c:] += moved
            else:
                product[1, :, :i, c:] += moved[0, :, :i] + moved[1, :, :i]
        product[:, :, i] = series[:, :, i]  # an option is not among its own others
        series = product
    alone, level = series[..., votes].unbind(0)
    return alone, level
