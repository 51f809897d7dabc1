"""IterDRAG walked step by step: one step a call, what is retrieved and shown when, and every way in which it ends."""

from __future__ import annotations

from itertools import pairwise

import pytest
from walking import QUESTION, check_batched_equals_sequential, walk

from evoctx_torch.evaluation.results import prediction_row
from evoctx_torch.methods.steps import first_step, steps_of, without_period

BORN = "Follow up: Iris Quell born"
MAYOR = "Follow up: mayor of Ostrand"


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_the_whole_algorithm(family):
    w = walk("iterdrag", BORN, "Intermediate answer: Ostrand", MAYOR, "Intermediate answer: Tobin Hale",
        "So the final answer is: Tobin Hale.",
             family=family, top_k=1, rounds=3)
    assert w.queries == [QUESTION.text, "Iris Quell born", "mayor of Ostrand"]
    assert [w.shown(call) for call in range(5)] == [["p0"], ["p0", "p1"], ["p0", "p1"], ["p0", "p1", "p2"], ["p0", "p1", "p2"]]
    last = w.prompts[-1]
    places = [last.index(text) for text in ("designed by", BORN, "an engineer", "Intermediate answer: Ostrand", MAYOR, "harbour",
        "Intermediate answer: Tobin Hale")]
    assert places == sorted(places), "evidence stands in the order in which it came"
    assert all(prompt.count(QUESTION.text) == 1 for prompt in w.prompts)
    record = w.record
    assert [(r.action, r.query, r.subquery, r.notes["intermediate_answer"], [p.id for p in r.passages]) for r in record.rounds] == [
        ("RETRIEVE", "Iris Quell born", "Iris Quell born", "Ostrand", ["p1"]),
        ("RETRIEVE", "mayor of Ostrand", "mayor of Ostrand", "Tobin Hale", ["p2"])]
    assert (record.bootstrap_query, record.prediction, record.finish_reason, len(record.calls)) == (QUESTION.text, "Tobin Hale", "eos", 5)


def test_prompts_grow_only_at_their_end():
    w = walk("iterdrag", BORN, "Intermediate answer: Ostrand", MAYOR, "So the final answer is: x", family="completion", top_k=1)
    segments = [p.operation.prompt.segments for p in w.requests]
    assert all(later[: len(earlier) - 1] == earlier[:-1] for earlier, later in pairwise(segments))


def test_only_the_first_step_of_a_reply_is_used():
    w = walk("iterdrag", f"{BORN}\nIntermediate answer: Nowhere\nSo the final answer is: Nobody",
        "Intermediate answer: Ostrand Follow up: who is Nobody",
             "So the final answer is: done\nFollow up: Nobody")
    assert w.record.prediction == "done" and len(w.record.rounds) == 1
    assert not any("Nobody" in prompt or "Nowhere" in prompt for prompt in w.prompts)


@pytest.mark.parametrize(("rounds", "calls"), [(0, 1), (1, 3), (3, 7)])
def test_after_the_last_follow_up_the_answer_is_forced(rounds, calls):
    turns = [step for i in range(rounds) for step in (f"Follow up: step {i} of Brask", f"Intermediate answer: value {i}")]
    w = walk("iterdrag", *turns, "So the final answer is: done", rounds=rounds)
    assert (len(w.record.calls), len(w.queries), w.record.prediction, w.record.finish_reason) == (calls, rounds + 1, "done", "max_turns")
    assert all(f"step {i}" in w.prompts[-1] and f"value {i}" in w.prompts[-1] for i in range(rounds))
    assert "one of these three" not in w.prompts[-1]


@pytest.mark.parametrize(("again", "calls", "retrievals"), [(BORN, 5, 4), ("Intermediate answer: Ostrand", 7, 1)])
def test_a_model_that_repeats_itself_for_ever_is_bounded_and_named(again, calls, retrievals):
    w = walk("iterdrag", again, rounds=3)
    assert (len(w.record.calls), len(w.queries), w.record.finish_reason) == (calls, retrievals, "max_turns")
    assert w.record.prediction is None, "the forced reply has no label: the general rule takes its first line"
    assert prediction_row(w.record, "first-line")["prediction"] == again


@pytest.mark.parametrize("reply", ["I would look up the bridge.", "Follow up:", "Follow up:\n\nIntermediate answer: x", ""])
def test_a_reply_that_is_no_step_brings_the_forced_answer(reply):
    w = walk("iterdrag", BORN, reply, "Tobin Hale", rounds=3)
    assert (len(w.record.calls), len(w.queries), w.record.finish_reason) == (3, 2, "no_answer")
    assert prediction_row(w.record, "first-line")["prediction"] == "Tobin Hale"
    assert not reply.startswith("I would") or reply not in w.prompts[-1]


def test_an_empty_forced_answer_is_a_failed_row_with_its_reason():
    row = prediction_row(walk("iterdrag", "nothing", " ").record, "first-line")
    assert (row["prediction"], row["finish_reason"], row["error"]) == ("", "no_answer", None)


def test_a_search_that_finds_nothing_goes_on():
    w = walk("iterdrag", "Follow up: zzz", "So the final answer is: x", passages=(), rounds=2)
    assert w.record.rounds[0].passages == () and w.record.prediction == "x" and w.shown(1) == []


def test_completion_calls_end_at_a_line():
    assert {p.operation.stop for p in walk("iterdrag", BORN, "no step", family="completion").requests} == {("\n",)}


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_batched_equals_sequential(family):
    check_batched_equals_sequential("iterdrag", family, rounds=3, top_k=2)


@pytest.mark.parametrize(("reply", "kind", "text"), [
    ("Follow up: who?", "follow up", "who?"), ("\n follow-up : who? \nmore", "follow up", "who?"),
    ("**Follow up:** who?", "follow up", "who?"), ("**Follow up**: who?", "follow up", "who?"),
    ("Follow up question: who?", "follow up", "who?"), ("Follow up:\nwho?", "follow up", "who?"),
    ("INTERMEDIATE ANSWER: x", "intermediate answer", "x"),
    ("Well. So the final answer is: x. Follow up: y", "final answer", "x."),
    ("<think>Follow up: no</think>Intermediate answer: x", "intermediate answer", "x"),
    ("Are follow up questions needed here: Yes.", "unparsable", ""), ("<think>Follow up: x", "unparsable", ""), ("", "unparsable", ""),
])
def test_the_first_step_of_a_reply(reply, kind, text):
    assert first_step(reply) == (kind, text)


def test_what_stands_before_the_first_label_is_told_apart():
    before, steps = steps_of("Ostrand\nFollow up: a Intermediate answer: b\nSo the final answer is: c")
    assert before == "Ostrand" and steps == [("follow up", "a"), ("intermediate answer", "b"), ("final answer", "c")]


@pytest.mark.parametrize(("answer", "clean"), [
    ("Tobin Hale.", "Tobin Hale"), ("Washington, D.C.", "Washington, D.C."), ("3.5.", "3.5"), ("Ph.D.", "Ph.D."), ("x", "x"), ("", ""),
    (".", "")])
def test_the_period_of_the_sentence_is_no_part_of_the_answer(answer, clean):
    assert without_period(answer) == clean
