"""A trajectory in words: the sentences a reader relies on."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_run import HOSTILE, PASSAGES, QUESTIONS, write_run

from evoctx_torch.analysis.narrate import narrate
from evoctx_torch.analysis.reason import reason, rule_of
from evoctx_torch.analysis.runs import Run, read_run, shown_contents
from evoctx_torch.operations import RETRIEVE, THINK, Completion, Decision, NoveltyRule, Passage, Question, Retrieved
from evoctx_torch.trajectory import Call, Round, Trajectory

CONFIG = {"method": "evoctx", "tau_near": 0.3, "tau_centroid": 0.2, "tau_tail": 0.4}
PAPER = NoveltyRule()


def story() -> tuple[dict[str, Any], dict[str, Any]]:
    """Two rounds, one of each action, and a right answer."""
    question = Question("q7", "Which river does  the bridge [/] cross?", ("Vell", "the Vell"))
    first, second = Passage("0", "d0", "Ostermark Bridge", "", 0.71234), Passage("1", "d1", "Vell", "", None)
    t = Trajectory(question, "evoctx", bootstrap_query=question.text, bootstrap=(first,))
    t.rounds = [
        Round("I know the bridge but\nnot the river.", "…", ("a", "b"), Decision(0.21, 0.28, 0.43, 1.075, RETRIEVE, "…"), RETRIEVE,
              query="Which river", passages=(second,), notes={"model_action": "THINK"}),
        Round("Now I see.", "…", ("a", "b", "c"), Decision(0.1, 0.25, 0.3, 0.75, THINK, "…"), THINK, subquery="Where does the Vell rise?"),
    ]
    t.answer = Completion("Vell", "eos", 100, 90, 3)
    t.calls = [Call("decider", Completion("", "eos", 1000, 900, 50, dropped=("0",))), Call("decider", Completion("", "eos", 1100, 90, 40)), Call("generator", t.answer)]
    t.retrievals, t.finish_reason = [Retrieved((first,)), Retrieved((second,))], "eos"
    row = {"id": "q7", "question": question.text, "golden_answers": ["Vell", "the Vell"], "prediction": "Vell", "raw_answer": "Vell", "em": 1.0, "f1": 1.0,
           "acc": 1.0, "evidence_recall": None, "actions": t.actions, **t.counts(), "finish_reason": "eos", "error": None}
    return t.to_json(), row


def test_the_whole_story() -> None:
    trajectory, row = story()
    assert narrate(trajectory, row, {"0": "Ostermark Bridge\nIt spans the Vell."}, config=CONFIG) == """\
Question q7: Which river does  the bridge [/] cross?
Expected: Vell or the Vell

The question itself retrieved 1 passage:
    - Ostermark Bridge (0.712)
      It spans the Vell.

Round 1: RETRIEVE
  Trace: I know the bridge but not the river.
  Against 2 texts of the boundary: nearest 0.210 (threshold 0.300), centroid 0.280 (threshold 0.200), 90th-percentile 0.430 (threshold 0.400); score 1.075
  Why: the 90th-percentile distance 0.43 passed 0.40, so the trace left its boundary: RETRIEVE.
  Query: Which river
  It brought 1 new passage:
    - Vell
  Model action: THINK

Round 2: THINK
  Trace: Now I see.
  Against 3 texts of the boundary: nearest 0.100 (threshold 0.300), centroid 0.250 (threshold 0.200), 90th-percentile 0.300 (threshold 0.400); score 0.750
  Why: the nearest distance 0.10 stayed below 0.30 and the 90th-percentile distance 0.30 stayed below 0.40, so the trace stayed inside its boundary: THINK.
  Sub-query: Where does the Vell rise?

