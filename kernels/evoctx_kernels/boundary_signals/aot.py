"""What the kernels of boundary_signals compile to on GPUs that are not here, for tests and the report."""

from __future__ import annotations

from evoctx_kernels.aot import Compiled, compile_for
from evoctx_kernels.boundary_signals.triton_backward import backward_kernel, chunk
from evoctx_kernels.boundary_signals.triton_kernel import OPTIONS, VARIANTS, boundary_signals_kernel
from evoctx_kernels.boundary_signals.triton_tiles import tiling

ITEMSIZE = {"fp32": 4, "fp16": 2, "bf16": 2}


def compile_forward(
    dim: int, dtype: str, arch: int, *, long: bool = False, keep: bool = False, active: bool = False
) -> Compiled:
    """The forward kernel as `triton_kernel.launch` starts it, for one variant."""
    floats = dict.fromkeys(("thresholds", "scratch", "near_out", "centroid_out", "tail_out", "score_out"), "*fp32")
    signature = floats | {"traces": f"*{dtype}", "pool": f"*{dtype}", "indptr": "*i64", "slots": "*i64", "argmin_out": "*i64"}
    signature |= {"action_out": "*i8", "threshold_stride": "i32", "size": "i32", "nnz": "i32"}
    optional = {"active": "*u8"} if active else {}
    optional |= {"low_out": "*i64", "high_out": "*i64", "total_out": "*fp32"} if keep else {}
    absent = dict.fromkeys({"active", "low_out", "high_out", "total_out"} - optional.keys())
    options = {"QUANTILE": 0.9, "INTERPOLATION": "linear", "KEEP": keep, "LONG": long}
    constexprs = absent | options | tiling(dim, ITEMSIZE[dtype], VARIANTS[long]["num_warps"])
    return compile_for(boundary_signals_kernel, signature | optional, constexprs, arch, **VARIANTS[long])


def pool_copies(dim: int, dtype: str, long: bool = False) -> int:
    """How many 128-bit copies a thread needs in the code to read the pool: those of a trip, and of each tile ahead."""
    warps = VARIANTS[long]["num_warps"]
    tiles = tiling(dim, ITEMSIZE[dtype], warps)
    chunks = -(-dim // tiles["C"])
    copies = chunks * tiles["ROWS"] * tiles["C"] * ITEMSIZE[dtype] // (16 * 32 * warps)
    return copies * tiles["UNROLL"] * tiles["STAGES"]


def compile_backward(dim: int, dtype: str, arch: int) -> Compiled:
    """The backward kernel as `triton_backward.launch` starts it."""
    floats = dict.fromkeys(("coefficients", "total", "grad_pool"), "*fp32")
    typed = dict.fromkeys(("traces", "pool", "grad_traces"), f"*{dtype}")
    signature = floats | typed | dict.fromkeys(("positions", "indptr", "slots"), "*i64")
    constexprs = {"TRACES": True, "POOL": True, "D": dim, "C": chunk(dim)}
    return compile_for(backward_kernel, signature, constexprs, arch, num_warps=1, **OPTIONS)
