"""From raw text to prediction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.errors import UsageError
from evoctx_torch.metrics.extract import RULES, extract, split_thinking

PIECES = st.lists(st.sampled_from(["<think>", "</think>", "Answer:", "\n", " ", "x", "y z", "<b>"]), max_size=8).map("".join)


@pytest.mark.parametrize(("raw", "line", "full"), [
    ("<think>not this one,\nnor this</think>\n\nIris Quell", "Iris Quell", "Iris Quell"),
    ("Ostrand\n\nQuestion: what else?", "Ostrand", "Ostrand\n\nQuestion: what else?"),
    ("   ", "", ""),
    ("Answer: Edda Lorn", "Edda Lorn", "Answer: Edda Lorn"),
    ("\n\n  ANSWER:  Asp \nThe lake is fed by it.", "Asp", "ANSWER:  Asp \nThe lake is fed by it."),
    ("<think>no answer comes</think>", "", ""),
    ("<think>cut off by the length limit", "", ""),
    ("opened in the prompt</think>\nAsp", "Asp", "Asp"),
    ("Answer:\n\nAsp\nmore", "Asp", "Answer:\n\nAsp\nmore"),
    ("The Answer: Asp", "The Answer: Asp", "The Answer: Asp"),
    ("<think>a</think>\n<think>b</think>\nAnswer: <b>Asp</b>", "<b>Asp</b>", "Answer: <b>Asp</b>"),
])
def test_rules(raw: str, line: str, full: str) -> None:
    assert (extract(raw, "first-line"), extract(raw, "full")) == (line, full)


@pytest.mark.parametrize(("raw", "thinking", "rest"), [
    ("plain\ntext ", None, "plain\ntext "),
    ("<think> a </think> b", "a", " b"),
    ("<think></think>b", "", "b"),
    ("a</think>b", "a", "b"),
    ("<think>a", "a", ""),
    ("x<think>a</think>y<think>b", "a\nb", "xy"),
    ("<think>a<think>b</think>c</think>d", "a\nb\nc", "d"),
])
def test_thinking_is_what_stands_inside_the_tags(raw: str, thinking: str | None, rest: str) -> None:
    assert split_thinking(raw) == (thinking, rest)


@given(PIECES)
def test_no_tag_survives_and_extracting_twice_changes_nothing_more(raw: str) -> None:
    thinking, rest = split_thinking(raw)
    assert "think>" not in rest
    assert (thinking is None) == ("think>" not in raw)
    full = extract(raw, "full")
    assert extract(full, "full") == full == full.strip()
    line = extract(raw, "first-line")
    assert line == line.strip()
    assert "\n" not in line
    assert line in full


@given(st.text())
def test_any_text_gives_a_line(raw: str) -> None:
    assert len(extract(raw, "first-line").splitlines()) <= 1


def test_another_rule_is_refused() -> None:
    with pytest.raises(UsageError, match=f"'last-line'; expected one of {', '.join(RULES)}"):
        extract("x", "last-line")
