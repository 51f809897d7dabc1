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
    return Cost(rows, read + rows * (4 * work + 8 + 1), 3 * nnz * dim + 4 * rows * dim)


def majority_vote(votes: Operand, options: Operand, *_: Operand) -> Cost:
    """Integers only: no FLOPs."""
    rows = votes.shape[0]
    return Cost(rows, votes.nbytes + 8 * rows * (2 + int(options.value or 0)), 0)


def gumbel_argmax(logits: Operand, *rest: Operand) -> Cost:
    """A logit: noise of two logarithms, a scaling, an addition and a comparison; its share of the log-sum-exp is three more."""
    rows, work = logits.shape[0], max(logits.itemsize, 4)
    return Cost(rows, logits.nbytes + sum(x.nbytes for x in rest) + rows * (8 + work), 8 * prod(logits.shape))


COSTS: dict[str, Callable[..., Cost]] = {
    "boundary_signals": boundary_signals,
    "majority_vote": majority_vote,
    "gumbel_argmax": gumbel_argmax,
}
