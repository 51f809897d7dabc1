"""How close is a vector to the closest of a pool? For many vectors in one call."""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.max_similarity.checks import check, check_values
from evoctx_kernels.max_similarity.cpu import vectorized
from evoctx_kernels.max_similarity.reference import MaxSimilarity, nothing, reference

__all__ = ["MaxSimilarity", "max_similarity", "reference"]


def max_similarity(
    queries: Tensor, pool: Tensor, indptr: Tensor | None = None, slots: Tensor | None = None, *, exclude: Tensor | None = None
) -> MaxSimilarity:
    """The largest cosine of each query to a pool, or to rows of it, and where it is.

    Thought-Retriever's check at store time (arXiv 2604.12231, section 3): a thought is stored iff its similarity to all
    that is stored or was retrieved is below ε. A cosine is the dot product of the vectors as stored (unit norm is the
    caller's business), accumulated in float32 (float64 for float64 vectors).

    Args:
        queries: `[B, D]` float32, float16, bfloat16 or float64; any strides.
        pool: `[N, D]`, dtype of `queries`, contiguous.
        indptr, slots: `[B + 1]` and `[nnz]` int64, both or neither: query b is compared with
            `pool[slots[indptr[b]:indptr[b + 1]]]` only, instead of the whole pool.
        exclude: `[B]` int64, a pool row that query b is not compared with (itself), −1 for none.

    Returns:
        `similarity` `[B]` float32 (float64 for float64 inputs) and `argmax` `[B]` int64, the pool row that has it, the
        lowest of equals. With nothing to compare with: −inf, −1. Where the query or anything it is compared with holds
        NaN or infinity: NaN, −1. A query's bits are the same alone and in any batch.

    Raises:
        ValueError: a shape, device, layout, slot or indptr is wrong. On CUDA values are not waited for: a query whose
            indptr or slots point outside is flagged there like one with NaN.
        TypeError: a dtype is wrong.
    """
    return MaxSimilarity(*operator(queries, pool, indptr, slots, exclude))


@torch.library.custom_op("evoctx::max_similarity", mutates_args=())
def operator(
    queries: Tensor, pool: Tensor, indptr: Tensor | None, slots: Tensor | None, exclude: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The registered operator, vectorized PyTorch where no kernel is registered below."""
    check(queries, pool, indptr, slots, exclude)
    check_values(indptr, slots, exclude, len(pool))
    return tuple(vectorized(queries, pool, indptr, slots, exclude) if len(queries) else nothing(queries))


@operator.register_kernel("cuda")
def _(queries, pool, indptr, slots, exclude):
    from evoctx_kernels.max_similarity.triton_kernel import launch  # needs triton, which a CPU install may lack
    from evoctx_kernels.vector_tiles import supports

    check(queries, pool, indptr, slots, exclude)
    if len(queries) == 0:
        return tuple(nothing(queries))
    if supports(queries):
        return tuple(launch(queries, pool, indptr, slots, exclude))
    check_values(indptr, slots, exclude, len(pool))
    return tuple(vectorized(queries, pool, indptr, slots, exclude))


@operator.register_fake
def _(queries, pool, indptr, slots, exclude):
    return tuple(nothing(queries))