Answer: Vell
Expected Vell or the Vell: right (EM 1, F1 1.00).
Dropped from a prompt that was too long: passages 0.
Cost: 3 model calls (decider 2, generator 1), 2 retrievals with 2 passages (2 different), 2,200 prompt tokens, 93 written; finished by eos.
"""


def test_passages_that_come_again_are_not_called_new() -> None:
    trajectory, row = story()
    (old,), (new,) = trajectory["bootstrap"]["passages"], trajectory["rounds"][0]["passages"]
    trajectory["rounds"][0]["passages"] = [old, new]
    trajectory["rounds"][1] |= {"query": "Vell", "passages": [new]}
    told = narrate(trajectory, row)
    assert "It brought 2 passages, 1 of them new:" in told and "It brought 1 passage, none of them new:" in told


def test_without_prediction_contents_and_configuration() -> None:
    told = narrate(story()[0])
    assert "Why: the score 1.075 reached 1, so the trace left its boundary: RETRIEVE." in told
    assert "threshold" not in told, "thresholds that are not known are not told"
    assert "Answer: Vell\n" in told
    assert "Expected" not in told


def test_verbose_keeps_texts_whole() -> None:
    trajectory, row = story()
    trajectory["rounds"][0]["trace"] = "first line\n" + "word " * 400 + "end"
    short, whole = narrate(trajectory, row), narrate(trajectory, row, verbose=True)
    assert ("end" in whole, "…" in whole) == (True, False)
    assert max(len(line) for line in short.split("\n")) < 300


def entry(near: float, centroid: float, tail: float, action: str, rule: NoveltyRule = PAPER) -> dict[str, Any]:
    scaled = {"near": near / rule.tau_near, "centroid": centroid / rule.tau_centroid, "tail": tail / rule.tau_tail}
    core = [scaled[name] for name in ("near", "centroid") if name in rule.signals]
    score = max([min(core)] if core else [], [scaled["tail"]] if "tail" in rule.signals else [])[0]
    return Round(decision=Decision(near, centroid, tail, score, action, ""), action=action).to_json(1)


@pytest.mark.parametrize(("signals", "action", "rule", "sentence"), [
    ((0.35, 0.25, 0.30), RETRIEVE, NoveltyRule(), "the nearest distance 0.35 passed 0.30 and the centroid distance 0.25 passed 0.20, so the trace left its boundary: RETRIEVE"),
    ((0.1, 0.1, 0.4), RETRIEVE, NoveltyRule(), "the 90th-percentile distance 0.40 reached 0.40, so the trace left its boundary: RETRIEVE"),
    ((0.1, 0.1, 0.39996), THINK, NoveltyRule(), "the nearest distance 0.10 stayed below 0.30 and the centroid distance 0.10 stayed below 0.20 and "
     "the 90th-percentile distance 0.39996 stayed below 0.40000, so the trace stayed inside its boundary: THINK"),
    ((0.5, 0.5, 0.9), RETRIEVE, NoveltyRule(signals=("near",)), "the nearest distance 0.50 passed 0.30, so the trace left its boundary: RETRIEVE"),
    ((0.1, 0.1, 0.9), THINK, NoveltyRule(signals=("tail",)), "the 90th-percentile distance 0.90 passed 0.40 would mean RETRIEVE, but the run's options overruled it: THINK"),
    ((0.1, 0.1, 0.5), RETRIEVE, NoveltyRule(quantile=0.5), "the 50th-percentile distance 0.50 passed 0.40, so the trace left its boundary: RETRIEVE"),
])
def test_why(signals: tuple[float, float, float], action: str, rule: NoveltyRule, sentence: str) -> None:
    assert reason(entry(*signals, action, rule), rule) == sentence


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_reason_never_contradicts_the_action(near: float, centroid: float, tail: float) -> None:
    rule = NoveltyRule()
    ruled = RETRIEVE if (near >= 0.3 and centroid >= 0.2) or tail >= 0.4 else THINK
    measured = entry(near, centroid, tail, ruled)
    measured["score"] = 1.0 if ruled == RETRIEVE else 0.5  # the recorded score is the authority
    sentence = reason(measured, rule)
    assert sentence.endswith(ruled)
    assert ("stayed below" in sentence) == (ruled == THINK)


def test_rounds_without_a_measure() -> None:
    assert "held NaN or infinity" in reason(entry(math.nan, math.nan, math.nan, THINK))
    assert "the boundary was empty" in reason(entry(math.inf, math.inf, math.inf, RETRIEVE), NoveltyRule())
    votes = {**Round(action=THINK).to_json(1), "votes": {"RETRIEVE": 1, "THINK": 3, "invalid": 1}}
    assert reason(votes) == "the votes were 1 RETRIEVE, 3 THINK, 1 invalid, so THINK"
    assert reason(Round(action=RETRIEVE).to_json(1)) == ""


def test_the_rule_is_that_of_the_run() -> None:
    assert rule_of({"method": "naive-rag", "top_k": 5}) is None
    rule = rule_of({**CONFIG, "tau_tail": 0.7, "tail_quantile": 0.8, "signals": "near+tail", "seed": 3})
    assert rule is not None
    assert (rule.tau_tail, rule.quantile, rule.signals) == (0.7, 0.8, ("near", "tail"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return read_run(write_run(tmp_path, rounds=3))


def test_failed_rows_say_what_ended_them(run: Run) -> None:
    error, over = (narrate(run.trajectories[i], run.predictions[i], config=run.config) for i in (0, 1))
    assert "Failed: decider: the server answered with HTML" in error
    assert "Failed: the prompt did not fit its budget even without any passage (over_length)." in over
    assert re.search(r"Dropped from a prompt that was too long: passages \d, \d\.", over)


def test_every_row_is_told_with_its_question_and_actions(run: Run) -> None:
    contents = shown_contents(run, run.trajectories)
    assert contents
    for trajectory, row in zip(run.trajectories, run.predictions, strict=True):
        told = narrate(trajectory, row, contents, config=run.config)
        assert trajectory["question"].replace("\x00", "\ufffd") in told
        assert all(f"Round {i}: {action}" in told for i, action in enumerate(row["actions"], 1))
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", told), "a text must not command the terminal"


def test_a_method_without_rounds(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, QUESTIONS[:1], method="closed-book", failing="none"))
    told = narrate(run.trajectories[0], run.predictions[0], config=run.config)
    assert "Round" not in told
    assert "retrieved" not in told
    assert "Cost: 1 model call (generator 1), 0 retrievals" in told


def test_contents_are_those_of_the_corpus(run: Run) -> None:
    hostile = next(p for p in PASSAGES if HOSTILE in p.contents)
    assert shown_contents(run, run.trajectories).get(hostile.id, hostile.contents) == hostile.contents
    shown = {p["id"] for p in run.trajectories[3]["bootstrap"]["passages"]}
    assert shown <= set(shown_contents(run, run.trajectories[3:]))
