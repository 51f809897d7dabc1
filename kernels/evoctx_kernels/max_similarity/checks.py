"""What max_similarity refuses."""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.expect import expect

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def check(queries: Tensor, pool: Tensor, indptr: Tensor | None, slots: Tensor | None, exclude: Tensor | None) -> None:
    """Raise ValueError (shapes, devices, layout) or TypeError (dtypes) for the first input that is wrong."""
    expect(queries.dim() == 2, "max_similarity: queries", "[B, D]", list(queries.shape))
    rows, dim = queries.shape
    expect(queries.dtype in FLOATS, "max_similarity: queries", "float32, float16, bfloat16 or float64", queries.dtype, TypeError)
    expect(pool.dim() == 2 and pool.shape[1] == dim, "max_similarity: pool", f"[N, {dim}]", list(pool.shape))
    expect(pool.dtype == queries.dtype, "max_similarity: pool", f"the dtype of queries, {queries.dtype}", pool.dtype, TypeError)
    expect(pool.is_contiguous(), "max_similarity: pool", "a contiguous tensor", f"strides {pool.stride()}")
    both = (indptr is None) == (slots is None)
    expect(both, "max_similarity: indptr and slots", "both or neither", "indptr alone" if slots is None else "slots alone")
    for name, tensor, shape in (("indptr", indptr, (rows + 1,)), ("slots", slots, None), ("exclude", exclude, (rows,))):
        if tensor is not None:
            right = tensor.dim() == 1 if shape is None else tensor.shape == shape
            expect(right, f"max_similarity: {name}", "[nnz]" if shape is None else str(list(shape)), list(tensor.shape))
            expect(tensor.dtype == torch.int64, f"max_similarity: {name}", "torch.int64", tensor.dtype, TypeError)
    for name, tensor in (("pool", pool), ("indptr", indptr), ("slots", slots), ("exclude", exclude)):
        if tensor is not None:
            expect(tensor.device == queries.device, f"max_similarity: {name}", f"device {queries.device}", tensor.device)


def check_values(indptr: Tensor | None, slots: Tensor | None, exclude: Tensor | None, size: int) -> None:
    """What depends on the data: on an accelerator this waits for the device."""
    if indptr is not None and slots is not None:
        first, last = indptr[[0, -1]].tolist()
        expect(first == 0 and last == len(slots), "max_similarity: indptr", f"0 first and nnz = {len(slots)} last", f"{first} and {last}")
        falls = (indptr.diff() < 0).nonzero()
        expect(len(falls) == 0, "max_similarity: indptr", "non-decreasing values", f"a decrease after row {falls[:1].flatten().tolist()}")
    for name, tensor, low in (("slots", slots, 0), ("exclude", exclude, -1)):
        if tensor is not None and len(tensor):
            least, most = (x.item() for x in tensor.aminmax())
            expected = f"values in [0, {size})" + (" or -1" if low else "")
            expect(least >= low and most < size, f"max_similarity: {name}", expected, f"values from {least} to {most}")
