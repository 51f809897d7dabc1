"""gumbel_argmax on a device: one pass over the logits by programs of a fixed number of tokens, then one over their bests.

A row is split by its length alone and its parts are joined in one order, so company never shows in its bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from evoctx_kernels.hashing_triton import counted, row_keys, scramble
from evoctx_kernels.row_gumbel.reference import GumbelChoice

TOKENS = 4096  # of one program: 16 a thread
WARPS = 8


@triton.jit
def split_kernel(
    logits, allowed, seeds, steps, temperatures, scores, tokens, tops, masses,
    vocab, logits_stride, allowed_stride, MASKED: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    """Of TOKENS tokens of one row: best score and its token (`vocab`: none), largest logit and sum of exp(logit - it).

    Grid (B, splits). The sum is NaN if a logit is NaN or +inf, which the largest alone would not show.
    """
    row, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    token = split * TOKENS + tl.arange(0, TOKENS)
    inside = token < vocab
    logit = tl.load(logits + row * logits_stride + token, mask=inside, other=-float("inf")).to(tl.float32)
    top = tl.max(logit, 0)
    mass = tl.sum(tl.exp(logit - tl.where(top == -float("inf"), 0.0, top)), 0)

    score = logit
    if MASKED:
        may = tl.load(allowed + row * allowed_stride + token, mask=inside, other=0)
        score = tl.where(may != 0, score, -float("inf"))
    temperature = tl.load(temperatures + row)
    if temperature > 0:
        score = tl.div_rn(score, tl.zeros_like(score) + temperature)
        if tl.sum((score > -float("inf")).to(tl.int32), 0) > 0:  # a nucleus leaves most programs nothing to hash
            key = row_keys(tl.load(seeds + row), tl.load(steps + row))
            bits = (scramble(counted(key, token)) >> 41).to(tl.int32)
            uniform = (bits.to(tl.float32) + 0.5) * 1.1920928955078125e-07
            score -= tl.log(-tl.log(uniform))
    best = tl.max(score, 0)
    first = tl.min(tl.where((score == best) & (score > -float("inf")), token, vocab), 0)

    at = row * tl.num_programs(1) + split
    tl.store(scores + at, best)
    tl.store(tokens + at, first)
    tl.store(tops + at, top)
    tl.store(masses + at, mass)


@triton.jit
def join_kernel(
    logits, temperatures, scores, tokens, tops, masses, chosen, logprobs,
    vocab, logits_stride, splits, SPLITS: tl.constexpr,
):  # fmt: skip
    """The row's token and log-probability from its splits. Grid (B,); SPLITS is the power of two from `splits` up."""
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS)
    inside = split < splits
    at = row * splits + split
    top = tl.load(tops + at, mask=inside, other=-float("inf"))
    mass = tl.load(masses + at, mask=inside, other=0.0)
    score = tl.load(scores + at, mask=inside, other=-float("inf"))
    token = tl.load(tokens + at, mask=inside, other=vocab)

    highest = tl.max(top, 0)
    total = tl.sum(mass * tl.exp(top - tl.where(highest == -float("inf"), 0.0, highest)), 0)
    first = tl.min(tl.where(score == tl.max(score, 0), token, vocab), 0)
    temperature = tl.load(temperatures + row)
    good = (first < vocab) & (total == total) & (temperature >= 0) & (temperature < float("inf"))
    logit = tl.load(logits + row * logits_stride + first, mask=good, other=0.0).to(tl.float32)
    tl.store(chosen + row, tl.where(good, first, -1).to(tl.int64))
    tl.store(logprobs + row, tl.where(good, (logit - highest) - tl.log(total), float("nan")))


def launch(logits: Tensor, seeds: Tensor, steps: Tensor, temperature: Tensor, allowed: Tensor | None = None) -> GumbelChoice:
    """As `gumbel_argmax`, with `steps` and `temperature` tensors `[B]`, inputs unchecked and B at least 1."""
    logits, seeds, steps, temperature = unit_stride(logits), unit_stride(seeds), unit_stride(steps), unit_stride(temperature)
    mask = logits if allowed is None else unit_stride(allowed.view(torch.uint8))
    (rows, vocab), device = logits.shape, logits.device
    choice = GumbelChoice(torch.empty(rows, dtype=torch.int64, device=device), torch.empty(rows, dtype=torch.float32, device=device))
    splits = triton.cdiv(vocab, TOKENS)
    scores, tops, masses = (torch.empty((rows, splits), dtype=torch.float32, device=device) for _ in range(3))
    tokens = torch.empty((rows, splits), dtype=torch.int32, device=device)
    with torch.cuda.device_of(logits):
        split_kernel[(rows, splits)](
            logits, mask, seeds, steps, temperature, scores, tokens, tops, masses,
            vocab, logits.stride(0), mask.stride(0), MASKED=allowed is not None, TOKENS=TOKENS, num_warps=WARPS, enable_fp_fusion=True,
        )  # fmt: skip
        join_kernel[(rows,)](
            logits, temperature, scores, tokens, tops, masses, choice.token, choice.logprob,
            vocab, logits.stride(0), splits, SPLITS=triton.next_power_of_2(splits), num_warps=1, enable_fp_fusion=True,
        )  # fmt: skip
    return choice


def unit_stride(tensor: Tensor) -> Tensor:
    """The tensor, or a copy if its last dimension is not dense."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()
