"""greedy_diverse compiles for GPUs that are not here: no spills, every candidate in 128-bit loads."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from evoctx_kernels.aot import compile_for
from evoctx_kernels.greedy_diverse.triton_kernel import WARPS, greedy_diverse_kernel
from evoctx_kernels.vector_tiles import tiling

SIGNATURE = {
    "slots": "*i64", "kept_out": "*i64", "count_out": "*i64", "invalid_out": "*i64", "size": "i32", "width": "i32", "k": "i32", "threshold": "fp32",
}  # fmt: skip


@pytest.mark.parametrize(
    ("arch", "dim", "dtype"),
    [(80, 384, "fp32"), (90, 384, "fp32"), (100, 384, "fp32"), (90, 384, "fp16"), (90, 768, "fp16"), (90, 768, "fp32"), (80, 1024, "fp32"),
     (90, 1024, "fp16"), (100, 1024, "bf16"), (90, 304, "fp32")],
)  # fmt: skip
def test_compiles_well(arch, dim, dtype):
    shape = tiling(dim, 4 if dtype == "fp32" else 2)
    got = compile_for(greedy_diverse_kernel, {"pool": f"*{dtype}"} | SIGNATURE, shape | {"KEPT": 8}, arch, num_warps=WARPS)
    assert got.spills == got.stack == 0
    assert got.occupancy >= 16
    assert set(got.loads) <= {128, 64}, "vectors 128 bits at a time, slots 64"
    chunks = -(-dim // shape["C"])
    assert got.loads[128] >= 2 * chunks
