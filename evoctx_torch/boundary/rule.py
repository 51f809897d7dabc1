"""A `NoveltyRule` as numbers: its thresholds on the operator's scale, its check, and what its ablations decide."""

from __future__ import annotations

import math

import torch
from evoctx_kernels.boundary_signals import INTERPOLATIONS
from torch import Tensor

from evoctx_torch.errors import UsageError
from evoctx_torch.operations import NoveltyRule

SIGNALS = ("near", "centroid", "tail")
SCALES = {"cosine": 1.0, "half-cosine": 0.5}  # of 1 - cos; exact in float32, and all three signals are linear in it
WINDOWS = ("head", "tail", "mean")


def check(rule: NoveltyRule) -> None:
    """Raise `UsageError` for the first value that is not one of those documented at `NoveltyRule`."""
    for name, value, choices in (
        ("interpolation", rule.interpolation, INTERPOLATIONS),
        ("distance", rule.distance, tuple(SCALES)),
        ("window", rule.window, WINDOWS),
    ):
        if value not in choices:
            raise UsageError(f"the novelty rule's {name} is {value!r}; expected one of {', '.join(choices)}")
    if not rule.signals or not set(rule.signals) <= set(SIGNALS):
        raise UsageError(f"the novelty rule's signals are {rule.signals!r}; expected one or more of {', '.join(SIGNALS)}")
    if not 0 <= rule.quantile <= 1:
        raise UsageError(f"the novelty rule's quantile is {rule.quantile}; expected a number in [0, 1]")
    for name in ("tau_near", "tau_centroid", "tau_tail"):
        if not 0 < getattr(rule, name) < math.inf:
            raise UsageError(f"the novelty rule's {name} is {getattr(rule, name)}; expected a positive number")


def thresholds(rule: NoveltyRule) -> tuple[float, float, float]:
    """(τ_near, τ_centroid, τ_tail) on the scale of 1 - cos."""
    scale = SCALES[rule.distance]
    return rule.tau_near / scale, rule.tau_centroid / scale, rule.tau_tail / scale


def ablated(signals: Tensor, taus: Tensor, used: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """Score `[B]` and action `[B]` (bool, RETRIEVE) of the published formula without the terms that are not `used`.

    max(min(near/τ_near, centroid/τ_centroid), tail/τ_tail) (EvoCtx, arXiv 2601.08747): a term left out of the
    minimum or the maximum leaves the other. `signals` `[B, 3]` and `taus` `[3]` float32, in the order of `SIGNALS`.
    """
    ratios, crossed = signals / taus, signals >= taus
    inside = [column for column in (0, 1) if SIGNALS[column] in used]
    scores, actions = [], []
    if inside:
        scores.append(ratios[:, inside].amin(1))
        actions.append(crossed[:, inside].all(1))
    if "tail" in used:
        scores.append(ratios[:, 2])
        actions.append(crossed[:, 2])
    return torch.stack(scores).amax(0), torch.stack(actions).any(0)
