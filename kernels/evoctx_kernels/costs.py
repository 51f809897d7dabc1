"""What an operator must move and compute at least, from the shapes of its arguments: the axes of a roofline.

Bytes are those of every input read once and every output written once; FLOPs are floating-point operations, an
exponential or logarithm counted as one. Both are models of the work, not measurements of a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

NAMESPACE = "evoctx::"


class Operand(NamedTuple):
    """An argument: a tensor's shape and bytes an element, or a number (itemsize 0). An absent tensor has itemsize 0 too."""

    shape: tuple[int, ...] = ()
    itemsize: int = 0
    value: float | None = None

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.itemsize


class Cost(NamedTuple):
    """One call: rows B, bytes moved, floating-point operations."""

    rows: int
    bytes: int
    flops: int


def operand(argument: Any) -> Operand:
    """The operand of a call's argument: a tensor, a number, or anything that costs nothing."""
    if hasattr(argument, "element_size"):
        return Operand(tuple(argument.shape), argument.element_size())
    return Operand(value=float(argument)) if isinstance(argument, (int, float)) else Operand()


def cost(operator: str, operands: Sequence[Operand]) -> Cost | None:
    """The cost of a call of `operator` (with or without its namespace), None for one that is not known here.

    `operands` are those of the registered operator, in its order.
    """
    model = COSTS.get(operator.removeprefix(NAMESPACE))
    return model(*operands) if model else None


def boundary_signals(traces: Operand, pool: Operand, indptr: Operand, slots: Operand, *rest: Operand) -> Cost:
    """Each slot's vector once: a dot product and a sum of D. All rows are taken as active."""
    (rows, dim), nnz, work = traces.shape, slots.shape[0], max(traces.itemsize, 4)
    read = traces.nbytes + nnz * dim * pool.itemsize + sum(x.nbytes for x in (indptr, slots, *rest))
    kept = rows * (dim * work + 16) if len(rest) > 5 and rest[5].value else 0  # what a backward pass needs
    return Cost(rows, read + rows * (4 * work + 8 + 1) + kept, 3 * nnz * dim + 4 * rows * dim)


def boundary_signals_backward(
    coefficients: Operand, positions: Operand, traces: Operand, pool: Operand, indptr: Operand, slots: Operand, total: Operand,
    traces_needed: Operand, pool_needed: Operand, *_: Operand,
) -> Cost:  # fmt: skip
    """Three vectors of the pool a row for the traces' gradient; for the pool's, an addition of D a slot and one write a pool row."""
    (rows, dim), nnz = traces.shape, slots.shape[0]
    moved = sum(x.nbytes for x in (coefficients, positions, traces, indptr, slots, total))
    flops = 6 * rows * dim
    if traces_needed.value:
        moved, flops = moved + rows * dim * (3 * pool.itemsize + traces.itemsize), flops + 8 * rows * dim
    if pool_needed.value:
        moved, flops = moved + pool.nbytes, flops + (nnz + 6 * rows) * dim
    return Cost(rows, moved, flops)


def majority_vote(votes: Operand, options: Operand, *_: Operand) -> Cost:
    """Integers only: no FLOPs."""
    rows = votes.shape[0]
    return Cost(rows, votes.nbytes + 8 * rows * (2 + int(options.value or 0)), 0)


def sample_votes(logits: Operand, seeds: Operand, k: Operand, temperature: Operand, *_: Operand) -> Cost:
    """A weight an option, a comparison an option and vote. The probabilities of the outcomes are not counted."""
    (rows, options), votes = logits.shape, int(k.value or 0)
    written = 8 * rows * (votes + 2 + options + options + 1)
    return Cost(rows, logits.nbytes + seeds.nbytes + temperature.nbytes + written, rows * options * (4 + votes))


def first_unseen(candidates: Operand, indptr: Operand, seen: Operand, k: Operand, *_: Operand) -> Cost:
    """Integers only: no FLOPs."""
    rows = candidates.shape[0]
    return Cost(rows, candidates.nbytes + indptr.nbytes + seen.nbytes + 8 * rows * (2 * int(k.value or 0) + 1), 0)


def greedy_diverse(pool: Operand, slots: Operand, threshold: Operand, k: Operand, *_: Operand) -> Cost:
    """Every candidate's vector once and a dot product with each of k kept ones: the most there can be, as both end at the k-th kept."""
    (rows, width), dim, kept = slots.shape, pool.shape[1], int(k.value or 0)
    return Cost(rows, rows * width * dim * pool.itemsize + slots.nbytes + 8 * rows * (kept + 2), 2 * rows * width * kept * dim)


def max_similarity(queries: Operand, pool: Operand, indptr: Operand, slots: Operand, exclude: Operand, *_: Operand) -> Cost:
    """A dot product with every pool row, or with those of the query's own slots."""
    (rows, dim), work = queries.shape, max(queries.itemsize, 4)
    pairs = slots.shape[0] if slots.itemsize else rows * pool.shape[0]
    vectors = slots.shape[0] if slots.itemsize else pool.shape[0]
    read = queries.nbytes + vectors * dim * pool.itemsize + indptr.nbytes + slots.nbytes + exclude.nbytes
    return Cost(rows, read + rows * (work + 8), 2 * pairs * dim)


def gumbel_argmax(logits: Operand, *rest: Operand) -> Cost:
    """A logit: noise of two logarithms, a scaling, an addition and a comparison; its share of the log-sum-exp is three more."""
    rows, work = logits.shape[0], max(logits.itemsize, 4)
    return Cost(rows, logits.nbytes + sum(x.nbytes for x in rest) + rows * (8 + work), 8 * prod(logits.shape))


MODELS = (
    boundary_signals, boundary_signals_backward, majority_vote, sample_votes, first_unseen, greedy_diverse, max_similarity, gumbel_argmax,
)  # fmt: skip
COSTS: dict[str, Callable[..., Cost]] = {model.__name__: model for model in MODELS}
