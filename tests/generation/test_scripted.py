"""The scripted generator: words are tokens, stop strings and limits hold, everything asked is recorded."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.generation.scripted import ScriptedGenerator, first_words
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.generation.stop import cut
from evoctx_torch.operations import Completion, Failure, Generate, Pending
from evoctx_torch.transcript import Prompt, Segment


def ask(text="one two three", question="q0", number=0, role="generator", system=None, **options):
    return Pending(question, number, Generate(role, Prompt((Segment(text),), system is not None, system), **options))


def test_rows_are_answered_in_order_and_recorded():
    model = ScriptedGenerator(lambda p: f"to {p.question_id}, call {p.number}")
    pending = [ask(question="a"), ask(question="b", number=4, system="be brief")]
    assert model.answer(pending) == [Completion("to a, call 0", "eos", 3, 3, 4), Completion("to b, call 4", "eos", 5, 5, 4)]
    assert model.answer([]) == []
    model.answer(pending[:1])
    assert model.requests == [*pending, pending[0]]


def test_finish_reasons():
    roles = Roles(RoleSettings(3), {"decider": RoleSettings(1)})
    replies = {"eos": "a b c", "stop": "a b\nc", "length": " a  b\tc d", "empty": "  ", "cut to nothing": "\nrest"}
    model = ScriptedGenerator(lambda p: replies[p.question_id], roles)
    results = model.answer([ask(question=name, stop=("\n",)) for name in replies])
    assert [(r.text, r.finish_reason, r.completion_tokens) for r in results] == [
        ("a b c", "eos", 3), ("a b", "stop", 2), (" a  b\tc", "length", 3), ("  ", "empty", 0), ("", "empty", 0),
    ]
    own = model.answer([ask(question="eos", role="decider"), ask(question="eos", max_new_tokens=2), ask(question="eos", max_new_tokens=0)])
    assert [(r.text, r.finish_reason) for r in own] == [("a", "length"), ("a b", "length"), ("", "empty")]


def test_failures_and_completions_pass_unchanged():
    replies = [Failure("error", "down"), Completion("x\ny", "length", 1, 1, 1)]
    model = ScriptedGenerator(lambda p: replies[p.number])
    results = model.answer([ask(number=0, stop=("\n",)), ask(number=1, stop=("\n",))])
    assert all(result is reply for result, reply in zip(results, replies, strict=True))


@given(st.text(), st.integers(0, 5))
def test_first_words_keeps_a_beginning_with_at_most_that_many_words(text, limit):
    kept = first_words(text, limit)
    assert text.startswith(kept)
    assert len(kept.split()) == min(limit, len(text.split()))
    assert (kept == text) or len(text.split()) > limit


@given(st.text("ab\n"), st.lists(st.text("ab\n", max_size=2), max_size=3))
def test_trap_4_the_first_stop_string_cuts_and_nothing_after_it_is_kept(text, stop):
    kept, found = cut(text, stop)
    assert text.startswith(kept)
    assert not any(s and s in kept for s in stop)
    assert (found is not None) == any(s and s in text for s in stop)
    assert found or kept == text
    assert not found or text[len(kept):].startswith(found)


def test_it_imports_no_torch():
    program = "import sys, evoctx_torch.generation.scripted; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
