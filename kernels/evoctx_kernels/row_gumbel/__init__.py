"""Gumbel noise that belongs to a row, so that sampling does not depend on who else is in the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.row_gumbel.reference import reference

__all__ = ["reference", "row_gumbel"]


def row_gumbel(seeds: Tensor, step: int | Tensor, vocab: int) -> Tensor:
    """Standard Gumbel noise keyed by (row seed, step, token index): argmax(logits + noise) samples softmax(logits).

    The Gumbel-max trick (Gumbel 1954) over a counter-based hash (SplitMix64, Steele et al. 2014):

        key   = mix(seed + (step + 1) · G)
        h     = mix(key + (token + 1) · G)          all in int64 that wraps around
        noise = −log(−log(((h >>> 41) + ½) · 2⁻²³))  in float32; between −2.82 and 16.64, never infinite

    Args:
        seeds: `[B]` int64 in [0, 2⁶³).
        step: which token is being sampled, ≥ 0: an int, or `[B]` int64 where rows are at different steps.
        vocab: V, the number of tokens.

    Returns:
        `[B, V]` float32 on the device of `seeds`; a row's bits depend on its own seed and step alone.

    Raises:
        ValueError: a shape or a vocab below 1. TypeError: a dtype that is not int64.
    """
    if seeds.dim() != 1:
        raise ValueError(f"row_gumbel: seeds: expected [B], got {list(seeds.shape)}")
    if vocab < 1:
        raise ValueError(f"row_gumbel: vocab: expected at least 1, got {vocab}")
    for name, tensor in (("seeds", seeds), ("step", step)):
        if isinstance(tensor, Tensor) and tensor.dtype != torch.int64:
            raise TypeError(f"row_gumbel: {name}: expected torch.int64, got {tensor.dtype}")
    if isinstance(step, Tensor) and step.shape != seeds.shape:
        raise ValueError(f"row_gumbel: step: expected an int or {list(seeds.shape)}, got {list(step.shape)}")
    return reference(seeds, step, vocab)
