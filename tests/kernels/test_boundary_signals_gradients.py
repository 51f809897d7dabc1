"""Gradients of boundary_signals: against float64 autograd of the reference, at the edges, and under compilation."""

from __future__ import annotations

import math

import pytest
import torch
from boundary_cases import batch, csr
from boundary_rules import TAUS
from evoctx_kernels.boundary_signals import INTERPOLATIONS, boundary_signals, reference
from torch import Tensor

pytestmark = pytest.mark.usefixtures("each_cpu_path")
SIGNALS = ("near", "centroid", "tail", "score")


def gradients(path, traces: Tensor, pool: Tensor, *rest, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Of the weighted sum of all finite signals, with respect to traces and pool."""
    traces, pool = traces.detach().requires_grad_(), pool.detach().requires_grad_()
    got = path(traces, pool, *rest)
    signals = torch.stack([getattr(got, name) for name in SIGNALS], dim=1)
    signals.backward(torch.where(signals.isfinite(), weights[: len(traces)].to(signals), 0))
    return traces.grad, pool.grad


def assert_agree(inputs, *options, tolerance=1e-6, path=boundary_signals):
    weights = torch.randn(len(inputs[0]), 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    got = gradients(path, *inputs, TAUS, *options, weights=weights)
    exact = gradients(reference, *(x.double() for x in inputs[:2]), *inputs[2:], TAUS.double(), *options, weights=weights)
    for ours, theirs, of in zip(got, exact, inputs, strict=False):
        assert ours.dtype == of.dtype
        assert (ours.double() - theirs).abs().max() <= tolerance * max(1, theirs.abs().max())


def keyword(active=None, quantile=0.9, interpolation="linear"):
    """`boundary_signals` with the reference's positional options."""
    return lambda t, p, i, s, taus, *_: boundary_signals(t, p, i, s, taus, active=active, quantile=quantile, interpolation=interpolation)


def test_reference_passes_gradcheck():
    traces, pool, indptr, slots = batch([1, 4, 11], 6, dtype=torch.float64, pool_size=12)
    inputs = traces.requires_grad_(), pool.requires_grad_()
    assert torch.autograd.gradcheck(lambda t, p: reference(t, p, indptr, slots, TAUS.double())[:1] + reference(t, p, indptr, slots, TAUS.double())[2:5], inputs)


def test_operator_passes_gradcheck():
    traces, pool, indptr, slots = batch([1, 4, 11, 0, 70], 16, dtype=torch.float64, pool_size=12)
    active = torch.tensor([True, True, True, True, True])
    inputs = traces.requires_grad_(), pool.requires_grad_()

    def signals(t, p):
        got = boundary_signals(t, p, indptr, slots, TAUS.double(), active=active)
        return tuple(torch.where(x.isfinite(), x, 0) for x in (got.near, got.centroid, got.tail, got.score))

    assert torch.autograd.gradcheck(signals, inputs)


@pytest.mark.parametrize("dim", [16, 48, 384])
def test_on_odd_shapes(dim):
    assert_agree(batch([0, 1, 2, 31, 64, 65, 257, 1000], dim))


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("quantile", [0.0, 0.5, 0.9, 1.0])
def test_every_interpolation(interpolation, quantile):
    inputs = batch([0, 1, 2, 5, 6, 31, 70], 16)
    assert_agree(inputs, None, quantile, interpolation, path=keyword(None, quantile, interpolation))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_once(dtype):
    resolution = torch.finfo(dtype).eps
    assert_agree(batch([0, 3, 40, 70], 48, dtype=dtype), tolerance=resolution)


def test_repeated_slots_add_up():
    traces, pool, *_ = batch([0], 16)
    assert_agree((traces, pool, *csr([[3] * 70 + [4]])))
    assert_agree((traces, pool, *csr([[3, 4, 3]])))


@pytest.mark.parametrize("signal", SIGNALS)
def test_one_signal_at_a_time(signal):
    inputs = batch([3, 9, 70], 48)
    weights = torch.zeros(3, 4, dtype=torch.float64)
    weights[:, SIGNALS.index(signal)] = 1
    for ours, exact in zip(
        gradients(boundary_signals, *inputs, TAUS, weights=weights),
        gradients(reference, *(x.double() for x in inputs[:2]), *inputs[2:], TAUS.double(), weights=weights),
        strict=True,
    ):
        assert (ours.double() - exact).abs().max() < 1e-6


def test_rows_without_gradient_get_zeros_and_leave_others_alone():
    """NaN, infinity, an empty boundary, an inactive row; a pool vector that only they use gets zeros as well."""
    traces, pool, *_ = batch([0] * 5, 16)
    traces[1, 3] = math.nan
    pool[7] = math.inf
    rows = [[0, 1], [2, 3], [7, 8], [], [4, 5]]
    active = torch.tensor([True, True, True, True, False])
    t, p = traces.requires_grad_(), pool.requires_grad_()
    got = boundary_signals(t, p, *csr(rows), TAUS, active=active)
    sum(getattr(got, name).sum() for name in SIGNALS).backward()
    assert (t.grad[1:] == 0).all()
    assert (p.grad[2:] == 0).all()
    alone_t, alone_p = traces[:1].detach().requires_grad_(), pool.detach().requires_grad_()
    got = boundary_signals(alone_t, alone_p, *csr(rows[:1]), TAUS)
    sum(getattr(got, name).sum() for name in SIGNALS).backward()
    assert t.grad[:1].equal(alone_t.grad)
    assert p.grad.equal(alone_p.grad)


def test_vectors_that_cancel_have_a_constant_centroid():
    traces, pool, *_ = batch([0], 16)
    pool[1] = -pool[0]
    assert_agree((traces, pool, *csr([[0, 1]])))


def test_equal_branches_of_the_score_share_its_gradient():
    """One vector: near = tail; equal thresholds make their ratios equal."""
    traces, pool, indptr, slots = batch([1], 16)
    taus = torch.tensor((0.3, 9.0, 0.3))
    t = traces.requires_grad_()
    centroid_is_inner = boundary_signals(t, pool, indptr, slots, taus).score
    (grad,) = torch.autograd.grad(centroid_is_inner.sum(), t)
    assert torch.allclose(grad, -pool[slots] / 0.3)  # the tail's branch alone
    taus = torch.tensor((0.3, 1e-3, 0.3))
    (grad,) = torch.autograd.grad(boundary_signals(t, pool, indptr, slots, taus).score.sum(), t)
    assert torch.allclose(grad, -pool[slots] / 0.3)  # half through near, half through tail: the same vector


def test_a_pool_without_gradient_costs_none():
    traces, pool, indptr, slots = batch([3, 4], 16)
    t = traces.requires_grad_()
    boundary_signals(t, pool, indptr, slots, TAUS).score.sum().backward()
    assert t.grad is not None
    assert pool.grad is None


def test_gradients_are_bitwise_reproducible():
    inputs = batch([40] * 16 + [300], 48, pool_size=30)
    weights = torch.ones(17, 4)
    first = gradients(boundary_signals, *inputs, TAUS, weights=weights)
    again = gradients(boundary_signals, *inputs, TAUS, weights=weights)
    assert all(a.equal(b) for a, b in zip(first, again, strict=True))


def test_discrete_outputs_have_no_gradient():
    traces, pool, indptr, slots = batch([3], 16)
    got = boundary_signals(traces.requires_grad_(), pool, indptr, slots, TAUS)
    assert not got.argmin.requires_grad
    assert not got.action.requires_grad
    with pytest.raises(RuntimeError, match="keep=True"):
        torch.ops.evoctx.boundary_signals(traces, pool, indptr, slots, TAUS, None, 0.9, "linear", True, False)[0].sum().backward()


class TestTracing:
    def test_opcheck_of_forward_with_gradients(self):
        traces, pool, indptr, slots = batch([3, 1, 70], 16)
        args = (traces.requires_grad_(), pool.requires_grad_(), indptr, slots, TAUS, None, 0.9, "linear", True, True)
        assert set(torch.library.opcheck(torch.ops.evoctx.boundary_signals.default, args).values()) == {"SUCCESS"}

    def test_opcheck_of_backward(self):
        traces, pool, indptr, slots = batch([3, 1, 70], 16)
        out = torch.ops.evoctx.boundary_signals(traces, pool, indptr, slots, TAUS, None, 0.9, "linear", True, True)
        positions = torch.stack((out[1], out[6], out[7]), dim=1)
        for needed in ((True, True), (True, False), (False, True)):
            args = (torch.rand(3, 4), positions, traces, pool, indptr, slots, out[8], *needed, False)
            assert set(torch.library.opcheck(torch.ops.evoctx.boundary_signals_backward.default, args).values()) == {"SUCCESS"}

    def test_compiles_whole_with_gradients_and_for_any_shape(self):
        compiled = torch.compile(boundary_signals, fullgraph=True, dynamic=True, backend="aot_eager")
        for sizes in ([3, 2, 70], [1, 4], [5, 9, 2, 2]):
            inputs, weights = batch(sizes, 16), torch.ones(len(sizes), 4)
            eager = gradients(boundary_signals, *inputs, TAUS, weights=weights)
            traced = gradients(compiled, *inputs, TAUS, weights=weights)
            assert all(a.equal(b) for a, b in zip(eager, traced, strict=True))
