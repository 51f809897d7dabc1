"""boundary_signals: reference against numpy in float64, the vectorized path against the reference, and the rules."""

from __future__ import annotations

import math

import pytest
import torch
from boundary_cases import SIZES, batch, csr, numpy_loop, unit
from boundary_rules import TAUS, Rules, assert_close, same_bits
from evoctx_kernels.boundary_signals import INTERPOLATIONS, BoundarySignals, boundary_signals, reference
from evoctx_kernels.boundary_signals.checks import check
from evoctx_kernels.boundary_signals.cpu import vectorized
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("each_cpu_path")


def cpu_path(traces, pool, indptr, slots, thresholds, active=None, quantile=0.9, interpolation="linear") -> BoundarySignals:
    return boundary_signals(traces, pool, indptr, slots, thresholds, active=active, quantile=quantile, interpolation=interpolation)


class TestReferenceRules(Rules):
    path = staticmethod(reference)


class TestCpuRules(Rules):
    path = staticmethod(cpu_path)


def single_pass(*args) -> BoundarySignals:
    pytest.importorskip("numba")
    from evoctx_kernels.boundary_signals.single_pass import single_pass as path

    return BoundarySignals(*path(*args)[:6])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_with_numba_and_without_agree(dtype):
    inputs = *batch([1, 2, 31, 64, 65, 257, 0, 1000, 9], 384, dtype=dtype), TAUS
    near, argmin, centroid, tail, score, action = (x.double().numpy() for x in vectorized(*inputs)[:6])
    got = single_pass(*inputs)
    assert_close(got, near, argmin, centroid, tail, score, tolerance=5e-7 if dtype == torch.float32 else 1e-14)
    assert (got.argmin.numpy() == argmin).all()
    assert (got.action.numpy() == action).all()


@pytest.mark.parametrize("outside", [-1, 9, 1 << 40])
def test_what_points_outside_is_flagged_by_the_single_pass(outside):
    traces, pool = unit(3, 16, 0), unit(9, 16, 1)
    indptr, slots = csr([[0, 1], [2, outside], [3]])
    got, clean = single_pass(traces, pool, indptr, slots, TAUS), single_pass(traces, pool, *csr([[0, 1], [2, 3], [3]]), TAUS)
    assert got.score[1].isnan()
    assert same_bits([x[::2] for x in got], [x[::2] for x in clean])
    got = single_pass(traces, pool, torch.tensor([0, 2, outside, 5]), slots, TAUS)
    assert got.score[1:].isnan().all()
    assert same_bits([x[:1] for x in got], [x[:1] for x in clean])


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("quantile", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_reference_is_numpy_in_float64(interpolation, quantile):
    inputs = batch([1, 2, 3, 4, 5, 6, 11, 31, 64], 48, dtype=torch.float64)
    got = reference(*inputs, TAUS.double(), None, quantile, interpolation)
    expected = numpy_loop(*inputs, TAUS.double().tolist(), quantile, interpolation)
    assert_close(got, *expected, tolerance=1e-14)
    assert (got.argmin.numpy() == expected[1]).all()
    same = cpu_path(*inputs, TAUS.double(), None, quantile, interpolation)
    assert_close(same, *expected, tolerance=1e-14)


@pytest.mark.parametrize("dim", [16, 48, 384])
@pytest.mark.parametrize("rows", [1, 2, 5, 33])
def test_cpu_path_on_odd_shapes(rows, dim):
    for first, _ in enumerate(SIZES):
        inputs = batch([SIZES[(first + 3 * b) % len(SIZES)] for b in range(rows)], dim, seed=first)
        expected = numpy_loop(*inputs)
        assert_close(boundary_signals(*inputs), *expected, tolerance=5e-7)
        if rows == 5:
            assert_close(reference(*inputs, TAUS), *expected, tolerance=5e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_exact_on_the_stored_vectors(dtype):
    inputs = batch([0, 1, 31, 257, 1000, 7], 384, dtype=dtype)
    assert_close(boundary_signals(*inputs), *numpy_loop(*inputs), tolerance=5e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("dim", [16, 48, 384])
def test_a_row_has_the_same_bits_alone_and_in_any_batch(dtype, dim):
    sizes = [0, 1, 2, 31, 64, 65, 257, 1000, 9, 63, 1200]
    traces, pool, indptr, slots = batch(sizes, dim, dtype=dtype, pool_size=90)  # more slots than vectors: repeats
    together = boundary_signals(traces, pool, indptr, slots)
    order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(3)).tolist()
    rows = [slots[indptr[b] : indptr[b + 1]].tolist() for b in range(len(sizes))]
    shuffled = boundary_signals(traces[order], pool, *csr([rows[b] for b in order]))
    for position, b in enumerate(order):
        alone = boundary_signals(traces[b : b + 1], pool, *csr([rows[b]]))
        assert same_bits([x[b : b + 1] for x in together], alone), f"row of {sizes[b]} alone"
        assert same_bits([x[position : position + 1] for x in shuffled], alone), f"row of {sizes[b]} at {position}"
    moved = boundary_signals(traces, torch.cat([pool, pool])[7:].contiguous(), indptr, (slots - 7) % 90)
    assert same_bits(moved, together), "the place of a vector in the pool shows in the result"


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_show_in_the_bits(threads):
    inputs = batch([40] * 420 + [500], 384)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = boundary_signals(*inputs)
        torch.set_num_threads(threads)
        assert same_bits(boundary_signals(*inputs), expected)
    finally:
        torch.set_num_threads(before)


def test_thresholds_by_row_are_those_of_the_row():
    traces, pool, indptr, slots = batch([5, 6, 7], 48)
    taus = torch.tensor([[0.3, 0.2, 0.4], [0.01, 0.01, 0.01], [1.9, 1.9, 1.9]])
    got = boundary_signals(traces, pool, indptr, slots, taus)
    assert same_bits(boundary_signals(traces, pool, indptr, slots, taus.t().contiguous().t()), got)
    for b in range(3):
        alone = boundary_signals(traces, pool, indptr, slots, taus[b].tolist())
        assert same_bits([x[b] for x in got], [x[b] for x in alone])
    assert got.action.tolist()[1:] == [1, 0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 199), min_size=1, max_size=90), st.randoms(use_true_random=False), st.integers(0, 5))
