"""The definition of sample_votes: one row after the other, in Python's float64, every possible count written out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from evoctx_kernels.hashing import uniforms
from evoctx_kernels.majority_vote import LOWEST
from evoctx_kernels.majority_vote.reference import decide


class SampledVotes(NamedTuple):
    """The votes of each row and what follows from them; fields are described in `sample_votes`."""

    votes: Tensor
    winner: Tensor
    counts: Tensor
    margin: Tensor
    probability: Tensor


def reference(logits: Tensor, seeds: Tensor, k: int, temperature: Tensor, tie: int = LOWEST) -> SampledVotes:
    """As `sample_votes`, with `temperature` `[1]` or `[B]`, `tie` an integer as in `majority_vote`, and inputs unchecked."""
    options = logits.shape[1]
    rows = [
        row(x, u, t, k, tie)
        for x, u, t in zip(logits.tolist(), uniforms(seeds, k).tolist(), temperature.expand(len(logits)).tolist(), strict=True)
    ]
    shapes, kinds = ((-1, k), (-1,), (-1, options), (-1,), (-1, options + 1)), (*[torch.int64] * 4, torch.float64)
    columns = zip(*rows, strict=True) if rows else [[]] * 5
    return SampledVotes(
        *(
            torch.tensor(list(column), dtype=kind, device=logits.device).view(shape)
            for column, kind, shape in zip(columns, kinds, shapes, strict=True)
        )
    )


def row(logits: list[float], uniform: list[float], temperature: float, k: int, tie: int) -> tuple:
    """(votes, winner, counts, margin, probability) of one row."""
    options, peak = len(logits), max(logits)
    if not math.isfinite(peak) or any(map(math.isnan, logits)) or not 0 <= temperature < math.inf:
        return [-1] * k, -1, [0] * options, 0, [math.nan] * (options + 1)
    if temperature == 0:
        weights = [float(option == logits.index(peak)) for option in range(options)]
    else:
        weights = [math.exp((x - peak) / temperature) for x in logits]
    total = sum(weights)
    edges = [sum(weights[: option + 1]) for option in range(options - 1)]
    votes = [sum(u * total >= edge for edge in edges) for u in uniform]
    counts = [votes.count(option) for option in range(options)]
    return votes, *decide_with_counts(counts, tie), majority_probability([w / total for w in weights], k, tie)


def decide_with_counts(counts: list[int], tie: int) -> tuple[int, list[int], int]:
    winner, margin = decide(counts, tie)
    return winner, counts, margin


def majority_probability(chances: Sequence[float], k: int, tie: int) -> list[float]:
    """The probability of each outcome, −1 last: multinomial probabilities of all count vectors, by their winner."""
    outcomes: list[list[float]] = [[] for _ in range(len(chances) + 1)]
    for counts in count_vectors(k, len(chances)):
        arrangements = math.factorial(k) // math.prod(map(math.factorial, counts))
        chance = arrangements * math.prod(p**n for p, n in zip(chances, counts, strict=True))
        outcomes[decide(counts, tie)[0]].append(chance)
    return [math.fsum(chances) for chances in outcomes]


def count_vectors(votes: int, options: int) -> Iterator[list[int]]:
    """All ways to spread `votes` over `options`: C(votes + options − 1, options − 1) vectors."""
    if options == 1:
        yield [votes]
        return
    for first in range(votes + 1):
        for rest in count_vectors(votes - first, options - 1):
            yield [first, *rest]
