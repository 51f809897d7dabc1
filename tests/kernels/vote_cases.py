"""Votes and logits to count and to sample from."""

from __future__ import annotations

import torch
from torch import Tensor

TIES = ("lowest", "abstain", 0, -1)  # -1 stands for the last option
MAJORITIES = [(1, 1, 1), (2, 5, 2), (5, 4, 3), (33, 64, 8), (5, 1000, 3), (3, 7, 70)]  # rows, k, options


def tie_rule(tie: int | str, options: int) -> int | str:
    return options - 1 if tie == -1 else tie


def random_votes(rows: int, k: int, options: int, seed: int = 0) -> Tensor:
    """Votes of which some are invalid; the first row has no valid one if there are others."""
    votes = torch.randint(-2, options + 2, (rows, k), generator=torch.Generator().manual_seed(seed))
    if rows > 1:
        votes[0] = torch.where(votes[0] % 2 == 0, -1, options)
    return votes


def logits_and_seeds(rows: int, options: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """(logits, seeds, temperature by row); one temperature is 0 if there are several rows."""
    g = torch.Generator().manual_seed(seed)
    temperature = torch.rand(rows, generator=g, dtype=torch.float64) * 2 + 0.05
    if rows > 1:
        temperature[1] = 0
    return torch.randn(rows, options, generator=g) * 2, torch.randint(0, 2**63 - 1, (rows,), generator=g), temperature


def strange_logits() -> tuple[Tensor, Tensor, Tensor, list[bool]]:
    """(logits, seeds, temperature, which rows can be sampled) with one trouble a row."""
    inf, nan = torch.inf, torch.nan
    rows = [
        ([1.0, 2.0, 0.5], 1.0, True), ([nan, 2.0, 0.5], 1.0, False), ([1.0, 2.0, nan], 0.0, False), ([1.0, inf, 0.0], 1.0, False),
        ([-inf, -inf, -inf], 1.0, False), ([-inf, 1.0, -inf], 1.0, True), ([1.0, 2.0, 0.5], -1.0, False), ([1.0, 2.0, 0.5], nan, False),
        ([1.0, 2.0, 0.5], inf, False), ([1.0, 1.0, 0.5], 0.0, True), ([3e38, -3e38, 0.0], 1e-300, True), ([nan, -inf, inf], 1.0, False),
    ]  # fmt: skip
    logits, temperature, good = zip(*rows, strict=True)
    return torch.tensor(logits), torch.arange(len(rows)), torch.tensor(temperature, dtype=torch.float64), list(good)


def assert_same_samples(got, expected) -> None:
    """Integers exactly, probabilities to 1e-12 of their own size."""
    for name in ("votes", "winner", "counts", "margin"):
        assert torch.equal(getattr(got, name), getattr(expected, name)), name
    torch.testing.assert_close(got.probability, expected.probability, rtol=1e-12, atol=0, equal_nan=True)


def same_bits(a, b) -> bool:
    return all(x.dtype == y.dtype and torch.equal(x.nan_to_num(nan=7.0), y.nan_to_num(nan=7.0)) for x, y in zip(a, b, strict=True))
