"""Sentences of a chain of thought, and the two methods that retrieve with them: ITER-RETGEN and IRCoT."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from walking import QUESTION, check_batched_equals_sequential, walk

from evoctx_torch.evaluation.results import prediction_row
from evoctx_torch.methods.chain import answer_in, first_sentence, sentence_span
from evoctx_torch.methods.modules import Modules

BORN, TOWN, DONE = "Iris Quell was born in Ostrand.", "Ostrand has a mayor.", "So the answer is: Tobin Hale."


@pytest.mark.parametrize(("reply", "sentence"), [
    ("Dr. Smith met J. K. Rowling in St. Louis. She left.", "Dr. Smith met J. K. Rowling in St. Louis."),
    ("He paid 3.5 dollars. Then he left.", "He paid 3.5 dollars."), (" \n1. Osric was born. Two", "1. Osric was born."),
    ("It took approx. five years. Then", "It took approx. five years."), ("It is U.S. law. Next", "It is U.S. law."),
    ('He said "no." Then', 'He said "no."'), ("Who? Me.", "Who?"), ("Wait... what is it? Yes", "Wait... what is it?"),
    ("No. 5 is alive. Then", "No. 5 is alive."),
    ("No. It is not.", "No."), ("one line\nnext. line", "one line"), ("no end", "no end"),
    ("So the answer is: Washington, D.C.", "So the answer is: Washington, D.C."),
    ("<think>a. b.</think>\n Well. More.", "Well."), ("<think>a. b", ""), ("", ""), (" \n ", ""),
])
def test_the_first_sentence_of_a_reply(reply, sentence):
    assert first_sentence(reply) == sentence


@given(st.text(alphabet="aB. \n?\"1</think>", max_size=30))
def test_a_sentence_is_a_trimmed_line_of_its_reply(reply):
    begin, end = sentence_span(reply)
    sentence = reply[begin:end]
    assert 0 <= begin <= end <= len(reply)
    assert sentence == sentence.strip() and "\n" not in sentence
    assert sentence or not reply.strip() or "think>" in reply


@pytest.mark.parametrize(("chain", "answer"), [
    (f"{BORN} {DONE}", "Tobin Hale"), ("The answer is yes.", "yes"), ("the ANSWER  IS: D.C.", "D.C."),
    ("The answer is a. So the answer is: b.", "b"), ("So the answer is: **b**.", "b"), ("So the answer is: **D.C.**", "D.C."),
    ("So the answer is: b.\nThen more.", "b"), (BORN, None), ("So the answer is:", None), ("So the answer is: .", None), ("", None),
])
def test_the_answer_in_a_chain(chain, answer):
    assert answer_in(chain) == answer


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_iter_retgen_searches_with_the_last_generation_and_sees_the_newest_passages_only(family):
    w = walk("iter-retgen", f" {BORN} {TOWN}", f"<think>hm</think>Tobin Hale is. {DONE}", f"It is he. {DONE}", family=family, rounds=3,
        top_k=1)
    assert w.queries == [QUESTION.text, f"{QUESTION.text} {BORN} {TOWN}", f"{QUESTION.text} Tobin Hale is. {DONE}"]
    found = [[p.id for p in r.passages] for r in w.record.rounds]
    assert [w.shown(call) for call in range(3)] == found and len({tuple(f) for f in found}) > 1
    assert not any(BORN in prompt for prompt in w.prompts), "the generation goes into the query, not into the prompt"
    assert (w.record.prediction, w.record.finish_reason, w.record.actions) == ("Tobin Hale", "eos", ["RETRIEVE"] * 3)


def test_iter_retgen_without_the_phrase_is_named_and_answers_with_its_chain():
    w = walk("iter-retgen", "It is Tobin Hale", rounds=2)
    assert (w.record.prediction, w.record.finish_reason) == (None, "no_answer")
    assert prediction_row(w.record, "first-line")["prediction"] == "It is Tobin Hale"
    empty = walk("iter-retgen", "", rounds=2)
    assert empty.queries == [QUESTION.text] * 2 and prediction_row(empty.record, "first-line")["finish_reason"] == "no_answer"


def test_iter_retgen_keeps_the_contextualizers_extracts():
    w = walk("iter-retgen", "NOTE one", BORN, "NOTE two", DONE, rounds=2, top_k=1, modules=Modules(contextualize=True))
    assert [p.operation.role for p in w.requests] == ["contextualizer", "generator"] * 2
    assert "NOTE one" in w.prompts[1] and "NOTE one" in w.prompts[3] and "NOTE two" in w.prompts[3]


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_ircot_retrieves_with_each_sentence_and_lets_the_reader_answer(family):
    w = walk("ircot", f"{BORN} And more.", TOWN, DONE, "Hale", family=family, top_k=1)
    assert w.queries == [QUESTION.text, BORN, TOWN], "a sentence that answers is no query"
    assert [w.shown(call) for call in range(4)] == [["p0"], ["p0", "p1"], ["p0", "p1", "p2"], ["p0", "p1", "p2"]]
    assert BORN not in w.prompts[0] and BORN in w.prompts[1] and f"{BORN} {TOWN}" in w.prompts[2] and not any("And more" in p
        for p in w.prompts)
    assert BORN not in w.prompts[3], "the reader reads the passages, not the chain"
    assert [(r.trace, r.action, r.query) for r in w.record.rounds] == [(BORN, "RETRIEVE", BORN), (TOWN, "RETRIEVE", TOWN),
        (DONE, "THINK", "")]
    assert (prediction_row(w.record, "first-line")["prediction"], w.record.finish_reason, len(w.record.calls)) == ("Hale", "eos", 4)


def test_ircot_may_answer_from_the_chain():
    w = walk("ircot", BORN, DONE, answer="chain")
    assert (w.record.prediction, w.record.answer.text, len(w.record.calls), w.record.finish_reason) == ("Tobin Hale", DONE, 2, "eos")


def test_ircot_shows_a_passage_once_and_stops_retrieving_at_its_cap():
    w = walk("ircot", BORN, "Iris Quell of Ostrand was born.", "Brask and Marwick College.", "Tobin Hale.", DONE, "x", top_k=2,
        cap_passages=4)
    assert all(len(set(w.shown(call))) == len(w.shown(call)) <= 4 for call in range(6))
    assert [r.action for r in w.record.rounds] == ["RETRIEVE", "RETRIEVE", "RETRIEVE", "THINK", "THINK"]
    assert len(w.shown(5)) == 4
    assert len(walk("ircot", DONE, top_k=5, cap_passages=2).record.bootstrap) == 2


@pytest.mark.parametrize("answer", ["reader", "chain"])
def test_ircot_is_bounded(answer):
    w = walk("ircot", *[BORN] * 3, "Hale", rounds=3, answer=answer)
    assert (len(w.record.calls), len(w.queries), w.record.finish_reason) == (4, 4, "max_turns")
    assert prediction_row(w.record, "first-line")["prediction"] == "Hale"


def test_ircot_with_nothing_more_to_say_asks_the_reader():
    w = walk("ircot", BORN, " ", "Hale", rounds=5)
    assert (len(w.record.calls), w.record.finish_reason, len(w.record.rounds)) == (3, "no_answer", 1)


@pytest.mark.parametrize("family", ["chat", "completion"])
@pytest.mark.parametrize(("method", "options"), [("iter-retgen", {"rounds": 2, "top_k": 2}),
    ("ircot", {"rounds": 3, "top_k": 2, "cap_passages": 3})])
def test_batched_equals_sequential(method, options, family):
    check_batched_equals_sequential(method, family, **options)
