"""Two runs on the same questions: whether the difference of their means is more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evoctx_torch.metrics.bootstrap import MeanCI, mean_ci

RESAMPLES = 4096  # sign flips; up to 12 questions that differ all of them are tried, and p is exact
_BATCH_NUMBERS = 1_000_000


class Paired(NamedTuple):
    """`second` against `first` in one metric: means, second - first with its 95 % interval, two-sided p, questions."""

    first: float
    second: float
    difference: MeanCI
    p: float
    won: int  # questions in which second is greater
    lost: int
    tied: int


def compare_paired(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> Paired:
    """Compare two columns whose rows are the same questions in the same order.

    The interval is the paired percentile bootstrap: questions are resampled, each with both its values, which is
    `mean_ci` of the differences (Efron and Tibshirani 1993, ch. 13). p is that of the two-sided paired randomization
    test (Fisher's sign flips; Smucker et al. 2007 for retrieval): the share of random exchanges of the two runs'
    values, question by question, whose mean difference is at least as large. A bootstrap p would be far too small
    for the few questions of a first look. Raises `ValueError` for no row, unequal lengths or a value that is not finite.
    """
    differences = [b - a for a, b in zip(first, second, strict=True)]
    interval = mean_ci(differences, seed=seed)
    won, lost = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    means = sum(first) / len(first), sum(second) / len(second)
    return Paired(*means, interval, sign_flip_p(differences, seed=seed), won, lost, len(differences) - won - lost)


def sign_flip_p(differences: Sequence[float], *, seed: int = 0) -> float:
    """Two-sided p of a mean difference under random signs; 1 where at most one question differs."""
    import numpy as np
    from scipy.stats import permutation_test

    changed = np.array([d for d in differences if d], dtype=np.float64)  # a zero keeps its sign
    if changed.size < 2:
        return 1.0
    return float(permutation_test(
        (changed,), lambda sample, axis: sample.sum(axis=axis), permutation_type="samples", vectorized=True,
        n_resamples=RESAMPLES, batch=max(1, _BATCH_NUMBERS // changed.size), rng=np.random.default_rng(seed),
    ).pvalue)
