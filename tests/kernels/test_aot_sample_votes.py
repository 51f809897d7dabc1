"""sample_votes compiles for GPUs that are not here, without spills even for 64 votes among 8 options."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from evoctx_kernels.aot import compile_for
from evoctx_kernels.sample_votes.triton_kernel import WARPS, sample_votes_kernel, shape_of

SIGNATURE = {
    "seeds": "*i64", "temperature": "*fp64", "votes": "*i64", "winner": "*i64", "counts": "*i64", "margin": "*i64",
    "probability": "*fp64", "rows": "i32", "temperature_stride": "i32", "tie": "i32",
}  # fmt: skip


@pytest.mark.parametrize(
    ("arch", "dtype", "k", "options"),
    [(80, "fp32", 5, 2), (90, "bf16", 5, 2), (100, "fp32", 5, 2), (90, "fp16", 64, 2), (80, "fp32", 64, 8), (90, "fp32", 64, 8), (100, "fp32", 64, 8)],
)
def test_no_spills(arch, dtype, k, options):
    signature = {"logits": f"*{dtype}"} | SIGNATURE
    got = compile_for(sample_votes_kernel, signature, shape_of(options, k), arch, num_warps=WARPS, enable_fp_fusion=True)
    assert got.spills == got.stack == 0
    assert got.occupancy >= 28  # of 32, the most blocks of one warp
    assert got.shared <= 512


def test_arguments_that_are_one():
    """Triton compiles an integer argument of value 1 as a constant: another program, that must compile too."""
    ones = dict.fromkeys(("rows", "temperature_stride", "tie"), 1)
    signature = {"logits": "*fp32"} | {name: kind for name, kind in SIGNATURE.items() if name not in ones}
    constants = shape_of(3, 4) | ones
    assert compile_for(sample_votes_kernel, signature, constants, 90, num_warps=WARPS, enable_fp_fusion=True).spills == 0
