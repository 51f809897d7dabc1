"""Short answers: exact match, token F1 and containment as the official programs compute them.

Each metric is the best over the golds. Definitions, sources and known disagreements: docs/metrics.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from evoctx_torch.metrics.multihoprag import hit
from evoctx_torch.metrics.normalize import normalize, normalize_triviaqa
from evoctx_torch.metrics.overlap import Scores, from_counts

ANSWER_METRICS = ("em", "f1", "acc", "triviaqa_em", "triviaqa_f1", "musique_em", "musique_f1", "multihoprag_hit")
"""The columns of `score_answers`, in this order."""


def score_answers(prediction: str, golds: Sequence[str], *, failed: bool = False) -> dict[str, float]:
    """All answer metrics of one row, floats in [0, 1], keys in the order of `ANSWER_METRICS`.

    `failed` rows score 0 everywhere. It must be said: their empty prediction would be "right" for a gold such as
    "A", which normalizes to nothing. Raises `ValueError` when there is no gold.
    """
    if not golds:
        raise ValueError("golds is empty; expected at least one golden answer")
    if failed:
        return dict.fromkeys(ANSWER_METRICS, 0.0)
    hotpot = [answer_scores(prediction, gold) for gold in golds]
    trivia = [token_overlap(prediction, gold, normalize_triviaqa) for gold in golds]
    return {
        "em": max(s.em for s in hotpot),
        "f1": max(s.f1 for s in hotpot),
        "acc": max(contains(prediction, gold) for gold in golds),
        "triviaqa_em": max(s.em for s in trivia),
        "triviaqa_f1": max(s.f1 for s in trivia),
        "musique_em": max(s.em for s in hotpot),
        "musique_f1": max(musique_f1(prediction, gold) for gold in golds),
        "multihoprag_hit": max(float(hit(prediction, gold)) for gold in golds),
    }


def token_overlap(prediction: str, gold: str, normalizer: Callable[[str], str] = normalize) -> Scores:
    """Equality and multiset overlap of the normalized words. Both empty: em 1, the rest 0 (as hotpot and triviaqa)."""
    predicted, expected = normalizer(prediction), normalizer(gold)
    words, gold_words = Counter(predicted.split()), Counter(expected.split())
    shared = (words & gold_words).total()
    return from_counts(predicted == expected, shared, words.total() - shared, gold_words.total() - shared)


def answer_scores(prediction: str, gold: str) -> Scores:
    """HotpotQA's rule (also 2Wiki, FlashRAG): a yes, no or noanswer on either side scores 0 unless both are equal."""
    scores = token_overlap(prediction, gold)
    if not scores.em and {normalize(prediction), normalize(gold)} & {"yes", "no", "noanswer"}:
        return Scores(0.0, 0.0, 0.0, 0.0)
    return scores


def contains(prediction: str, gold: str) -> float:
    """1 if the normalized gold is a substring (of characters, not of words) of the normalized prediction."""
    return float(normalize(gold) in normalize(prediction))


def musique_f1(prediction: str, gold: str) -> float:
    """Token F1 without a yes/no rule; where a side has no word, 1 if the other has none either (SQuAD 2.0's rule)."""
    scores = token_overlap(prediction, gold)
    return scores.f1 if normalize(prediction) and normalize(gold) else scores.em
