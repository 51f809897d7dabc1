"""The option with the most votes, for all rows in one call."""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.expect import expect
from evoctx_kernels.majority_vote.cpu import vectorized
from evoctx_kernels.majority_vote.reference import ABSTAIN, LOWEST, MajorityVote, reference

__all__ = ["ABSTAIN", "LOWEST", "MajorityVote", "majority_vote", "reference", "tie_code"]

MOST = 1024  # votes a row


def majority_vote(votes: Tensor, options: int, *, tie: int | str = "lowest") -> MajorityVote:
    """The plurality of k votes among O options (ACE, arXiv 2601.08747 v1: each round's action is voted on by k agents).

        counts[o] = number of votes equal to o
        margin    = highest count − second highest (0 where O = 1)
        winner    = the option with the highest count; where several have it, what `tie` says; −1 without a valid vote

    Args:
        votes: `[B, k]` int64 or int32, k from 1 to 1,024, any strides. A value outside [0, O) is invalid and ignored.
        options: O, at least 1.
        tie: an option, which every tie then goes to (ACE: RETRIEVE); or "lowest", the lowest of those that tie;
            or "abstain", −1.

    Returns:
        `winner` `[B]`, `counts` `[B, O]`, `margin` `[B]`, all int64. margin > 0 iff the votes alone decided.

    Raises:
        ValueError: a shape, number of options or tie rule is wrong. TypeError: a dtype is wrong.
    """
    return MajorityVote(*operator(votes, options, tie_code(tie, options, "majority_vote")))


def tie_code(tie: int | str, options: int, operator: str) -> int:
    """The tie rule as the integer that operators take: an option, ABSTAIN or LOWEST."""
    if tie == "lowest":
        return LOWEST
    if tie == "abstain":
        return ABSTAIN
    if isinstance(tie, str) or not 0 <= tie < options:
        raise ValueError(f"{operator}: tie: expected an option in [0, {options}), 'lowest' or 'abstain', got {tie!r}")
    return tie


@torch.library.custom_op("evoctx::majority_vote", mutates_args=())
def operator(votes: Tensor, options: int, tie: int) -> tuple[Tensor, Tensor, Tensor]:
    """The registered operator."""
    check(votes, options, tie)
    return tuple(vectorized(votes, options, tie)) if len(votes) else empty_outputs(votes, options)


@operator.register_kernel("cuda")
def _(votes: Tensor, options: int, tie: int) -> tuple[Tensor, Tensor, Tensor]:
    from evoctx_kernels.majority_vote.triton_kernel import launch

    check(votes, options, tie)
    return launch(votes, options, tie) if len(votes) else empty_outputs(votes, options)


@operator.register_fake
def _(votes, options, tie):
    return empty_outputs(votes, options)


def empty_outputs(votes: Tensor, options: int) -> tuple[Tensor, Tensor, Tensor]:
    """Uninitialized outputs of the right shapes and dtypes."""
    rows = votes.shape[0]
    return tuple(votes.new_empty(shape, dtype=torch.int64) for shape in ((rows,), (rows, options), (rows,)))


def check(votes: Tensor, options: int, tie: int) -> None:
    """Raise ValueError or TypeError for the first input that is wrong."""
    expect(votes.dim() == 2, "majority_vote: votes", "[B, k]", list(votes.shape))
    expect(1 <= votes.shape[1] <= MOST, "majority_vote: votes", f"[B, k] with k from 1 to {MOST}", list(votes.shape))
    expect(votes.dtype in (torch.int64, torch.int32), "majority_vote: votes", "torch.int64 or torch.int32", votes.dtype, TypeError)
    expect(options >= 1, "majority_vote: options", "at least 1", options)
    expect(LOWEST <= tie < options, "majority_vote: tie", f"an option in [0, {options}), {ABSTAIN} or {LOWEST}", tie)
