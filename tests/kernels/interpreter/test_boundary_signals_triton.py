"""The Triton kernels of boundary_signals on CPU tensors: the same rules as every path, the same bits in any company."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from boundary_cases import batch, csr, numpy_loop
from boundary_rules import TAUS, Rules, assert_close, same_bits
from evoctx_kernels.boundary_signals import INTERPOLATIONS, BoundarySignals, reference, triton_backward
from evoctx_kernels.boundary_signals.backward import vectorized_backward
from evoctx_kernels.boundary_signals.cpu import vectorized
from evoctx_kernels.boundary_signals.triton_kernel import launch


def kernel(*args) -> BoundarySignals:
    return BoundarySignals(*launch(*args)[:6])


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    """What a kernel leaves unwritten is NaN, or the largest integer: torch fills what it does not initialize."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    assert torch.zeros(2, 3).new_empty(3).isnan().all()
    with np.errstate(invalid="ignore", divide="ignore"):  # ‖Σx‖ = 0 divides, and is not taken
        yield
    torch.use_deterministic_algorithms(False)


class TestKernelRules(Rules):
    path = staticmethod(kernel)
    equality_rows = [1, 3, 17, 64, 65]  # noqa: RUF012


@pytest.mark.parametrize(("rows", "dim", "sizes"), [
    (1, 384, [31]), (1, 16, [1000]), (2, 48, [0, 257]), (2, 384, [65, 2]), (5, 48, [1, 64, 65, 0, 2]), (5, 16, [1000, 1, 257, 31, 64]),
    (33, 16, [1, 2, 0, 31, 0, 64, 0]),
])  # fmt: skip
def test_odd_shapes(rows, dim, sizes):
    inputs = batch((sizes * rows)[:rows], dim, seed=rows)
    got = launch(*inputs, TAUS, keep=True)
    assert_close(got, *numpy_loop(*inputs), tolerance=5e-7)
    assert got.argmin.equal(reference(*inputs, TAUS).argmin)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dim", [48, 400, 1024])
def test_half_precision_and_wide_vectors(dtype, dim):
    inputs = batch([0, 1, 6, 66], dim, dtype=dtype)
    assert_close(launch(*inputs, TAUS), *numpy_loop(*inputs), tolerance=5e-7)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("quantile", [0.0, 0.5, 1.0])
def test_every_interpolation(interpolation, quantile):
    """n = 2 and 6 put the quantile on a half, which `nearest` rounds to even."""
    inputs = batch([1, 2, 6, 4, 66], 16)
    expected = numpy_loop(*inputs, quantile=quantile, interpolation=interpolation)
    assert_close(kernel(*inputs, TAUS, None, quantile, interpolation), *expected, tolerance=5e-7)


def test_a_row_has_the_same_bits_alone_and_in_any_batch():
    sizes = [0, 1, 31, 64, 65, 9, 140]
    traces, pool, indptr, slots = batch(sizes, 48, pool_size=90)
    together = launch(traces, pool, indptr, slots, TAUS, keep=True)
    order = [4, 2, 6, 0, 3, 5, 1]
    rows = [slots[indptr[b] : indptr[b + 1]].tolist() for b in range(len(sizes))]
    shuffled = launch(traces[order], pool, *csr([rows[b] for b in order]), TAUS, keep=True)
    assert same_bits([x[order] for x in together], shuffled)
    for b in (2, 4):
        alone = launch(traces[b : b + 1], pool, *csr([rows[b]]), TAUS, keep=True)
        assert same_bits([x[b : b + 1] for x in together], alone)


def test_what_is_kept_for_gradients_is_the_cpu_paths():
    inputs = batch([0, 3, 31, 66, 130], 48)
    inputs[1][5] = inputs[1][6]  # equal distances of different slots
    ours, theirs = (path(*inputs, TAUS, None, 0.9, "linear", True) for path in (launch, vectorized))
    assert ours.low_at.equal(theirs.low_at)
    assert ours.high_at.equal(theirs.high_at)
    assert torch.allclose(ours.total, theirs.total, rtol=0, atol=1e-5)


@pytest.mark.parametrize("n", [7, 70, 1100])
def test_equal_distances_keep_their_order(n):
    """Rank r of n equal distances is at position r."""
    traces, pool, *_ = batch([0], 16)
    got = launch(traces, pool, *csr([[9] * n]), TAUS, None, 0.5, "linear", True)
    assert got.argmin.item() == 0
    assert [got.low_at.item(), got.high_at.item()] == [(n - 1) // 2, n // 2]


def test_thresholds_by_row_and_strided_inputs():
    traces, pool, indptr, slots = batch([5, 6, 7], 48)
    taus = torch.tensor([[0.3, 0.2, 0.4], [0.01, 0.01, 0.01], [1.9, 1.9, 1.9]])
    wide = torch.stack([traces, -traces], dim=2)[:, :, 0]
    got = kernel(wide, pool, indptr, slots, taus)
    assert got.action.tolist()[1:] == [1, 0]
    assert same_bits(got, kernel(traces, pool, indptr, slots, taus.double()))


@pytest.mark.parametrize("bad", [-1, 300, 1 << 40])
def test_a_slot_outside_of_the_pool_flags_its_row_alone(bad):
    inputs = batch([3, 3, 3], 16)
    clean = kernel(*inputs, TAUS)
    inputs[3][4] = bad
    got = kernel(*inputs, TAUS)
    assert all(x[1].isnan() for x in (got.near, got.centroid, got.tail, got.score))
    assert (got.argmin[1], got.action[1]) == (-1, 0)
    assert same_bits([x[[0, 2]] for x in got], [x[[0, 2]] for x in clean])


def test_an_indptr_that_points_outside_flags_its_row():
    traces, pool, _, slots = batch([3, 3, 3], 16)
    for broken in ([0, 3, 6, 10], [0, 3, 2, 9], [-1, 3, 6, 9]):
        got = kernel(traces, pool, torch.tensor(broken), slots, TAUS)
        assert got.score.isnan().any()


@pytest.mark.parametrize("dim", [1000, 8, 1040])
def test_dimensions_it_does_not_take(dim):
    with pytest.raises(ValueError, match=rf"D a multiple of 16 up to 1024, got torch.float32 \[1, {dim}\]"):
        launch(*batch([1], dim, pool_size=2), TAUS)


def test_empty_batch():
    got = launch(torch.zeros(0, 16), torch.zeros(4, 16), torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), TAUS)
    assert all(len(x) == 0 for x in got)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float16, 1e-3)])
def test_backward_is_the_deterministic_one(dtype, tolerance):
    """Which is held to float64 autograd of the reference elsewhere."""
    traces, pool, indptr, slots = batch([3, 0, 31, 2, 66, 2], 48, dtype=dtype, pool_size=40)
    traces[3] = torch.nan
    pool[0], pool[1] = pool[2], -pool[2]
    slots[-2:] = torch.tensor([0, 1])  # cancel
    out = vectorized(traces, pool, indptr, slots, TAUS, None, 0.9, "linear", True)
    coefficients = torch.rand(6, 4, generator=torch.Generator().manual_seed(0)) - 0.5
    coefficients[out.low_at < 0] = 0
    args = coefficients, torch.stack((out.argmin, out.low_at, out.high_at), 1), traces, pool, indptr, slots, out.total
    for needed in ((True, True), (True, False), (False, True)):
        for ours, exact in zip(triton_backward.launch(*args, *needed), vectorized_backward(*args, *needed), strict=True):
            assert ours.shape == exact.shape
            assert ours.dtype == exact.dtype
            assert torch.allclose(ours, exact, rtol=tolerance, atol=tolerance)
