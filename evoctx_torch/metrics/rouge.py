"""ROUGE of long answers, through the library `rouge-score`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from evoctx_torch.errors import MissingExtra

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer

ROUGE_METRICS = ("rouge1", "rouge2", "rougeL")


def rouge(prediction: str, golds: Sequence[str]) -> dict[str, float]:
    """F-measures of ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004), each the best over the golds, in [0, 1].

    The library's defaults: lower case, words of ASCII letters and digits (every other character separates), no
    stemming; ROUGE-L over the whole text. Raises `MissingExtra` where rouge-score is not installed, `ValueError`
    without a gold.
    """
    if not golds:
        raise ValueError("golds is empty; expected at least one golden answer")
    best = rouge_scorer().score_multi(golds, prediction)
    return {name: float(best[name].fmeasure) for name in ROUGE_METRICS}


@cache
def rouge_scorer() -> RougeScorer:
    """The library's scorer. Raises `MissingExtra` where it is not installed."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingExtra("rouge-score", "metrics", "--metrics rouge") from None
    return RougeScorer(list(ROUGE_METRICS))
