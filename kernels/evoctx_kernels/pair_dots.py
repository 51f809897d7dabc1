"""Dot products of chosen pairs of vectors, each with the same bits whatever else is asked for."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

CHUNK = 8192  # vectors gathered at a time where nothing reads the pool in place

with warnings.catch_warnings():  # CSR tensors announce once per process that they are in beta
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.zeros(2, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0), (1, 1))


def work_dtype(vectors: Tensor) -> torch.dtype:
    """What is computed in: float32, float64 for float64 vectors."""
    return torch.float64 if vectors.dtype == torch.float64 else torch.float32


def pair_dots(vectors: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor) -> Tensor:
    """`vectors[b] · pool[slots[i]]` for every i in [indptr[b], indptr[b + 1]): `[nnz]` in the working dtype.

    `vectors [B, D]`, `pool [N, D]` of one dtype, `indptr [B + 1]` and `slots [nnz]` int64. Unlike those of a matrix
    product, a pair's bits depend on its two vectors alone.
    """
    if len(slots) == 0:
        return vectors.new_zeros(0, dtype=work_dtype(vectors))
    if pool.device.type == "cpu" and pool.dtype == work_dtype(pool):
        return sampled(vectors.contiguous(), pool, indptr, slots)
    owner = torch.repeat_interleave(torch.arange(len(vectors), device=pool.device), indptr.diff())
    chunks = zip(owner.split(CHUNK), slots.split(CHUNK), strict=True)
    return torch.cat([(vectors[b].to(work_dtype(pool)) * pool[at].to(work_dtype(pool))).sum(-1) for b, at in chunks])


def sampled(vectors: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor) -> Tensor:
    """The same without a copy of the pool's vectors: a matrix product of which only the asked entries are computed."""
    rows, columns, nnz = len(vectors), len(pool), len(slots)
    # A CSR matrix may not hold more entries than cells, which repeated slots can exceed: empty rows make room.
    room = max(0, -(-nnz // columns) - rows)
    if room:
        vectors = torch.cat((vectors, vectors.new_zeros(room, vectors.shape[1])))
        indptr = torch.cat((indptr, indptr[-1:].expand(room)))
    cells = torch.sparse_csr_tensor(indptr, slots, pool.new_zeros(nnz), (rows + room, columns), check_invariants=False)
    return torch.sparse.sampled_addmm(cells, vectors, pool.t(), beta=0.0).values()


def product_error(vectors: Tensor, norms: Tensor, others: Tensor) -> Tensor:
    """How far a dot product of D terms, summed in any order, may be from the exact one, for vectors of these norms.

    γ‖x‖‖y‖ with γ = Du/(1 − Du), u the unit roundoff (Higham 2002, "Accuracy and stability of numerical algorithms",
    section 3.1). Two ways to sum differ by at most twice that; allow for the rounding of the norms.
    """
    rounding = vectors.shape[-1] * torch.finfo(work_dtype(vectors)).eps / 2
    return rounding / (1 - rounding) * norms * others
