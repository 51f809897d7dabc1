"""FLARE walked draft by draft: which tokens decide, what is searched, what is written anew and from which passages."""

from __future__ import annotations

import math

import pytest
from walking import QUESTION, check_batched_equals_sequential, spoken, walk

from evoctx_torch.evaluation.results import prediction_row
from evoctx_torch.methods.flare import FlareOptions, drafted, masked
from evoctx_torch.operations import Completion

SURE = spoken("Iris", " Quell", " drew", " it", ".")
UNSURE = spoken("She", " was", (" born", 0.7), " in", (" Brask", 0.3), ".", (" More", 0.1), ".")
DONE = spoken("So", " the", " answer", " is", ":", " Tobin", " Hale", ".")


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_the_whole_algorithm(family):
    w = walk("flare", SURE, UNSURE, "She was born in Ostrand. And more.", DONE, family=family, top_k=1)
    assert w.queries == ["She was born in."], "the improbable token of the sentence is left out, those after it do not count"
    assert [w.shown(call) for call in range(4)] == [[], [], ["p1"], []], "drafts are written without passages (section 3.2.1)"
    assert [p.operation.pieces for p in w.requests] == [True, True, False, True]
    assert "Iris Quell drew it." not in w.prompts[0]
    assert "Iris Quell drew it." in w.prompts[2] and "Brask" not in w.prompts[2], "the draft is written anew, not gone on with"
    assert "Iris Quell drew it. She was born in Ostrand." in w.prompts[3] and "And more" not in w.prompts[3]
    first, second, third = w.record.rounds
    assert [(r.trace, r.action, r.query) for r in w.record.rounds] == [
        ("Iris Quell drew it.", "THINK", ""), ("She was born in Ostrand.", "RETRIEVE", "She was born in."),
        ("So the answer is: Tobin Hale.", "THINK", "")]
    assert second.notes["draft"] == "She was born in Brask." and second.notes["least_probability"] == pytest.approx(0.3)
    assert first.notes["least_probability"] == pytest.approx(0.9) and third.passages == ()
    assert (w.record.prediction, w.record.finish_reason, len(w.record.calls), w.record.bootstrap) == ("Tobin Hale", "eos", 4, ())


@pytest.mark.parametrize(("theta", "beta", "queries"), [
    (0.8, 0.4, ["She was born in."]), (0.8, 0.0, ["She was born in Brask."]), (0.8, 0.8, ["She was in."]), (0.2, 0.4, []), (0.0, 0.4, []),
    (0.8, 1.0, ["She was born in Brask."]),
])
def test_theta_decides_and_beta_masks(theta, beta, queries):
    w = walk("flare", UNSURE, "She was born. x" if queries else DONE, DONE, theta=theta, beta=beta, rounds=2)
    assert w.queries == queries, "a sentence whose every token is masked is searched as it is"


@pytest.mark.parametrize(("probability", "theta", "retrieves"), [(0.5, 0.8, True), (0.79, 0.8, True), (0.85, 0.8, False), (1.0, 1.0, False)])
def test_a_token_below_theta_retrieves_and_one_at_it_does_not(probability, theta, retrieves):
    draft = spoken(*((piece, probability) for piece in ("She", " was", " born", ".")))
    assert bool(walk("flare", draft, "She was. x" if retrieves else DONE, DONE, theta=theta, rounds=1).queries) is retrieves


def test_drafts_from_the_newest_passages():
    w = walk("flare", UNSURE, "She was born in Ostrand.", SURE, DONE, drafts="newest", top_k=1)
    assert w.queries == [QUESTION.text, "She was born in."]
    assert [w.shown(call) for call in range(4)] == [["p0"], ["p1"], ["p1"], ["p1"]]
    assert [p.id for p in w.record.bootstrap] == ["p0"]


def test_a_model_that_never_answers_is_bounded_and_asked():
    w = walk("flare", SURE, SURE, SURE, "Hale", rounds=3)
    assert (len(w.record.calls), w.record.finish_reason, w.requests[-1].operation.pieces) == (4, "max_turns", False)
    assert prediction_row(w.record, "first-line")["prediction"] == "Hale"
    uncertain = walk("flare", *[UNSURE, "She was born in Ostrand."] * 2, "Hale", rounds=2, top_k=1)
    assert (len(uncertain.record.calls), len(uncertain.queries), uncertain.shown(4)) == (5, 2,
        ["p1", "p1"]), "the reader sees what was found"


@pytest.mark.parametrize("replies", [(SURE, spoken(reason="empty"), "Hale"), (SURE, spoken("<think>", "hm"), "Hale"),
    (UNSURE, " ", "Hale")])
def test_a_model_with_nothing_more_to_say_is_asked(replies):
    w = walk("flare", *replies)
    assert (len(w.record.calls), w.record.finish_reason) == (3, "no_answer")
    assert prediction_row(w.record, "first-line")["prediction"] == "Hale"


def test_a_backend_without_log_probabilities_fails_the_row_with_a_message():
    w = walk("flare", "She was born in Brask.")
    assert w.record.finish_reason == "error" and "log-probability of every generated token" in w.record.error and "generator" in w.record.error
    assert walk("flare", Completion("x", "eos", 1, 1, 1, (1,), (-0.1,))).record.finish_reason == "error"


@pytest.mark.parametrize(("tokens", "sentence", "kept"), [
    ((" ", "Iris", " drew.", " It"), "Iris drew.", ["Iris", " drew."]),
    (("Iris", " drew. It", " is"), "Iris drew.", ["Iris", " drew. It"]),
    (("Caf", "", "é", " is", ".\n", "Next", ""), "Café is.", ["Caf", "", "é", " is", ".\n"]),
    (("", "é", " is.", ""), "é is.", ["", "é", " is."]),
    (("<think>", "a. ", "b.", "</think>", "\n", "So."), "So.", ["So."]),
    (("no", " end", ""), "no end", ["no", " end"]),
    ((), "", []),
])
def test_only_the_tokens_of_the_first_sentence_count(tokens, sentence, kept):
    said, counted = drafted(spoken(*tokens))
    assert said == sentence and [piece for piece, _ in counted] == kept
    assert all(p == pytest.approx(0.9) for _, p in counted)


def test_masking_squeezes_white_space():
    assert masked([("She", 0.9), (" was", 0.1), (" born", 0.9), ("\n", 0.9)], 0.4) == "She born"
    assert masked([("She", 0.1)], 0.4) == "" and math.isclose(FlareOptions().theta, 0.8) and FlareOptions().beta == 0.4


@pytest.mark.parametrize("family", ["chat", "completion"])
@pytest.mark.parametrize("drafts", ["closed", "newest"])
def test_batched_equals_sequential(drafts, family):
    check_batched_equals_sequential("flare", family, rounds=3, top_k=2, drafts=drafts)
