"""Comparing two runs question by question: laws, known cases, and calibration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evoctx_torch.metrics.bootstrap import mean_ci
from evoctx_torch.metrics.paired import compare_paired, sign_flip_p

SCORES = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 2 / 3, 1.0])
PAIRS = st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=30)


@given(PAIRS)
@settings(max_examples=30)
def test_a_run_against_itself_differs_in_nothing(pairs: list[tuple[float, float]]) -> None:
    column = [a for a, _ in pairs]
    result = compare_paired(column, column)
    assert result.first == result.second
    assert tuple(result.difference) == (0, 0, 0)
    assert (result.p, result.won, result.lost, result.tied) == (1, 0, 0, len(pairs))


@given(PAIRS)
@settings(max_examples=30)
def test_swapping_the_runs_negates_the_difference(pairs: list[tuple[float, float]]) -> None:
    first, second = zip(*pairs, strict=True)
    there, back = compare_paired(first, second), compare_paired(second, first)
    assert (there.first, there.second) == (back.second, back.first)
    assert list(there.difference) == pytest.approx([-back.difference.mean, -back.difference.high, -back.difference.low])
    assert there.p == pytest.approx(back.p)
    assert (there.won, there.lost, there.tied) == (back.lost, back.won, back.tied)


@given(PAIRS)
@settings(max_examples=30)
def test_the_difference_is_that_of_the_means_inside_its_interval(pairs: list[tuple[float, float]]) -> None:
    first, second = zip(*pairs, strict=True)
    result = compare_paired(first, second)
    assert result.difference.mean == pytest.approx(result.second - result.first)
    assert result.difference.low <= result.difference.mean <= result.difference.high
    assert 0 < result.p <= 1
    assert result.won + result.lost + result.tied == len(pairs)
    assert result == compare_paired(first, second), "the same values give the same numbers"


def test_the_interval_is_narrower_than_that_of_unpaired_runs() -> None:
    rng = np.random.default_rng(0)
    hard = rng.random(300)  # how hard a question is moves both runs alike
    first, second = hard + rng.normal(0, 0.05, 300), hard + 0.02 + rng.normal(0, 0.05, 300)
    paired = compare_paired(first.tolist(), second.tolist()).difference
    alone = mean_ci(first.tolist())
    assert paired.high - paired.low < (alone.high - alone.low) / 3
    assert paired.low > 0


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=2, max_size=9))
@settings(max_examples=25)
def test_p_of_few_questions_is_exact(differences: list[float]) -> None:
    sums = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in itertools.product((1, -1), repeat=len(differences))]
    exact = sum(s >= abs(sum(differences)) - 1e-12 for s in sums) / len(sums)
    assert sign_flip_p(differences) == pytest.approx(exact)


def test_p_of_many_questions_is_that_of_the_normal_approximation() -> None:
    from scipy.stats import ttest_1samp

    differences = np.random.default_rng(3).normal(0.1, 1, 400)
    assert sign_flip_p(differences.tolist()) == pytest.approx(ttest_1samp(differences, 0).pvalue, abs=0.02)


def test_equal_runs_are_found_different_as_seldom_as_p_says() -> None:
    rng = np.random.default_rng(7)
    ps = [sign_flip_p((rng.random(11) - rng.random(11)).tolist()) for _ in range(300)]
    assert 0.02 <= np.mean(np.array(ps) <= 0.05) <= 0.09


@pytest.mark.parametrize(("first", "second"), [([], []), ([1.0], [1.0, 0.0]), ([float("nan")], [1.0])])
def test_columns_that_do_not_pair_are_an_error(first: list[float], second: list[float]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (three different messages)
        compare_paired(first, second)
