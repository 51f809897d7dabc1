"""Precision, recall and F1 from counts: the arithmetic that answers and supporting facts share."""

from __future__ import annotations

from typing import NamedTuple


class Scores(NamedTuple):
    """One prediction against one gold, each in [0, 1]."""

    em: float
    f1: float
    precision: float
    recall: float


def from_counts(em: bool, shared: int, extra: int, missing: int) -> Scores:
    """`shared` true positives, `extra` false positives, `missing` false negatives; 0 where a ratio is 0/0."""
    precision = shared / (shared + extra) if shared else 0.0
    recall = shared / (shared + missing) if shared else 0.0
    return Scores(float(em), harmonic(precision, recall), precision, recall)


def harmonic(precision: float, recall: float) -> float:
    """F1 = 2PR / (P + R), 0 when both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
