"""Choosing each row's next token by that row's own key, so that company never changes it (design, rule 2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from evoctx_kernels.row_gumbel import gumbel_argmax
from torch import Tensor
from transformers import LogitsProcessor


class RowSampler(LogitsProcessor):
    """Greedy (temperature 0) or keyed temperature/top-p sampling, row by row, inside transformers' `generate`.

    Sampling is the Gumbel-max trick (Maddison et al. 2014, arXiv 1411.0030): argmax of logits / temperature + g
    with g ~ Gumbel(0, 1) draws from softmax(logits / temperature); here g is a function of (row seed, step).
    `generate` must run with `do_sample=False` and without any other processor: what it is given here is the choice.

    After every step `logprob [B]` (float32) holds the natural log-probability of each chosen token under the raw
    logits, NaN where there is no choice (logits of NaN or +inf); nothing of size [B, V] outlives the step.
    """

    def __init__(self, seeds: Sequence[int], temperatures: Sequence[float], top_ps: Sequence[float], device: torch.device | str) -> None:
        self._seeds = torch.tensor(seeds, dtype=torch.long, device=device)
        self._temperature = torch.tensor(temperatures, dtype=torch.float32, device=device)
        top_ps = [top_p if temperature > 0 else 1.0 for top_p, temperature in zip(top_ps, temperatures, strict=True)]
        self._cut = torch.tensor([row for row, top_p in enumerate(top_ps) if top_p < 1], dtype=torch.long, device=device)
        self._top_p = torch.tensor([[top_p] for top_p in top_ps if top_p < 1], dtype=torch.float32, device=device)
        self._step = 0
        self.logprob: Tensor

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """`input_ids [B, T]`, raw logits `scores [B, V]` (float32) -> [B, V]: 0 at the chosen token, else -inf."""
        allowed = self._nucleus(scores) if len(self._cut) else None
        token, self.logprob = gumbel_argmax(scores, self._seeds, self._step, self._temperature, allowed=allowed)
        self._step += 1
        # A row without a choice is ended by its NaN; token 0 only keeps it valid until then.
        return torch.full_like(scores, -torch.inf).scatter_(-1, token.clamp(min=0)[:, None], 0.0)

    def _nucleus(self, scores: Tensor) -> Tensor:
        """What each row may choose from, `[B, V]` bool."""
        allowed = torch.ones_like(scores, dtype=torch.bool)
        allowed[self._cut] = nucleus(scores[self._cut] / self._temperature[self._cut, None], self._top_p) > -torch.inf
        return allowed


def nucleus(logits: Tensor, top_p: Tensor) -> Tensor:
    """Keep the smallest set of most probable tokens whose mass reaches `top_p`, -inf elsewhere.

    Top-p sampling, Holtzman et al. 2020 (arXiv 1904.09751), section 3.1. `logits [R, V]`, `top_p [R, 1]` ->
    [R, V]; equal probabilities are kept in the order of their ids. A row with top_p 1 keeps everything.

    Tokens below (1 - top_p) / V together weigh less than 1 - top_p, so the set lies among the others, which are
    few: sorting these alone is several times faster than sorting the vocabulary. How many are sorted depends on the
    other rows, what is kept does not.
    """
    probability = logits.softmax(-1)
    floor = torch.where(top_p < 1, (1 - top_p) / logits.shape[-1], 2.0)  # 2: no candidates, kept whole below
    candidates = int((probability >= floor).sum(-1).max())
    ids = probability.topk(candidates, sorted=False).indices.sort(-1).values
    ordered, order = probability.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
    mass_before = ordered.cumsum(-1) - ordered
    keep = torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, ids.gather(-1, order), (mass_before < top_p) & (ordered >= floor))
    return logits.masked_fill(~keep & (top_p < 1), -torch.inf)
