"""EvoCtx walked step by step: what is retrieved, asked, measured and recorded, in which order (PAPERS section 1)."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest
from fakes import FakeController, FakeRetriever, question

from evoctx_torch.engine import Engine
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.methods import get_method
from evoctx_torch.methods.evoctx import EvoCtxOptions
from evoctx_torch.methods.replies import UNPARSABLE, action_word, one_line, reasoning
from evoctx_torch.operations import Decide
from evoctx_torch.prompts import Family, PromptBook

PROMPTS = PromptBook(Family("chat"))


def walk(measured: str, /, reply=None, **options):
    """Run one question whose measured actions are given as letters, R or T."""
    reply = reply or (lambda p: f"trace {p.number}. Action: THINK" if p.operation.role == "decider" else f"Sub-question: sub {p.number}?\nmore")
    generator, retriever = ScriptedGenerator(reply), FakeRetriever()
    controller = FakeController(lambda _, n: {"R": "RETRIEVE", "T": "THINK"}[measured[n]])
    engine = Engine("evoctx", EvoCtxOptions(rounds=len(measured), **{"top_k": 2, **options}), generator=generator, retriever=retriever,
                    controller=controller, prompts=PROMPTS)
    (trajectory,) = engine.run([question(3)])
    return trajectory, generator, retriever, controller


def test_the_whole_algorithm():
    trajectory, generator, retriever, controller = walk("TRT")
    first, second, third = trajectory.rounds
    assert [r.action for r in trajectory.rounds] == ["THINK", "RETRIEVE", "THINK"]
    # The model's own word (always THINK here) is recorded and ignored.
    assert [r.notes["model_action"] for r in trajectory.rounds] == ["THINK"] * 3
    # THINK: one sub-query, no passages. RETRIEVE: passages of new documents, no sub-query.
    assert first.subquery == "sub 3?" and not first.passages and not first.query
    assert second.query == "What is number 3? sub 3?" and not second.subquery
    assert len(second.passages) == 2
    seen = {p.doc_id for p in trajectory.bootstrap}
    assert not {p.doc_id for p in second.passages} & seen
    bootstrap, retrieve = (batch[0].operation for batch in retriever.batches)
    assert (bootstrap.query, bootstrap.exclude) == ("What is number 3?", frozenset())
    assert retrieve.exclude == seen and retrieve.refill
    # The boundary grows by what arrived: question; sub-queries; passages.
    sizes = [len(p.operation.boundary) for p in controller.asked["q3"]]
    assert sizes == [3, 4, 6]
    assert controller.asked["q3"][2].operation.boundary[:2] == ("What is number 3?", "sub 3?")
    roles = [p.operation.role for p in generator.requests]
    assert roles == ["decider", "generator", "decider", "decider", "generator", "generator"]
    # The answer sees everything.
    last = generator.requests[-1].operation.prompt.text
    assert all(p.contents in last for p in trajectory.passages)
    assert all(r.subquery in last for r in (first, third))


def test_prompts_of_a_role_grow_only_at_their_end():
    _, generator, _, _ = walk("TRTRT")
    deciders = [p.operation.prompt.segments for p in generator.requests if p.operation.role == "decider"]
    for earlier, later in pairwise(deciders):
        assert later[: len(earlier) - 1] == earlier[:-1]
        assert len(later) > len(earlier)
    # No round number stands anywhere: the last segments are equal.
    assert len({segments[-1] for segments in deciders}) == 1


def test_zero_rounds_is_retrieve_and_answer():
    trajectory, generator, retriever, _ = walk("")
    assert trajectory.actions == [] and len(generator.requests) == 1 and len(retriever.batches) == 1


@pytest.mark.parametrize(("options", "actions"), [
    ({"actions": "retrieve-only"}, ["RETRIEVE"] * 3), ({"actions": "think-only"}, ["THINK"] * 3),
    ({"actions": "model"}, ["THINK"] * 3), ({"actions": "signals"}, ["RETRIEVE"] * 3),
])
def test_ablations_of_the_action(options, actions):
    trajectory, *_ = walk("RRR", **options)
    assert trajectory.actions == actions
    assert all(r.decision is not None for r in trajectory.rounds), "the signals are recorded whoever chooses"


def test_a_word_that_cannot_be_read_retrieves_and_is_counted():
    trajectory, *_ = walk("TT", reply=lambda p: "banana", actions="model")
    assert trajectory.actions == ["RETRIEVE"] * 2
    assert [r.notes["model_action"] for r in trajectory.rounds] == [UNPARSABLE] * 2


def test_without_traces_the_newest_subquery_is_measured():
    trajectory, generator, _, controller = walk("TT", trace=False)
    assert [p.operation.trace for p in controller.asked["q3"]] == ["What is number 3?", "sub 2?"]
    assert {p.operation.role for p in generator.requests} == {"generator"}
    assert all(r.trace == "" for r in trajectory.rounds)


def test_an_empty_trace_is_no_trace():
    trajectory, _, _, controller = walk("TT", reply=lambda p: "  " if p.operation.role == "decider" else f"sub {p.number}")
    assert [p.operation.trace for p in controller.asked["q3"]] == ["What is number 3?", "sub 3"]
    assert trajectory.finish_reason == "eos"


def test_an_empty_subquery_adds_nothing():
    trajectory, _, _, controller = walk("TT", reply=lambda p: "a trace" if p.operation.role == "decider" else "")
    assert [r.subquery for r in trajectory.rounds] == ["", ""]
    assert [len(p.operation.boundary) for p in controller.asked["q3"]] == [3, 3]
    assert trajectory.finish_reason == "empty"


def test_options_reach_the_rule_and_the_boundary():
    _, _, retriever, controller = walk("RR", tau_near=0.5, tail_quantile=0.5, interpolation="lower", distance="half-cosine", signals="near+tail",
                                       trace_window="tail", cap_passages=1, refill=False, passage_text="title")
    operation = controller.asked["q3"][1].operation
    assert operation.rule.signals == ("near", "tail") and operation.rule.tau_near == 0.5 and operation.rule.window == "tail"
    assert operation.rule.interpolation == "lower" and operation.rule.quantile == 0.5 and operation.rule.distance == "half-cosine"
    assert len(operation.boundary) == 2 and operation.boundary[1].startswith("Title ") and "\n" not in operation.boundary[1]
    assert retriever.batches[1][0].operation.refill is False


def test_the_defaults_are_the_papers():
    options = EvoCtxOptions()
    assert (options.rounds, options.top_k, options.tau_near, options.tau_centroid, options.tau_tail) == (8, 5, 0.3, 0.2, 0.4)
    assert Decide("", ()).rule == options.rule()
    assert all(f.metadata["paper"] for f in dataclasses.fields(EvoCtxOptions)), "every option says the paper's value, or that it is open"
    assert get_method("evoctx").roles == ("decider", "generator")


@pytest.mark.parametrize(("text", "word"), [
    ("I would retrieve, not think.", "RETRIEVE"), ("Think: it is known", "THINK"), ("**RETRIEVE**", "RETRIEVE"), ("banana", UNPARSABLE), ("", UNPARSABLE),
    ("I am rethinking this", UNPARSABLE),
    ("<think>the passages are silent</think>\nAction: RETRIEVE", "RETRIEVE"), ("<think>quiet</think> done", UNPARSABLE), ("<think>retrieve", "RETRIEVE"),
    ("After much thinking: RETRIEVE", "RETRIEVE"),
])
def test_action_words(text, word):
    assert action_word(text) == word


@pytest.mark.parametrize(("text", "trace"), [
    ("<think> deep \n thought </think> Action: THINK", "deep \n thought"), ("plain words", "plain words"), ("<think>cut off", "cut off"),
    ("opened by the template</think>done", "opened by the template"), ("<think></think> only after", "only after"),
])
def test_the_trace_of_a_thinking_model_is_what_it_thinks(text, trace):
    assert reasoning(text) == trace


@pytest.mark.parametrize(("text", "line"), [
    ("\n\n Sub-question:  who? \nSub-question: other", "who?"), ("<think>hm</think>\nSUB-QUESTION: x", "x"), ("  ", ""), ("sub-query 1 of q0", "sub-query 1 of q0"),
    ("**Sub-question:** who?", "who?"),
])
def test_a_subquery_is_the_first_line_without_its_label(text, line):
    assert one_line(text, "sub-question") == line
