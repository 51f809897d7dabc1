"""first_unseen compiles for GPUs that are not here: no spills, and enough warps to hide its waiting for memory."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from evoctx_kernels.aot import compile_for
from evoctx_kernels.first_unseen.triton_kernel import KNOWN, TILE, first_unseen_kernel

SIGNATURE = {
    "candidates": "*i64", "indptr": "*i64", "seen": "*i64", "ids": "*i64", "ranks": "*i64", "skipped": "*i64", "length": "i32", "nnz": "i32",
    "k": "i32",
}  # fmt: skip


@pytest.mark.parametrize("arch", [80, 90, 100])
@pytest.mark.parametrize("distinct", [True, False])
def test_no_spills(arch, distinct):
    shape = {"DISTINCT": distinct, "TILE": TILE, "KNOWN": KNOWN}
    got = compile_for(first_unseen_kernel, SIGNATURE, shape, arch, num_warps=1)
    assert got.spills == got.stack == 0
    assert got.occupancy >= 28  # of 32, the most blocks of one warp


def test_arguments_that_are_one():
    """Triton compiles an integer argument of value 1 as a constant: another program, that must compile too."""
    ones = dict.fromkeys(("length", "nnz", "k"), 1)
    signature = {name: kind for name, kind in SIGNATURE.items() if name not in ones}
    constants = {"DISTINCT": True, "TILE": TILE, "KNOWN": KNOWN} | ones
    assert compile_for(first_unseen_kernel, signature, constants, 90, num_warps=1).spills == 0
