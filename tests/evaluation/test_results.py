"""From a trajectory to its columns, and from columns to the numbers of a run."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.evaluation.results import COUNTS, SCORES, action_counts, action_shares, prediction_row, summarize, think_ratios
from evoctx_torch.metrics.multihoprag import MULTIHOPRAG_RANKING
from evoctx_torch.metrics.ranking import RETRIEVAL_METRICS
from evoctx_torch.operations import RETRIEVE, THINK, Completion, Passage, Question, Retrieved
from evoctx_torch.trajectory import Call, Trajectory


def passage(i: int, text: str = "") -> Passage:
    return Passage(f"p{i}", f"d{i}", f"t{i}", text or f"t{i}\ntext {i}")


def trajectory(metadata: dict, *retrievals: list[Passage], answer: str = "Vell") -> Trajectory:
    record = Trajectory(Question("q", "Which river?", ("Vell",), metadata), "naive-rag")
    record.retrievals = [Retrieved(tuple(found)) for found in retrievals]
    record.answer = Completion(answer, "eos", 10, 10, 2)
    record.finish_reason = "eos"
    return record


def test_the_ranking_is_what_the_episode_retrieved_in_its_order() -> None:
    first, second = [passage(0), passage(1), passage(2)], [passage(1), passage(3), passage(4)]
    row = prediction_row(trajectory({"supporting_passage_ids": ["p4", "p1", "p9"]}, first, second), "first-line")
    # ranked: p0 p1 p2 p3 p4; gold at 2 and 5, one gold never found
    assert {name: row[name] for name in ("evidence_recall", *RETRIEVAL_METRICS)} == pytest.approx(
        {"evidence_recall": 2 / 3, "hits@4": 1, "hits@10": 1, "mrr@10": 1 / 2, "map@10": (1 / 2 + 2 / 5) / 3})
    assert not set(row) & set(MULTIHOPRAG_RANKING)


def test_without_gold_there_is_no_value_and_nothing_in_the_summary() -> None:
    row = prediction_row(trajectory({}, [passage(0)]), "first-line")
    assert all(row[name] is None for name in ("evidence_recall", *RETRIEVAL_METRICS))
    assert not {"evidence_recall", *RETRIEVAL_METRICS, *MULTIHOPRAG_RANKING, "turns", "rouge1"} & set(summarize([row], {}))


def test_multihoprag_has_its_own_ranking_over_texts() -> None:
    found = [passage(0, "noise"), passage(1, "The fact\nof a."), passage(2, "and fact of b")]
    row = prediction_row(trajectory({"evidence": [{"fact": "fact of a."}, {"fact": "fact of b"}]}, found), "first-line")
    assert [row[name] for name in MULTIHOPRAG_RANKING] == pytest.approx([1, 1, 1 / 2, (1 / 2 + 1 / 3) / 2])
    null = prediction_row(trajectory({"evidence": []}, found), "first-line")
    assert [null[name] for name in MULTIHOPRAG_RANKING] == [None] * 4
    summary = summarize([row, null], {})
    assert summary["multihoprag_mrr@10"]["mean"] == 1 / 2, "a question without evidence is left out of the mean"
    other = prediction_row(trajectory({"evidence": "some text of another data set"}, found), "first-line")
    assert not set(other) & set(MULTIHOPRAG_RANKING)


def test_every_multihoprag_question_of_the_shared_slice_has_its_gold_at_hand(shared: Path) -> None:
    rows = [json.loads(line) for line in (shared / "data/multihoprag/queries.jsonl").read_text(encoding="utf-8").splitlines()]
    corpus = {(p := json.loads(line))["id"]: p["contents"] for line in (shared / "data/multihoprag/corpus.jsonl").read_text(encoding="utf-8").splitlines()}
    for row in rows:
        gold = [Passage(i, i, "", corpus[i]) for i in row["metadata"].get("supporting_passage_ids") or []]
        columns = prediction_row(trajectory(row["metadata"], gold), "first-line")
        if gold:
            assert columns["evidence_recall"] == columns["map@10"] == 1 and columns["multihoprag_hits@4"] == 1, row["id"]
        else:
            assert columns["multihoprag_hits@4"] is None


def test_columns_of_some_methods_are_averaged_where_they_are() -> None:
    rows = []
    for turns in (2, 3, None):
        record = trajectory({}, [passage(0)])
        record.columns = {} if turns is None else {"turns": turns}
        rows.append(prediction_row(record, "first-line"))
    rows[0] |= {"rouge1": 0.5}
    summary = summarize(rows, {})
    assert summary["turns"]["mean"] == 2.5 and summary["rouge1"]["mean"] == 0.5
    assert all(name in summary for name in COUNTS) and not {"evidence_recall"} & set(summary) and set(SCORES) - set(summary)


ACTIONS = st.lists(st.lists(st.sampled_from([RETRIEVE, THINK]), max_size=4), max_size=6)


@given(ACTIONS)
def test_think_ratio_by_round_is_that_of_the_rounds_so_far(actions: list[list[str]]) -> None:
    ratios = think_ratios(action_counts(actions))
    assert len(ratios) == max(map(len, actions), default=0)
    for n, entry in enumerate(ratios, 1):
        taken = Counter(action for row in actions for action in row[:n])
        assert entry == {"round": n, "think_ratio": taken[THINK] / taken.total(), "count": taken.total()}


def test_the_last_think_ratio_by_round_is_the_runs() -> None:
    rows = [{**prediction_row(trajectory({}), "first-line"), "actions": actions} for actions in ([RETRIEVE, THINK], [RETRIEVE, THINK, THINK], [])]
    summary = summarize(rows, {})
    assert [entry["think_ratio"] for entry in summary["think_ratio_by_round"]] == [0, 1 / 2, 3 / 5]
    assert summary["think_ratio_by_round"][-1]["think_ratio"] == summary["think_ratio"]
    assert [entry[THINK] for entry in summary["action_share_by_round"]] == [0, 1, 1]


@pytest.mark.parametrize(("actions", "shares"), [
    ([["INVALID", "ANSWER"], ["RETRIEVE"]], [{RETRIEVE: 0.5, THINK: 0, "ANSWER": 0, "INVALID": 0.5}, {RETRIEVE: 0, THINK: 0, "ANSWER": 1, "INVALID": 0}]),
    ([[THINK]], [{RETRIEVE: 0, THINK: 1}]), ([], []),
])
def test_the_shares_of_a_round_name_every_action_and_add_up(actions, shares) -> None:
    assert action_shares(action_counts(actions)) == [
        {"round": i, **entry, "count": sum(len(row) >= i for row in actions)} for i, entry in enumerate(shares, 1)]


def test_passages_that_truncation_left_out_are_counted_once_and_warned_of() -> None:
    record = trajectory({}, [passage(0), passage(1), passage(2)])
    record.calls = [Call("generator", Completion("a", "eos", 9, 9, 1, dropped=dropped)) for dropped in (("p0",), ("p0", "p1"), ())]
    whole = prediction_row(trajectory({}, [passage(0)]), "first-line")
    cut, unfit = prediction_row(record, "first-line"), prediction_row(replace(trajectory({}), dropped=("p4",)), "first-line")
    assert [row["dropped_passages"] for row in (whole, cut, unfit)] == [0, 2, 1]
    assert summarize([whole], {})["warnings"] == []
    assert summarize([whole, cut, unfit], {}, measured=False)["warnings"][0].startswith("2 of 3 questions had prompts longer than the context")


def test_rows_are_counted_by_what_ended_them_and_failures_apart() -> None:
    asked = prediction_row(replace(trajectory({}), finish_reason="max_turns"), "first-line")
    empty = prediction_row(replace(trajectory({}, answer=" "), finish_reason="max_turns"), "first-line")
    summary = summarize([prediction_row(trajectory({}), "first-line"), asked, empty], {})
    assert summary["finish_reasons"] == {"eos": 1, "max_turns": 2} and summary["failures"] == {"max_turns": 1}
