"""Bootstrap intervals: laws, known distributions, determinism."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evoctx_torch.metrics.bootstrap import mean_ci
from evoctx_torch.metrics.multihoprag import acc_from_share

VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@given(VALUES)
@settings(max_examples=40)
def test_the_mean_is_exact_and_inside_its_interval(values: list[float]) -> None:
    result = mean_ci(values, resamples=200)
    assert result.mean == sum(values) / len(values)
    assert result.low <= result.mean <= result.high
    assert result == mean_ci(values, resamples=200)
    if len(set(values)) == 1:
        assert result.low == result.mean == result.high
    else:
        assert min(values) <= result.low + 1e-12
        assert result.high <= max(values) + 1e-12


def test_width_is_that_of_the_normal_approximation() -> None:
    values = [float(i % 4 == 0) for i in range(400)]
    result = mean_ci(values)
    half = 1.96 * math.sqrt(0.25 * 0.75 / 400)
    assert result.low == pytest.approx(0.25 - half, abs=0.01)
    assert result.high == pytest.approx(0.25 + half, abs=0.01)


def test_95_percent_of_intervals_hold_the_truth() -> None:
    rng = np.random.default_rng(5)
    inside = 0
    for trial in range(200):
        result = mean_ci(rng.binomial(1, 0.4, size=100).tolist(), seed=trial, resamples=500)
        inside += result.low <= 0.4 <= result.high
    assert 0.88 <= inside / 200 <= 0.99


def test_resampling_in_batches_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random(50).tolist()
    whole = mean_ci(values)
    monkeypatch.setattr("evoctx_torch.metrics.bootstrap._BATCH_NUMBERS", 700)
    assert mean_ci(values) == whole


def test_another_seed_gives_another_interval_of_the_same_mean() -> None:
    values = np.random.default_rng(0).random(50).tolist()
    a, b = mean_ci(values, seed=0), mean_ci(values, seed=1)
    assert a.mean == b.mean
    assert (a.low, a.high) != (b.low, b.high)


def test_multihoprag_accuracy_transforms_mean_and_interval() -> None:
    hits = [float(i % 3 == 0) for i in range(90)]
    share, acc = mean_ci(hits), mean_ci(hits, transform=acc_from_share)
    assert list(acc) == pytest.approx([acc_from_share(value) for value in share], abs=2e-3)
    assert acc.mean == acc_from_share(share.mean)
    assert mean_ci([1.0, 1.0], transform=acc_from_share) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("values", [[], [0.5, float("nan")], [float("inf")], [1.0, None]])
def test_rows_without_the_metric_must_be_left_out(values: list) -> None:
    with pytest.raises(ValueError, match="finite"):
        mean_ci(values)
