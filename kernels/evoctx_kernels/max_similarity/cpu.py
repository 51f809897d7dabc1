"""max_similarity in vectorized PyTorch: the CPU path, and the path of any device or dtype that has no kernel of its own.

Against a whole pool, a matrix product finds the pairs that may be best; its bits depend on the batch, and may differ
between equal vectors, so these few pairs are computed again one by one. Every result comes from `pair_dots`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evoctx_kernels.max_similarity.reference import MaxSimilarity
from evoctx_kernels.pair_dots import pair_dots, product_error, work_dtype

PRODUCTS = 1 << 22  # of a block of queries with the whole pool: 16 MiB in float32
BLOCK = 4096  # vectors of the pool in one product


def vectorized(
    queries: Tensor, pool: Tensor, indptr: Tensor | None = None, slots: Tensor | None = None, exclude: Tensor | None = None
) -> MaxSimilarity:
    """As `max_similarity`, with inputs unchecked."""
    if exclude is None:
        exclude = torch.full((len(queries),), -1, dtype=torch.int64, device=queries.device)
    if indptr is not None and slots is not None:
        return best(queries, pool, indptr, slots, exclude)
    block, longest = max(1, PRODUCTS // max(1, len(pool))), longest_norm(pool)
    parts = [best(q, pool, *sieve(q, pool, longest, e), e) for q, e in zip(queries.split(block), exclude.split(block), strict=True)]
    return MaxSimilarity(*(torch.cat(column) for column in zip(*parts, strict=True)))


def best(queries: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor, exclude: Tensor) -> MaxSimilarity:
    """The largest similarity of each query to its own slots, and the lowest slot that has it."""
    owner = torch.repeat_interleave(torch.arange(len(queries), device=slots.device), indptr.diff())
    other = slots != exclude[owner]
    owner, slots = owner[other], slots[other]
    indptr = offsets(owner, len(queries))
    similarities = pair_dots(queries, pool, indptr, slots)

    finite = queries.isfinite().all(1)
    finite[owner[~similarities.isfinite()]] = False
    similarity = similarities.new_full((len(queries),), -math.inf).scatter_reduce_(0, owner, similarities, "amax")
    equal = similarities == similarity[owner]
    argmax = torch.full_like(exclude, len(pool)).scatter_reduce_(0, owner[equal], slots[equal], "amin")
    found = finite & (indptr.diff() > 0)
    return MaxSimilarity(torch.where(finite, similarity, math.nan), torch.where(found, argmax, -1))


def sieve(queries: Tensor, pool: Tensor, longest: Tensor, exclude: Tensor) -> tuple[Tensor, Tensor]:
    """The pool rows that may be the best of each query, as CSR; where products are not finite, only those that are not.

    The pair that is best one by one has a product at most 4 errors below the best: one for each of the four numbers.
    """
    work = work_dtype(pool)
    products = torch.empty((len(queries), len(pool)), dtype=work, device=pool.device)
    for start in range(0, len(pool), BLOCK):
        some = slice(start, start + BLOCK)
        products[:, some] = queries.to(work) @ pool[some].to(work).T
    products.nan_to_num_(nan=math.inf, neginf=math.inf)
    row = torch.arange(len(queries), device=pool.device)[exclude >= 0]
    products[row, exclude[exclude >= 0]] = -math.inf

    error = product_error(pool, queries.to(work).norm(dim=1), longest)
    top = products.amax(1) if len(pool) else products.new_zeros(len(queries))
    floor = top - 5 * error  # 5: norms are rounded too; NaN for a query that is not finite, which needs no pairs
    owner, slots = (products >= floor[:, None]).nonzero().unbind(1)
    return offsets(owner, len(queries)), slots


def offsets(owner: Tensor, rows: int) -> Tensor:
    """`indptr` of sorted row numbers."""
    return torch.cat((owner.new_zeros(1), torch.bincount(owner, minlength=rows).cumsum(0)))


def longest_norm(pool: Tensor) -> Tensor:
    """The largest norm of the pool's finite vectors, 0 if it has none."""
    norms = [torch.linalg.vector_norm(some, dim=1, dtype=work_dtype(pool)) for some in pool.split(BLOCK)]
    return torch.cat((pool.new_zeros(1, dtype=work_dtype(pool)), *norms)).nan_to_num(nan=0, posinf=0).amax()
