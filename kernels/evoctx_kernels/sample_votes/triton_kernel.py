"""sample_votes on a CUDA device: sampling, majority and exact probabilities of a tile of rows in one launch."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from evoctx_kernels.hashing_triton import row_keys, uniforms
from evoctx_kernels.majority_vote.triton_kernel import IS_LOWEST, settle

TILE = 64  # numbers in the largest intermediate of a program: two a lane, and nothing is spilled up to 64 votes among 8
WARPS = 1  # so shifting a polynomial is a shuffle


@triton.jit
def column_of(tile, column, which):
    """Column `which` of [ROWS, COLUMNS], exactly."""
    return tl.sum(tl.where(column[None, :] == which, tile, 0.0), 1)


@triton.jit
def reciprocal(number):
    """1 / number in float64 for an integer from 1 to 64, to the last bit or one beside it: Newton's iteration from float32.

    A float64 division is a call on the device, around which registers are spilled; in a loop that is what it costs.
    """
    exact = tl.full((), number, tl.float64)
    guess = (1.0 / exact.to(tl.float32)).to(tl.float64)
    guess = guess * (2.0 - exact * guess)
    return guess * (2.0 - exact * guess)


@triton.jit
def times_x(series, power):
    """The polynomials [ROWS, N] multiplied by x; what passes the last power is dropped."""
    lower = tl.broadcast_to(tl.maximum(power - 1, 0)[None, :], series.shape)
    return tl.where(power[None, :] > 0, tl.gather(series, lower, 1), 0.0)


@triton.jit
def beside(chances, choice, j, m, votes, OPTIONS: tl.constexpr, POWERS: tl.constexpr):
    """As `probability.beside` for one option j: [ROWS] each."""
    power = tl.arange(0, POWERS)
    zero = tl.zeros((chances.shape[0], POWERS), tl.float64)
    alone, level = tl.where(power[None, :] == 0, 1.0, zero), zero
    for i in range(OPTIONS):
        if i != j:
            chance = column_of(chances, choice, i)[:, None]
            alone_term, level_term = alone, level
            for c in range(1, m):
                share = chance * reciprocal(c)
                alone_term = times_x(alone_term, power) * share
                level_term = times_x(level_term, power) * share
                alone += alone_term
                level += level_term
            if i > j:
                level += times_x(alone_term + level_term, power) * (chance * reciprocal(m))
    return column_of(alone, power, votes), column_of(level, power, votes)


@triton.jit
def majority_probability(
    chances, choice, tie, FACTORIAL: tl.constexpr, K: tl.constexpr, OPTIONS: tl.constexpr, POWERS: tl.constexpr
):
    """As `probability.majority_probability`: [ROWS, CHOICES], of which the first OPTIONS + 1 columns are meant."""
    zero = tl.zeros_like(chances)
    others, binomial, outcomes = zero, zero + 1.0, zero
    for i in range(OPTIONS):
        others += tl.where(choice[None, :] != i, column_of(chances, choice, i)[:, None], 0.0)
    for m in range(1, K + 1):
        binomial = binomial * chances * ((K - m + 1) * reciprocal(m))
        if m > K // 2:
            outcomes = outcomes * others + binomial
    weight = zero + FACTORIAL
    for m in range(1, K // 2 + 1):
        weight = weight * chances * reciprocal(m)
        if m * OPTIONS >= K:
            for j in range(OPTIONS):
                alone, level = beside(chances, choice, j, m, K - m, OPTIONS, POWERS)
                scale = column_of(weight, choice, j)
                outcomes += tl.where(choice[None, :] == j, (scale * alone)[:, None], 0.0)
                level_goes = tl.where(tie == IS_LOWEST, j, tl.where(tie < 0, OPTIONS, tie))
                outcomes += tl.where(choice[None, :] == level_goes, (scale * level)[:, None], 0.0)
    return outcomes


@triton.jit
def sample_votes_kernel(
    logits, seeds, temperature, votes, winner, counts, margin, probability,
    rows, temperature_stride, tie, FACTORIAL: tl.constexpr, K: tl.constexpr, OPTIONS: tl.constexpr,
    ROWS: tl.constexpr, VOTES: tl.constexpr, CHOICES: tl.constexpr, POWERS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < rows
    choice = tl.arange(0, CHOICES)
    here = there[:, None] & (choice < OPTIONS)[None, :]

    x = tl.load(logits + row[:, None] * OPTIONS + choice[None, :], mask=here, other=-float("inf")).to(tl.float64)
    heat = tl.load(temperature + row * temperature_stride, mask=there, other=1.0).to(tl.float64)
    peak = tl.max(x, 1)  # drops NaN
    valid = (tl.sum((x != x).to(tl.int32), 1) == 0) & (tl.abs(peak) < float("inf")) & (heat >= 0) & (heat < float("inf"))
    x, peak, heat = tl.where(valid[:, None], x, 0.0), tl.where(valid, peak, 0.0), tl.where(valid, heat, 1.0)[:, None]
    first = tl.min(tl.where(x == peak[:, None], choice[None, :], CHOICES), 1)
    weights = tl.exp((x - peak[:, None]) / tl.where(heat == 0, 1.0, heat))
    weights = tl.where(heat == 0, (choice[None, :] == first[:, None]).to(tl.float64), weights)

    total = tl.zeros((ROWS,), tl.float64)
    for option in range(OPTIONS):  # in the order of the edges below: the last edge is the total
        total += column_of(weights, choice, option)
    column = tl.arange(0, VOTES)
    keys = row_keys(tl.load(seeds + row, mask=there, other=0), tl.zeros_like(row))
    points = uniforms(keys[:, None], column[None, :]) * total[:, None]
    vote = tl.zeros((ROWS, VOTES), tl.int32)
    edge = tl.zeros((ROWS,), tl.float64)
    for option in range(OPTIONS - 1):
        edge += column_of(weights, choice, option)
        vote += (points >= edge[:, None]).to(tl.int32)
    vote = tl.where(valid[:, None] & (column < K)[None, :], vote, -1)
    tl.store(votes + row[:, None] * K + column[None, :], vote.to(tl.int64), mask=there[:, None] & (column < K)[None, :])
    settle(vote, row, there, winner, counts, margin, OPTIONS, tie)

    chances = tl.where((choice < OPTIONS)[None, :], weights / total[:, None], 0.0)
    outcomes = majority_probability(chances, choice, tie, FACTORIAL, K, OPTIONS, POWERS)
    outcomes = tl.where(valid[:, None], outcomes, float("nan"))
    place = probability + row[:, None] * (OPTIONS + 1) + choice[None, :]
    tl.store(place, outcomes, mask=there[:, None] & (choice <= OPTIONS)[None, :])


def shape_of(options: int, k: int) -> dict[str, int | float]:
    """The compile-time arguments: they follow from O and k alone, so that no batch changes a row's bits."""
    sizes = {
        "VOTES": triton.next_power_of_2(k),
        "CHOICES": triton.next_power_of_2(options + 1),
        "POWERS": triton.next_power_of_2(k - -(-k // options) + 1),
    }
    return {"FACTORIAL": float(math.factorial(k)), "K": k, "OPTIONS": options, "ROWS": max(1, TILE // max(sizes.values())), **sizes}


def launch(
    logits: Tensor, seeds: Tensor, k: int, temperature: Tensor, tie: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """votes `[B, k]`, winner `[B]`, counts `[B, O]`, margin `[B]`, probability `[B, O + 1]` of checked, non-empty inputs."""
    rows, options = logits.shape
    shapes = ((rows, k), (rows,), (rows, options), (rows,))
    integers = [seeds.new_empty(shape) for shape in shapes]
    probability = logits.new_empty((rows, options + 1), dtype=torch.float64)
    shape = shape_of(options, k)
    with torch.cuda.device_of(logits):
        sample_votes_kernel[(triton.cdiv(rows, shape["ROWS"]),)](
            logits.contiguous(), seeds.contiguous(), temperature, *integers, probability,
            rows, temperature.stride(0) if len(temperature) > 1 else 0, tie, **shape, num_warps=WARPS, enable_fp_fusion=True,
        )  # fmt: skip
    return *integers, probability
