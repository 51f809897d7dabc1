"""gumbel_argmax compiles for GPUs that are not here: no spills, wide loads, accurate logarithms."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from evoctx_kernels.aot import compile_for
from evoctx_kernels.row_gumbel.triton_kernel import TOKENS, WARPS, join_kernel, split_kernel

SPLIT = {
    "logits": "*fp32", "allowed": "*u8", "seeds": "*i64", "steps": "*i64", "temperatures": "*fp32", "scores": "*fp32", "tokens": "*i32",
    "tops": "*fp32", "masses": "*fp32", "vocab": "i32", "logits_stride": "i32", "allowed_stride": "i32",
}  # fmt: skip
JOIN = {
    "logits": "*fp32", "temperatures": "*fp32", "scores": "*fp32", "tokens": "*i32", "tops": "*fp32", "masses": "*fp32", "chosen": "*i64",
    "logprobs": "*fp32", "vocab": "i32", "logits_stride": "i32", "splits": "i32",
}  # fmt: skip
ALIGNED = [name for name, kind in SPLIT.items() if kind.startswith("*")] + ["vocab", "logits_stride", "allowed_stride"]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("arch", "dtype"), [(80, "fp32"), (90, "fp32"), (100, "fp32"), (90, "fp16"), (90, "bf16")])
def test_one_pass_over_the_logits(arch, dtype, masked):
    signature = SPLIT | {"logits": f"*{dtype}"}
    got = compile_for(split_kernel, signature, {"MASKED": masked, "TOKENS": TOKENS}, arch, ALIGNED, num_warps=WARPS, enable_fp_fusion=True)
    assert got.spills == got.stack == 0
    assert got.occupancy >= 24
    tokens_a_thread = TOKENS // (32 * WARPS)
    assert got.loads[128] == tokens_a_thread * (4 if dtype == "fp32" else 2) // 16 + masked * tokens_a_thread // 16, got.loads
    assert "lg2.approx" not in got.ptx, "an approximate logarithm near 1 would ruin the largest noise"


@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("splits", [1, 64])
def test_joining_the_splits(arch, splits):
    got = compile_for(join_kernel, JOIN, {"SPLITS": splits}, arch, num_warps=1, enable_fp_fusion=True)
    assert got.spills == got.stack == 0
    assert got.occupancy >= 18
