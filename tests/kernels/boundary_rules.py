"""What every path of boundary_signals must do at the edges: subclasses name the path."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import torch
from boundary_cases import THRESHOLDS, batch, csr
from evoctx_kernels.boundary_signals import BoundarySignals

TAUS = torch.tensor(THRESHOLDS)


def same_bits(a, b) -> bool:
    return all(torch.equal(x.nan_to_num(nan=-7.0), y.nan_to_num(nan=-7.0)) for x, y in zip(a, b, strict=True))


def assert_close(got, near, argmin, centroid, tail, score, tolerance):
    for name, value in (("near", near), ("centroid", centroid), ("tail", tail)):
        np.testing.assert_allclose(getattr(got, name).double().numpy(), value, rtol=0, atol=tolerance, err_msg=name)
    np.testing.assert_allclose(got.score.double().numpy(), score, rtol=0, atol=tolerance / min(THRESHOLDS))
    decided = np.abs(score - 1) > 1e-6
    assert ((got.action.numpy() == 1) == (score >= 1))[decided].all()
    assert got.argmin.shape == argmin.shape


class Rules:
    """`path(traces, pool, indptr, slots, thresholds, active, quantile, interpolation)` obeys the rules of the docstring."""

    path: ClassVar[Callable[..., BoundarySignals]]
    equality_rows: ClassVar[list[int]] = [1, 2, 3, 17, 64, 65, 500] * 9

    def test_empty_boundary_retrieves(self):
        traces, pool, *_ = batch([0], 16)
        got = self.path(traces, pool, *csr([[]]), TAUS)
        assert [x.item() for x in got] == [math.inf, -1, math.inf, math.inf, math.inf, 1]
        assert [x.item() for x in self.path(traces, pool[:0], *csr([[]]), TAUS)] == [math.inf, -1, math.inf, math.inf, math.inf, 1]

    @pytest.mark.parametrize("where", ["trace", "first", "last", "only", "trace without boundary"])
    def test_nan_and_infinity_are_flagged_and_stay_in_their_row(self, where):
        traces, pool, *_ = batch([0] * 5, 16)
        clean = self.path(traces[::4], pool, *csr([[0, 1], [3, 4]]), TAUS)
        poisons, rows = (math.nan, math.inf, -math.inf), [[0, 1], [], [], [], [3, 4]]
        for b, poison in enumerate(poisons, start=1):
            rows[b] = {"first": [4 + b, 1, 2], "last": [1, 2, 4 + b], "only": [4 + b], "trace": [1, 2]}.get(where, [])
            if where.startswith("trace"):
                traces[b, 3] = poison
                traces[b, 4] = 0
            else:
                pool[4 + b, 3] = poison
                traces[b, 3] = 0  # 0 * inf is NaN, not 0
        got = self.path(traces, pool, *csr(rows), TAUS)
        for value in (got.near, got.centroid, got.tail, got.score):
            assert value[1:4].isnan().all()
        assert (got.argmin[1:4] == -1).all()
        assert (got.action[1:4] == 0).all()
        assert same_bits([x[::4] for x in got], clean)

    def test_opposite_infinities_do_not_cancel(self):
        traces, pool, *_ = batch([0], 16)
        pool[5, 3], pool[6, 3] = math.inf, -math.inf
        assert self.path(traces, pool, *csr([[5, 6]]), TAUS).score.isnan().all()

    def test_inactive_rows_are_zeros_and_unread(self):
        traces, pool, *_ = batch([0] * 4, 16)
        traces[1] = math.nan
        pool[7] = math.nan
        indptr, slots = csr([[0, 1], [2], [7, 7, 7], [3, 4]])
        got = self.path(traces, pool, indptr, slots, TAUS, torch.tensor([True, False, False, True]))
        assert all((x[1:3] == 0).all() for x in got)
        kept = self.path(traces[[0, 3]], pool, *csr([[0, 1], [3, 4]]), TAUS)
        assert same_bits([x[[0, 3]] for x in got], kept)
        assert all((x == 0).all() for x in self.path(traces, pool, indptr, slots, TAUS, torch.zeros(4, dtype=torch.bool)))

    def test_zero_vectors_are_at_distance_one(self):
        traces, pool, *_ = batch([0] * 3, 16)
        pool[0] = 0
        traces[2] = 0
        got = self.path(traces, pool, *csr([[0], [0, 1], [1, 2]]), TAUS)
        assert got.near[0] == got.centroid[0] == got.tail[0] == 1
        assert got.near[1] < 1
        assert got.argmin[1] == 1
        assert got.near[2] == got.centroid[2] == got.tail[2] == 1
        assert got.argmin[2] == 0

    def test_vectors_that_cancel_have_centroid_one(self):
        traces, pool, *_ = batch([0], 16)
        pool[1] = -pool[0]
        got = self.path(traces, pool, *csr([[0, 1]]), TAUS)
        assert got.centroid == 1
        assert got.score.isfinite()

    def test_one_vector_is_all_three_signals(self):
        got = self.path(*batch([1], 384), TAUS)
        assert got.near == got.tail
        assert abs(got.centroid - got.near) < 5e-7
        assert got.argmin == 0

    def test_ties_take_the_lowest_position(self):
        traces, pool, *_ = batch([0], 384)
        nearest = int((pool[:80] @ traces[0]).argmax())
        row = [s for s in range(80) if s != nearest]
        assert self.path(traces, pool, *csr([[*row[:5], nearest, *row[5:], nearest]]), TAUS).argmin == 5
        assert self.path(traces, pool, *csr([[9] * 70]), TAUS).argmin == 0

    def test_a_score_of_exactly_one_retrieves(self):
        """With thresholds equal to the signals, down to the last bit; one step above them, THINK."""
        inputs = batch(self.equality_rows, 48, seed=5)
        s = self.path(*inputs, TAUS)
        signals = torch.stack([s.near, s.centroid, s.tail], 1)
        high = torch.full_like(s.near, 3.0)
        above = torch.nextafter(signals, torch.tensor(9.0))
        for taus, step in ((signals, above), (torch.stack([*signals[:, :2].T, high], 1), torch.stack([*above[:, :2].T, high], 1))):
            at = self.path(*inputs, taus)
            assert (at.action == 1).all()
            assert (at.score == 1).all()
            under = self.path(*inputs, step)
            assert (under.action == 0).all()
            assert (under.score < 1).all()
        one = self.path(*inputs, torch.stack([signals[:, 0], above[:, 1], high], 1))
        assert (one.action == 0).all()
        assert (one.score < 1).all()
