"""gumbel_argmax in vectorized PyTorch: the CPU path, and the path of any device or dtype that has no kernel of its own.

A row's outputs have the same bits alone and in any batch: all is elementwise, exact (argmax) or log_softmax, which sums
row by row (unlike logsumexp, where the number of rows and threads decides how a row is summed).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evoctx_kernels.hashing import row_keys
from evoctx_kernels.row_gumbel.reference import CACHED, GumbelChoice, counters, gumbel, no_choice


def vectorized(logits: Tensor, seeds: Tensor, steps: Tensor, temperature: Tensor, allowed: Tensor | None = None) -> GumbelChoice:
    """As `gumbel_argmax`, with `steps` and `temperature` tensors `[B]` and inputs unchecked.

    Rows are taken a few at a time, so that nothing of size [B, V] is made and temporaries stay in the cache.
    """
    choice, vocab = no_choice(logits), logits.shape[1]
    block = max(1, CACHED // vocab)
    counts, usable = counters(vocab, logits.device), (temperature >= 0) & temperature.isfinite()
    for start in range(0, len(logits), block):
        rows = slice(start, start + block)
        raw = logits[rows].to(choice.logprob.dtype)
        scores = noisy(raw, row_keys(seeds[rows], steps[rows]), counts, temperature[rows].to(raw.dtype))
        if allowed is not None:
            scores = scores.masked_fill(~allowed[rows], -math.inf)
        token = scores.argmax(1, keepdim=True)
        logprob = raw.log_softmax(1).gather(1, token)[:, 0]  # NaN if a logit is NaN or +inf, or all are -inf
        chosen = usable[rows] & (scores.gather(1, token)[:, 0] > -math.inf) & ~logprob.isnan()
        choice.token[rows] = torch.where(chosen, token[:, 0], -1)
        choice.logprob[rows] = torch.where(chosen, logprob, math.nan)
    return choice


def noisy(logits: Tensor, keys: Tensor, counts: Tensor, temperature: Tensor) -> Tensor:
    """logits / temperature + noise `[R, V]`; the logits themselves where the temperature is 0."""
    warm = temperature > 0
    if not warm.any():
        return logits
    scores = gumbel(keys[:, None] + counts, logits.dtype)
    if not warm.all():
        scores.masked_fill_(~warm[:, None], 0)
    return scores.add_(logits / torch.where(warm, temperature, 1)[:, None])
