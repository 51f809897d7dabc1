"""The best candidates that were not shown before, for all rows in one call: de-duplicated retrieval."""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.expect import expect
from evoctx_kernels.first_unseen.cpu import vectorized
from evoctx_kernels.first_unseen.reference import FirstUnseen, reference

__all__ = ["FirstUnseen", "first_unseen", "reference"]


def first_unseen(candidates: Tensor, indptr: Tensor, seen: Tensor, k: int, *, distinct: bool = True) -> FirstUnseen:
    """The first k candidates of each row that the row has not seen (EvoCtx, arXiv 2601.08747; de-duplication, 2603.12396).

    Args:
        candidates: `[B, K]` int64 ids in order of rank, best first, any strides. A negative id is padding: it is neither
            taken nor counted.
        indptr: `[B + 1]` int64. Row b has seen `seen[indptr[b]:indptr[b + 1]]`.
        seen: `[nnz]` int64, in any order; repeats and ids that are no candidates do no harm.
        k: how many are wanted, at least 1.
        distinct: an id that was taken is seen from there on, so no id is taken twice. False takes repeats again: what
            is wanted where ids name the documents of ranked passages.

    Returns:
        `ids` `[B, k]`, the candidates taken in order of rank, and `ranks` `[B, k]`, their columns; where a row has fewer,
        the rest is −1. `skipped` `[B]`: how many seen candidates stand before the k-th taken (or in the whole row, if
        there is none). All int64; a row's outputs depend on the row alone.

    Raises:
        ValueError: a shape, device, k or indptr is wrong. On CUDA the values of indptr are not waited for: what they
            name outside `seen` is not there.
        TypeError: a dtype is wrong.
    """
    return FirstUnseen(*operator(candidates, indptr, seen, k, distinct))


@torch.library.custom_op("evoctx::first_unseen", mutates_args=())
def operator(candidates: Tensor, indptr: Tensor, seen: Tensor, k: int, distinct: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The registered operator."""
    check(candidates, indptr, seen, k)
    check_values(indptr, len(seen))
    return tuple(vectorized(candidates, indptr, seen, k, distinct)) if len(candidates) else empty_outputs(candidates, k)


@operator.register_kernel("cuda")
def _(candidates: Tensor, indptr: Tensor, seen: Tensor, k: int, distinct: bool) -> tuple[Tensor, Tensor, Tensor]:
    from evoctx_kernels.first_unseen.triton_kernel import launch

    check(candidates, indptr, seen, k)
    return launch(candidates, indptr, seen, k, distinct) if len(candidates) else empty_outputs(candidates, k)


@operator.register_fake
def _(candidates, indptr, seen, k, distinct):
    return empty_outputs(candidates, k)


def empty_outputs(candidates: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Uninitialized outputs of the right shapes and dtypes."""
    rows = candidates.shape[0]
    return candidates.new_empty((rows, k)), candidates.new_empty((rows, k)), candidates.new_empty(rows)


def check(candidates: Tensor, indptr: Tensor, seen: Tensor, k: int) -> None:
    """Raise ValueError or TypeError for the first input that is wrong."""
    what = "first_unseen: "
    expect(candidates.dim() == 2, what + "candidates", "[B, K]", list(candidates.shape))
    rows = candidates.shape[0]
    expect(indptr.shape == (rows + 1,), what + "indptr", f"[{rows + 1}] for {rows} rows", list(indptr.shape))
    expect(seen.dim() == 1, what + "seen", "[nnz]", list(seen.shape))
    expect(k >= 1, what + "k", "at least 1", k)
    for name, tensor in (("candidates", candidates), ("indptr", indptr), ("seen", seen)):
        expect(tensor.dtype == torch.int64, what + name, "torch.int64", tensor.dtype, TypeError)
        expect(tensor.device == candidates.device, what + name, f"device {candidates.device}", tensor.device)


def check_values(indptr: Tensor, nnz: int) -> None:
    """Raise ValueError for an indptr that is none."""
    first, last = int(indptr[0]), int(indptr[-1])
    expect(first == 0 and last == nnz, "first_unseen: indptr", f"0 first and nnz = {nnz} last", f"{first} and {last}")
    falls = (indptr.diff() < 0).nonzero().flatten().tolist()
    expect(not falls, "first_unseen: indptr", "non-decreasing values", f"a decrease after row {next(iter(falls), '')}")
