"""ROUGE against its definition."""

from __future__ import annotations

import re
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evoctx_torch.errors import MissingExtra
from evoctx_torch.metrics import rouge as module
from evoctx_torch.metrics.rouge import ROUGE_METRICS, rouge

WORDS = st.lists(st.sampled_from(["river", "The", "vell", "rises", "in", "hills", "1911", "é", "-", "."]), max_size=12).map(" ".join)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def f(shared: int, predicted: int, gold: int) -> float:
    return 2 * shared / (predicted + gold) if shared else 0.0


def expected(prediction: str, gold: str) -> dict[str, float]:
    a, b = words(prediction), words(gold)

    def overlap(n: int) -> float:
        left, right = (Counter(tuple(side[i:i + n]) for i in range(len(side) - n + 1)) for side in (a, b))
        return f((left & right).total(), left.total(), right.total())

    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            longest[i + 1][j + 1] = longest[i][j] + 1 if x == y else max(longest[i][j + 1], longest[i + 1][j])
    return {"rouge1": overlap(1), "rouge2": overlap(2), "rougeL": f(longest[-1][-1], len(a), len(b))}


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
@settings(max_examples=60)
def test_rouge_equals_its_definition_and_takes_the_best_gold(prediction: str, golds: list[str]) -> None:
    best = {name: max(expected(prediction, gold)[name] for gold in golds) for name in ROUGE_METRICS}
    assert rouge(prediction, golds) == pytest.approx(best)


def test_known_pair() -> None:
    scores = rouge("The Vell rises in the hills.", ["The Vell rises slowly in hills"])
    assert scores == pytest.approx({"rouge1": 10 / 12, "rouge2": 4 / 10, "rougeL": 10 / 12})
    assert rouge("", ["something"]) == dict.fromkeys(ROUGE_METRICS, 0.0)


def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module.rouge_scorer.cache_clear()
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(MissingExtra, match=r"--metrics rouge needs rouge-score.*pip install 'evoctx-torch\[metrics\]'"):
        rouge("x", ["x"])


def test_no_gold_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one golden answer"):
        rouge("x", [])
