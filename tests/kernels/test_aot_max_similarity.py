"""max_similarity compiles for GPUs that are not here: no spills, tensor cores for half precision, wide loads."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from evoctx_kernels.aot import compile_for
from evoctx_kernels.max_similarity.triton_kernel import JOINED, PRODUCT, WARPS, join_kernel, product_kernel, rows_kernel
from evoctx_kernels.vector_tiles import tiling

PRODUCT_TYPES = {"exclude": "*i64", "bests": "*fp32", "places": "*i64", "rows": "i32", "size": "i32", "splits": "i32"}
ROWS_TYPES = {"indptr": "*i64", "slots": "*i64", "exclude": "*i64", "similarity": "*fp32", "argmax": "*i64", "size": "i32", "nnz": "i32"}
JOIN_TYPES = {"bests": "*fp32", "places": "*i64", "similarity": "*fp32", "argmax": "*i64", "splits": "i32"}
CASES = pytest.mark.parametrize(
    ("arch", "dim", "dtype"),
    [(80, 384, "fp32"), (90, 384, "fp32"), (100, 384, "fp32"), (90, 384, "fp16"), (90, 768, "bf16"), (80, 1024, "fp32"), (100, 1024, "fp16")],
)


def vectors(dtype: str) -> dict[str, str]:
    return {"queries": f"*{dtype}", "pool": f"*{dtype}"}


@CASES
def test_the_product(arch, dim, dtype):
    got = compile_for(product_kernel, vectors(dtype) | PRODUCT_TYPES, {"D": dim} | PRODUCT, arch, num_warps=WARPS)
    assert got.spills == got.stack == 0
    assert got.occupancy >= 18
    on_tensor_cores = sum(count for mnemonic, count in got.mnemonics.items() if mnemonic.startswith("HMMA"))
    assert bool(on_tensor_cores) == (dtype != "fp32"), "float32 is multiplied exactly, not as tf32"


@CASES
def test_rows_of_a_pool(arch, dim, dtype):
    shape = tiling(dim, 4 if dtype == "fp32" else 2)
    got = compile_for(rows_kernel, vectors(dtype) | ROWS_TYPES, shape, arch, num_warps=WARPS)
    assert got.spills == got.stack == 0
    assert got.occupancy >= 16
    assert set(got.loads) <= {128, 64}, "vectors 128 bits at a time, slots 64"


@pytest.mark.parametrize("arch", [80, 90, 100])
def test_joining_the_splits(arch):
    got = compile_for(join_kernel, {"queries": "*fp16"} | JOIN_TYPES, {"D": 384, "COLUMNS": 512, "JOINED": JOINED}, arch, num_warps=WARPS)
    assert got.spills == got.stack == 0
