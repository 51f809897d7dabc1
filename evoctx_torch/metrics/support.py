"""Supporting facts, and facts and answer jointly.

A fact is (title, sentence number) in HotpotQA and 2Wiki and a paragraph number in MuSiQue.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from evoctx_torch.metrics.overlap import Scores, from_counts, harmonic

Fact = tuple[str, int]


def support_hotpot(predicted: Iterable[Hashable], gold: Iterable[Hashable]) -> Scores:
    """Overlap of the two sets, HotpotQA. Both empty: em 1, the rest 0."""
    predicted, gold = set(predicted), set(gold)
    return from_counts(predicted == gold, len(predicted & gold), len(predicted - gold), len(gold - predicted))


def support_2wiki(predicted: Iterable[Fact], gold: Iterable[Fact]) -> Scores:
    """2WikiMultihopQA: titles are lower-cased, but only after repeats were removed, so case variants count each."""
    guesses = [(title.lower(), number) for title, number in set(predicted)]
    facts = [(title.lower(), number) for title, number in set(gold)]
    shared = sum(guess in facts for guess in guesses)
    missing = sum(fact not in guesses for fact in facts)
    extra = len(guesses) - shared
    return from_counts(not extra and not missing, shared, extra, missing)


def support_musique(predicted: Iterable[Hashable], gold: Iterable[Hashable]) -> Scores:
    """MuSiQue: as HotpotQA, but both empty scores 1 throughout."""
    predicted, gold = set(predicted), set(gold)
    return support_hotpot(predicted, gold) if predicted or gold else Scores(1.0, 1.0, 1.0, 1.0)


def joint(answer: Scores, support: Scores) -> Scores:
    """HotpotQA's joint scores: products of em, precision and recall, and the F1 of those products."""
    precision, recall = answer.precision * support.precision, answer.recall * support.recall
    return Scores(answer.em * support.em, harmonic(precision, recall), precision, recall)