def test_order_and_repeats_of_a_boundary(row, random, seed):
    traces, pool, *_ = batch([0], 48, seed=seed, pool_size=200)
    got = boundary_signals(traces, pool, *csr([row]))
    assert got.near <= got.tail
    shuffled = random.sample(row, len(row))
    again = boundary_signals(traces, pool, *csr([shuffled]))
    for name in ("near", "centroid", "tail"):
        assert abs(getattr(got, name) - getattr(again, name)) <= 5e-7
    assert shuffled[again.argmin] == row[got.argmin] or pool[shuffled[again.argmin]].equal(pool[row[got.argmin]])
    assert boundary_signals(traces, pool, *csr([[*row, random.choice(row)]])).near == got.near


def test_empty_batch_returns_empty_tensors():
    got = boundary_signals(torch.zeros(0, 16), torch.zeros(4, 16), torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
    assert all(x.shape == (0,) for x in got)
    assert got.action.dtype == torch.int8
    assert got.argmin.dtype == torch.int64
    assert got.near.dtype == torch.float32
    assert all(x.shape == (0,) for x in reference(torch.zeros(0, 16), torch.zeros(4, 16), *csr([]), TAUS))


def test_strided_traces_are_taken_as_they_are():
    traces, pool, indptr, slots = batch([5, 6, 7], 48)
    wide = torch.stack([traces, -traces], dim=2)[:, :, 0]
    assert not wide.is_contiguous()
    assert same_bits(boundary_signals(wide, pool, indptr, slots), boundary_signals(traces, pool, indptr, slots))


class TestRegistration:
    def test_opcheck(self):
        traces, pool, indptr, slots = batch([3, 0, 70], 16)
        for active in (None, torch.tensor([True, False, True])):
            args = (traces, pool, indptr, slots, TAUS, active, 0.9, "linear", True, False)
            results = torch.library.opcheck(torch.ops.evoctx.boundary_signals.default, args)
            assert set(results.values()) == {"SUCCESS"}

    def test_compiles_whole_and_for_any_shape(self):
        compiled = torch.compile(boundary_signals, fullgraph=True, dynamic=True, backend="aot_eager")
        for sizes in ([3, 0, 70], [1], [5, 9]):
            inputs = batch(sizes, 16)
            assert same_bits(compiled(*inputs), boundary_signals(*inputs))

    def test_exports(self):
        class Signals(torch.nn.Module):
            def forward(self, *inputs):
                return tuple(boundary_signals(*inputs))

        inputs = batch([3, 2], 16)
        program = torch.export.export(Signals(), inputs)
        assert same_bits(program.module()(*inputs), boundary_signals(*inputs))


class TestRefusals:
    """Every message says what was expected and what was got."""

    @pytest.mark.parametrize(
        ("change", "error", "words"),
        [
            ({"traces": torch.zeros(16)}, ValueError, r"traces: expected \[B, D\], got \[16\]"),
            ({"pool": torch.zeros(9, 8)}, ValueError, r"pool: expected \[N, 16\], got \[9, 8\]"),
            ({"pool": torch.zeros(9, 16).half()}, TypeError, "expected the dtype of traces, torch.float32, got torch.float16"),
            ({"traces": torch.zeros(2, 16).long()}, TypeError, "traces: expected float32.* got torch.int64"),
            ({"pool": torch.zeros(16, 9).t()}, ValueError, r"pool: expected a contiguous tensor, got strides \(1, 9\)"),
            ({"indptr": torch.tensor([0, 3])}, ValueError, r"indptr: expected \[3\] for 2 traces, got \[2\]"),
            ({"indptr": torch.tensor([0, 2, 3]).int()}, TypeError, "indptr: expected torch.int64, got torch.int32"),
            ({"indptr": torch.tensor([0, 4, 3])}, ValueError, "non-decreasing values, got a decrease after row 1"),
            ({"indptr": torch.tensor([0, 2, 4])}, ValueError, "0 first and nnz = 3 last, got 0 and 4"),
            ({"indptr": torch.tensor([1, 2, 3])}, ValueError, "0 first and nnz = 3 last, got 1 and 3"),
            ({"slots": torch.tensor([0, 9, 1])}, ValueError, r"slots: expected values in \[0, 9\), got values from 0 to 9"),
            ({"slots": torch.tensor([0, -1, 1])}, ValueError, r"slots: expected values in \[0, 9\), got values from -1 to 1"),
            ({"slots": torch.zeros(1, 3).long()}, ValueError, r"slots: expected \[nnz\], got \[1, 3\]"),
            ({"thresholds": (0.3, 0.2)}, ValueError, r"thresholds: expected \[3\] or \[2, 3\], got \[2\]"),
            ({"thresholds": (0.3, 0.0, 0.4)}, ValueError, r"thresholds: expected positive finite values, got \[0.0\]"),
            ({"thresholds": torch.ones(3).long()}, TypeError, "thresholds: expected a floating dtype, got torch.int64"),
            ({"active": torch.ones(3, dtype=torch.bool)}, ValueError, r"active: expected \[2\], got \[3\]"),
            ({"active": torch.ones(2)}, TypeError, "active: expected torch.bool, got torch.float32"),
            ({"quantile": 1.5}, ValueError, r"quantile: expected a number in \[0, 1\], got 1.5"),
            ({"quantile": math.nan}, ValueError, "quantile: .* got nan"),
            ({"interpolation": "cubic"}, ValueError, "interpolation: expected one of linear, .* got 'cubic'"),
        ],
    )
    def test_wrong_input(self, change, error, words):
        inputs = {"traces": unit(2, 16, 0), "pool": unit(9, 16, 1), "indptr": torch.tensor([0, 2, 3]), "slots": torch.tensor([0, 1, 2])}
        boundary_signals(**inputs)
        with pytest.raises(error, match=words):
            boundary_signals(**{**inputs, **change})

    def test_devices_that_differ(self):
        args = (unit(1, 16, 0), torch.zeros(9, 16, device="meta"), *csr([[1]]), TAUS, None, 0.9, "linear")
        with pytest.raises(ValueError, match="pool: expected device cpu, got meta"):
            check(*args)  # directly: torch itself routes a call with a meta tensor to the fake implementation
