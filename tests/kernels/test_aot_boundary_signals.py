"""What boundary_signals compiles to for GPUs that are not here: no spills, wide loads, enough warps to hide latency."""

from __future__ import annotations

import itertools
import os

import pytest
from evoctx_kernels.boundary_signals.aot import compile_backward, compile_forward, pool_copies

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="this process interprets")

ARCHS, DIMS, DTYPES = (80, 90, 100), (384, 768, 1024), ("fp32", "fp16", "bf16")
SMALL_N_WARPS = 18  # at least, on a multiprocessor


def subset(chosen: set[tuple], *axes: tuple) -> list:
    """All combinations, those not chosen marked slow: a compilation takes seconds."""
    return [pytest.param(*case, marks=[] if case in chosen else pytest.mark.slow) for case in itertools.product(*axes)]


def assert_clean(compiled):
    assert compiled.spills == 0
    assert compiled.stack == 0


@pytest.mark.parametrize(("arch", "dim", "dtype", "keep"), subset(
    {(80, 384, "fp16", False), (80, 1024, "fp32", True), (90, 384, "fp32", False), (90, 384, "fp16", False), (90, 768, "bf16", True),
     (100, 384, "bf16", False), (100, 768, "fp32", False), (100, 1024, "fp16", True)},
    ARCHS, DIMS, DTYPES, (False, True)))  # fmt: skip
def test_small_n(arch, dim, dtype, keep):
    compiled = compile_forward(dim, dtype, arch, keep=keep, active=keep)
    assert_clean(compiled)
    assert compiled.warps == 1
    assert compiled.occupancy >= SMALL_N_WARPS
    assert compiled.copies[128] == pool_copies(dim, dtype), "some loads of the pool are not 128 bits wide"
    assert set(compiled.copies) <= {128, 64}  # slots are 64 bits each
    assert compiled.mnemonics["BAR.SYNC.DEFER_BLOCKING"] > 0, "the distances are read back without a barrier"


@pytest.mark.parametrize(("arch", "dim", "dtype", "keep"), subset(
    {(80, 1024, "fp32", True), (90, 384, "fp16", False), (100, 768, "bf16", False)}, ARCHS, DIMS, DTYPES, (False, True)))  # fmt: skip
def test_large_n(arch, dim, dtype, keep):
    compiled = compile_forward(dim, dtype, arch, long=True, keep=keep)
    assert_clean(compiled)
    assert compiled.warps == 8
    assert compiled.occupancy >= 16
    assert compiled.copies[128] == pool_copies(dim, dtype, long=True), "some loads of the pool are not 128 bits wide"


@pytest.mark.parametrize(("arch", "dim", "dtype"), subset({(90, 384, "fp16"), (100, 1024, "fp32")}, ARCHS, DIMS, DTYPES))
def test_backward(arch, dim, dtype):
    compiled = compile_backward(dim, dtype, arch)
    assert_clean(compiled)
    assert compiled.occupancy >= SMALL_N_WARPS


def test_products_are_fused_where_it_is_written_and_nowhere_else():
    """`tl.fma` alone makes fma.rn: contraction is off, so the score's and the quantile's roundings are those of the source."""
    ptx = compile_forward(384, "fp32", 90).ptx
    assert "fma.rn.f32" in ptx
    assert "div.rn.f32" in ptx
    assert "sqrt.rn.f32" in ptx
    for approximate in ("div.full", "div.approx", "sqrt.approx"):
        assert approximate not in ptx
    assert "mul.rn.f32" in ptx or "mul.f32" in ptx  # weight times a difference, not contracted with the sum that follows


@pytest.mark.parametrize("dim", [pytest.param(16, marks=pytest.mark.slow), 48, pytest.param(400, marks=pytest.mark.slow)])
def test_other_dimensions_compile_clean(dim):
    """48 and 400 have odd factors: chunks of 16, and one chunk padded to 512."""
    assert_clean(compile_forward(dim, "fp16", 90))
