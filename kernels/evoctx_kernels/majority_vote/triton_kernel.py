"""majority_vote on a CUDA device: a tile of rows a program, every vote read once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from evoctx_kernels.majority_vote.reference import LOWEST

TILE = 512  # votes a program, of one row or of several
WARPS = 4
IS_LOWEST = tl.constexpr(LOWEST)


@triton.jit
def settle(votes, row, there, winner, counts, margin, options, tie):
    """Count the tile `votes` [ROWS, K], decide, and store the results of the rows that are `there`."""
    best = tl.zeros_like(row).to(tl.int32)
    second = best
    leader = best - 1
    for option in range(options):
        count = tl.sum((votes == option).to(tl.int32), 1)
        tl.store(counts + row * options + option, count.to(tl.int64), mask=there)
        leads = count > best  # strictly: the lowest of equals leads
        second = tl.where(leads, best, tl.maximum(second, count))
        leader = tl.where(leads, option, leader)
        best = tl.maximum(best, count)
    undecided = (best == second) & (best > 0) & (tie != IS_LOWEST)
    tl.store(winner + row, tl.where(undecided, tie, leader).to(tl.int64), mask=there)
    tl.store(margin + row, (best - second).to(tl.int64), mask=there)


@triton.jit
def majority_vote_kernel(votes, winner, counts, margin, rows, k, options, tie, ROWS: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, K)
    there = row < rows
    tile = tl.load(votes + row[:, None] * k + column[None, :], mask=there[:, None] & (column < k)[None, :], other=-1)
    settle(tile, row, there, winner, counts, margin, options, tie)


def tile_of(k: int) -> dict[str, int]:
    """The compile-time arguments for k votes a row."""
    columns = triton.next_power_of_2(k)
    return {"ROWS": max(1, TILE // columns), "K": columns}


def launch(votes: Tensor, options: int, tie: int) -> tuple[Tensor, Tensor, Tensor]:
    """winner `[B]`, counts `[B, options]`, margin `[B]` of checked, non-empty inputs."""
    rows, k = votes.shape
    winner, counts, margin = (votes.new_empty(shape, dtype=torch.int64) for shape in ((rows,), (rows, options), (rows,)))
    tile = tile_of(k)
    with torch.cuda.device_of(votes):
        majority_vote_kernel[(triton.cdiv(rows, tile["ROWS"]),)](
            votes.contiguous(), winner, counts, margin, rows, k, options, tie, **tile, num_warps=WARPS
        )
    return winner, counts, margin
