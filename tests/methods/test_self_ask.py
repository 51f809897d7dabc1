"""Self-Ask walked call by call: no retrieval before the first follow-up, the answer and the next question in one call."""

from __future__ import annotations

import pytest
from walking import QUESTION, check_batched_equals_sequential, walk

from evoctx_torch.evaluation.results import prediction_row

FIRST = "Yes.\nFollow up: Iris Quell born"


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_the_whole_algorithm(family):
    w = walk("self-ask", FIRST, " Ostrand\nFollow up: mayor of Ostrand", "Tobin Hale\n\nSo the final answer is: Tobin Hale.",
        family=family, top_k=1, rounds=3)
    assert w.queries == ["Iris Quell born", "mayor of Ostrand"]
    assert [w.shown(call) for call in range(3)] == [[], ["p1"], ["p1", "p2"]]
    last = w.prompts[-1]
    places = [last.rindex(text) for text in ("Are follow up questions needed here: Yes.", "Follow up: Iris Quell born", "an engineer",
        "Intermediate answer: Ostrand",
                                             "Follow up: mayor of Ostrand", "harbour")]
    assert places == sorted(places)
    assert all(prompt.count(QUESTION.text) == 1 for prompt in w.prompts)
    record = w.record
    assert [(r.action, r.query, r.notes["intermediate_answer"]) for r in record.rounds] == [
        ("RETRIEVE", "Iris Quell born", "Ostrand"), ("RETRIEVE", "mayor of Ostrand", "Tobin Hale")]
    assert (record.prediction, record.finish_reason, len(record.calls), record.bootstrap) == ("Tobin Hale", "eos", 3, ())
    if family == "completion":
        assert w.prompts[0].endswith("needed here:") and last.endswith("Intermediate answer:")


def test_a_call_ends_before_the_next_intermediate_answer():
    written = "Yes.\nFollow up: Iris Quell born\nIntermediate answer: Nowhere\nSo the final answer is: Nobody"
    w = walk("self-ask", written, "So the final answer is: x")
    assert w.record.calls[0].completion.stopped_by == "\nIntermediate answer:"
    assert w.record.rounds[0].trace == FIRST
    assert w.record.prediction == "x" and not any("Nobody" in p or "Nowhere" in p for p in w.prompts)


def test_a_question_that_needs_no_follow_up_retrieves_nothing():
    w = walk("self-ask", "No.\nSo the final answer is: Tobin Hale")
    assert (w.record.prediction, w.queries, len(w.record.calls), w.record.rounds) == ("Tobin Hale", [], 1, [])


def test_the_label_may_be_repeated():
    w = walk("self-ask", FIRST, "Intermediate answer: Ostrand\nFollow up: Brask", "So the final answer is: y")
    assert w.record.rounds[0].notes["intermediate_answer"] == "Ostrand" and w.record.rounds[1].query == "Brask"
    assert w.prompts[2].count("Intermediate answer: Ostrand") == 1
    assert w.record.rounds[1].notes["intermediate_answer"] == "", "an answer that is not given is none"


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_after_the_last_follow_up_the_answer_is_forced(rounds):
    w = walk("self-ask", FIRST, *[f"value {i}\nFollow up: step {i} of Brask" for i in range(1, rounds + 1)], "done", rounds=rounds)
    assert (len(w.record.calls), len(w.queries), w.record.finish_reason) == (rounds + 2, rounds, "max_turns")
    assert prediction_row(w.record, "first-line")["prediction"] == "done"
    assert rounds == 0 or f"value {rounds}" in w.prompts[-1], "the answer to the last follow-up is lost"
    assert f"step {rounds} of" not in w.prompts[-1], "a follow-up that was not looked up is shown"


def test_a_model_that_repeats_itself_for_ever_is_bounded_and_named():
    w = walk("self-ask", FIRST, rounds=4)
    assert (len(w.record.calls), len(w.queries), w.record.finish_reason) == (6, 4, "max_turns")


@pytest.mark.parametrize("reply", ["Ostrand, I think.", "", "Yes.", "Follow up:"])
def test_a_reply_without_a_step_brings_the_forced_answer(reply):
    for before in ((), (FIRST,)):
        w = walk("self-ask", *before, reply, "So the final answer is: Tobin Hale")
        assert (len(w.record.calls), w.record.finish_reason, w.record.prediction) == (len(before) + 2, "no_answer", "Tobin Hale")


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_batched_equals_sequential(family):
    check_batched_equals_sequential("self-ask", family, rounds=2, top_k=2)
