"""Sampling that belongs to a row, so that it does not depend on who else is in the batch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evoctx_kernels.expect import expect
from evoctx_kernels.row_gumbel.checks import check_choice, check_keys
from evoctx_kernels.row_gumbel.cpu import vectorized
from evoctx_kernels.row_gumbel.reference import GumbelChoice, no_choice, reference, row_noise

__all__ = ["GumbelChoice", "gumbel_argmax", "reference", "row_gumbel"]


def row_gumbel(seeds: Tensor, step: int | Tensor, vocab: int) -> Tensor:
    """Standard Gumbel noise keyed by (row seed, step, token index): argmax(logits + noise) samples softmax(logits).

    The Gumbel-max trick (Gumbel 1954) over a counter-based hash (SplitMix64, Steele et al. 2014):

        key   = mix(seed + (step + 1) · G)
        h     = mix(key + (token + 1) · G)          all in int64 that wraps around
        noise = −log(−log(((h >>> 41) + ½) · 2⁻²³))  in float32; between −2.82 and 16.64, never infinite

    Args:
        seeds: `[B]` int64 in [0, 2⁶³).
        step: which token is being sampled, ≥ 0: an int, or `[B]` int64 where rows are at different steps.
        vocab: V, the number of tokens, from 1 to 2²³.

    Returns:
        `[B, V]` float32 on the device of `seeds`; a row's bits depend on its own seed and step alone.

    Raises:
        ValueError: a shape, device or vocab is wrong. TypeError: a dtype that is not int64.
    """
    check_keys("row_gumbel", seeds, step, vocab)
    return row_noise(seeds, step, vocab)


def gumbel_argmax(
    logits: Tensor, seeds: Tensor, step: int | Tensor, temperature: float | Tensor, *, allowed: Tensor | None = None
) -> GumbelChoice:
    """Draw one token a row from softmax(logits / temperature) by the row's own key, in one pass over the logits.

        token   = argmax(logits / temperature + row_gumbel(seeds, step, V)),  argmax(logits) where temperature is 0
        logprob = log_softmax(logits)[token]      of the raw logits: neither temperature nor `allowed` shows in it

    in float32 (float64 for float64 logits), whatever the dtype of the logits; equal scores take the lowest token. The
    random bits are the same on every device. The two logarithms may differ in their last bit between a device and the
    CPU (noise by up to 1e-6), so their tokens can differ where the two best scores lie that close together: less than
    once in a million draws between torch's and numpy's logarithm. On one device a row's token and the bits of its logprob
    are the same alone and in any batch.

    Args:
        logits: `[B, V]` float32, float16, bfloat16 or float64, V from 1 to 2²³; any strides.
        seeds: `[B]` int64 in [0, 2⁶³).
        step: which token is being sampled, ≥ 0: an int, or `[B]` int64.
        temperature: ≥ 0 and finite: a number, or `[B]` float32.
        allowed: `[B, V]` bool, tokens that may be chosen (all by default).

    Returns:
        `token` `[B]` int64 and `logprob` `[B]` float32 (float64 for float64 logits). Logits of −inf are never chosen.
        A row that has no choice is flagged by −1 and NaN: its logits hold NaN or +inf, nothing above −inf is
        allowed, or its temperature is negative, NaN or infinite.

    Raises:
        ValueError: a shape, device, vocab, or a temperature given as a number is wrong. TypeError: a dtype is wrong.
    """
    if not isinstance(temperature, Tensor):
        expect(0 <= temperature < math.inf, "gumbel_argmax: temperature", "a finite number of at least 0", temperature)
        temperature = torch.full(logits.shape[:1], temperature, dtype=torch.float32, device=logits.device)
    steps = step if isinstance(step, Tensor) else torch.full_like(seeds, step)
    return GumbelChoice(*operator(logits, seeds, steps, temperature, allowed))


@torch.library.custom_op("evoctx::gumbel_argmax", mutates_args=())
def operator(
    logits: Tensor, seeds: Tensor, steps: Tensor, temperature: Tensor, allowed: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The registered operator, vectorized PyTorch where no kernel is registered below."""
    check_choice(logits, seeds, steps, temperature, allowed)
    return tuple(vectorized(logits, seeds, steps, temperature, allowed))


@operator.register_kernel("cuda")
def _(logits, seeds, steps, temperature, allowed):
    check_choice(logits, seeds, steps, temperature, allowed)
    if logits.dtype == torch.float64 or logits.shape[0] == 0:
        return tuple(vectorized(logits, seeds, steps, temperature, allowed))
    from evoctx_kernels.row_gumbel.triton_kernel import launch  # needs triton, which a CPU install may lack

    return tuple(launch(logits, seeds, steps, temperature, allowed))


@operator.register_fake
def _(logits, seeds, steps, temperature, allowed):
    return tuple(no_choice(logits))
