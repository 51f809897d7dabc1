"""majority_vote compiles for GPUs that are not here: no spills, and every vote is read once."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from evoctx_kernels.aot import compile_for
from evoctx_kernels.majority_vote.triton_kernel import WARPS, majority_vote_kernel, tile_of

SIGNATURE = {
    "votes": "*i64", "winner": "*i64", "counts": "*i64", "margin": "*i64", "rows": "i32", "k": "i32", "options": "i32", "tie": "i32",
}  # fmt: skip


@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("k", [5, 1024])
def test_one_pass_over_the_votes(arch, k):
    shape = tile_of(k)
    got = compile_for(majority_vote_kernel, SIGNATURE, shape, arch, num_warps=WARPS)
    assert got.spills == got.stack == 0
    assert got.occupancy >= 32
    assert sum(got.loads.values()) == shape["ROWS"] * shape["K"] // (32 * WARPS), "votes are read more than once"


def test_arguments_that_are_one():
    """Triton compiles an integer argument of value 1 as a constant: another program, that must compile too."""
    ones = dict.fromkeys(("rows", "k", "options", "tie"), 1)
    signature = {name: kind for name, kind in SIGNATURE.items() if name not in ones}
    assert compile_for(majority_vote_kernel, signature, tile_of(1) | ones, 90, num_warps=WARPS).spills == 0
