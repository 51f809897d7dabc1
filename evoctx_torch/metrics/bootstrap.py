"""Means with 95 % bootstrap intervals over questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_BATCH_NUMBERS = 4_000_000  # resampled values held at once: 32 MB of float64


class MeanCI(NamedTuple):
    """A mean and its interval; low <= mean <= high."""

    mean: float
    low: float
    high: float


def mean_ci(
    values: Sequence[float],
    *,
    seed: int = 0,
    resamples: int = 2000,
    transform: Callable[[Any], Any] | None = None,
) -> MeanCI:
    """Mean (exactly sum / n) with the 95 % percentile bootstrap interval (Efron and Tibshirani 1993, ch. 13).

    `transform` is applied to the mean of the values and of each resample: `acc_from_share` gives MultiHop-RAG's
    accuracy with its interval. It must be increasing and work on arrays. The same values and seed give the same
    interval. One value, or equal ones: the interval is the mean. It is widened to hold the mean where 2,000
    resamples happen to miss it.

    Rows that do not have the metric (None, NaN) are left out by the caller: a value that is not finite, or no value
    at all, raises `ValueError`.
    """
    import numpy as np
    from scipy.stats import bootstrap

    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not data.size or not np.isfinite(data).all():
        raise ValueError(f"expected a non-empty list of finite numbers, got {data.size} with {(~np.isfinite(data)).sum()} not finite")
    of_mean = transform or (lambda mean: mean)
    mean = float(of_mean(sum(values) / len(values)))
    if (data == data[0]).all():
        return MeanCI(mean, mean, mean)
    interval = bootstrap(
        (data,), lambda sample, axis: of_mean(sample.mean(axis=axis)), n_resamples=resamples, confidence_level=0.95,
        method="percentile", vectorized=True, batch=max(1, _BATCH_NUMBERS // data.size), rng=np.random.default_rng(seed),
    ).confidence_interval
    return MeanCI(mean, min(float(interval.low), mean), max(float(interval.high), mean))
