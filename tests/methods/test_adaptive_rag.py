"""Adaptive-RAG: the class chooses the method, which then goes its own way; a class that cannot be read is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from walking import QUESTION, check_batched_equals_sequential, walk

from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.config import resolve
from evoctx_torch.evaluation.results import prediction_row
from evoctx_torch.methods import METHODS
from evoctx_torch.methods.adaptive_rag import named_class

GIVEN = {"data": "demo", "generator": "some-model"}
CHAIN = ("Iris Quell was born in Ostrand.", "So the answer is: Tobin Hale.", "Hale")
STEPS = ("Follow up: Iris Quell born", "So the final answer is: Hale")


def route(letter: str, **metadata: object) -> object:
    return replace(QUESTION, metadata={"class": letter, **metadata})


@pytest.mark.parametrize("family", ["chat", "completion"])
@pytest.mark.parametrize(("letter", "method", "options", "replies"), [
    ("A", "closed-book", {}, ("Hale",)), ("B", "naive-rag", {"top_k": 2}, ("Hale",)), ("C", "ircot", {"top_k": 2, "rounds": 3}, CHAIN),
    ("C", "iterdrag", {"top_k": 2, "rounds": 3}, STEPS),
])
def test_each_class_is_answered_by_its_method(letter, method, options, replies, family):
    own = {"top_k": 2, "rounds": 3, **({"multi": method} if letter == "C" else {})}
    w, alone = walk("adaptive-rag", letter, *replies, family=family, **own), walk(method, *replies, family=family, **options)
    assert [p.operation.role for p in w.requests] == ["classifier"] + ["generator"] * len(alone.requests)
    assert w.prompts[1:] == alone.prompts and w.queries == alone.queries, "its prompts, head and all, are that method's own"
    assert [p.operation.stop for p in w.requests[1:]] == [p.operation.stop for p in alone.requests]
    assert [r.to_json(1) for r in w.record.rounds] == [r.to_json(1) for r in alone.record.rounds]
    assert (w.record.prediction, w.record.finish_reason, w.record.columns) == (alone.record.prediction, alone.record.finish_reason,
        {"route": letter})
    assert QUESTION.text in w.prompts[0] and w.shown(0) == []


@pytest.mark.parametrize(("unparsable", "retrievals"), [("A", 0), ("B", 1), ("C", 2)])
def test_a_class_that_cannot_be_read_is_counted_and_has_a_defined_outcome(unparsable, retrievals):
    w = walk("adaptive-rag", "It depends on a few things.", *CHAIN, unparsable=unparsable)
    assert len(w.queries) == retrievals
    assert prediction_row(w.record, "first-line")["route"] == "unparsable"


@pytest.mark.parametrize(("letter", "calls"), [("A", 1), ("B", 1), ("C", 3)])
def test_a_users_own_classifier_is_obeyed_and_nobody_is_asked(letter, calls):
    w = walk("adaptive-rag", *(CHAIN if letter == "C" else ("Hale",)), question=route(letter), route_key="class")
    assert {p.operation.role for p in w.requests} == {"generator"} and len(w.requests) == calls
    assert w.record.columns == {"route": letter}


@pytest.mark.parametrize("given", ["D", "", None, 3, "a"])
def test_a_question_without_its_class_is_refused(given):
    method, question = METHODS["adaptive-rag"], route(given)
    with pytest.raises(UsageError, match=r"--route-key class: .*question 'q'.*expected A, B or C"):
        method.check(method.options(route_key="class"), question)
    method.check(method.options(route_key="class"), route("A"))
    method.check(method.options(), question)
    failed = walk("adaptive-rag", "x", question=question, route_key="class").record
    assert failed.finish_reason == "error" and "--route-key class" in failed.error


def test_the_classifier_must_be_named_unless_the_user_gives_the_classes():
    with pytest.raises(UsageError, match="--classifier is missing"):
        resolve("adaptive-rag", GIVEN)
    config = resolve("adaptive-rag", {**GIVEN, "classifier": "small"})
    assert config.models == {"generator": "some-model", "classifier": "small"} and config.roles["classifier"].max_new_tokens == 8
    config = resolve("adaptive-rag", {**GIVEN, "route_key": "class"})
    assert config.models == {"generator": "some-model"}
    with pytest.raises(UsageError, match="--classifier sets a role that this run does not ask: leave it out"):
        resolve("adaptive-rag", {**GIVEN, "route_key": "class", "classifier": "small"})
    with pytest.raises(UsageError, match="--classifier-dtype sets a role"):
        resolve("adaptive-rag", {**GIVEN, "route_key": "class", "classifier_dtype": "float16"})


def test_all_templates_of_the_methods_it_hands_over_to_are_checked():
    assert dict(METHODS["adaptive-rag"].templates).keys() == {"classify_head", "head", "chain_head", "iterdrag_head"}


@pytest.mark.parametrize("family", ["chat", "completion"])
@pytest.mark.parametrize("multi", ["ircot", "iterdrag"])
def test_batched_equals_sequential(multi, family):
    check_batched_equals_sequential("adaptive-rag", family, rounds=2, top_k=2, multi=multi)


@pytest.mark.parametrize(("reply", "named"), [
    ("A", "A"), (" b.", "B"), ("(C)", "C"), ("**C**", "C"), ("B: one search", "B"), ("Class: C", "C"), ("The answer is B.", "B"),
    ("Class A", "A"),
    ("<think>A</think>\nC", "C"), ("C\nbecause", "C"), ("Hm.\nB", "B"), ("A single search is enough", "unparsable"),
    ("none", "unparsable"), ("", "unparsable"),
    ("D", "unparsable"), ("<think>A", "unparsable"),
])
def test_the_class_that_a_reply_names(reply, named):
    assert named_class(reply) == named
