"""Answer metrics against the official programs' values, and the laws they obey."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.metrics.answers import ANSWER_METRICS, answer_scores, score_answers
from evoctx_torch.metrics.normalize import normalize, normalize_triviaqa

# Words, articles, punctuation and signs on which the programs differ, besides any text at all.
TEXTS = st.one_of(
    st.text(max_size=30),
    st.lists(st.sampled_from(["the", "A", "an", "yes", "no", "noanswer", "York", "New", "U.S.", "’", "_", "-", "", "Ünï"]), max_size=5).map(" ".join),
)
GOLDS = st.lists(TEXTS, min_size=1, max_size=4)


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[dict]:
    return [json.loads(line) for line in (shared / "oracles" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("ours", "theirs"), [
    ("em", "flashrag_em"), ("f1", "flashrag_f1"), ("acc", "flashrag_acc"), ("em", "searchr1_em"), ("acc", "searchr1_subem"),
    ("em", "twowiki_v11_em"), ("f1", "twowiki_v11_f1"), ("triviaqa_em", "triviaqa_em"), ("triviaqa_f1", "triviaqa_f1"),
    ("musique_em", "musique_em"), ("musique_f1", "musique_f1"),
])
def test_every_row_equals_the_official_program(rows: list[dict], ours: str, theirs: str) -> None:
    assert len(rows) == 505
    wrong = [(r["id"], s, r[theirs]) for r in rows if (s := score_answers(r["prediction"], r["golds"])[ours]) != r[theirs]]
    assert not wrong


@pytest.mark.parametrize("program", ["hotpot", "twowiki_v10"])
def test_first_gold_programs_equal_one_gold(rows: list[dict], program: str) -> None:
    for row in rows:
        official = [row[f"{program}_{name}"] for name in ("em", "f1", "prec", "recall")]
        assert list(answer_scores(row["prediction"], row["golds"][0])) == official, row["id"]


@pytest.mark.parametrize("program", ["flashrag", "twowiki_v11"])
def test_precision_and_recall_are_each_the_best_over_golds(rows: list[dict], program: str) -> None:
    for row in rows:
        scores = [answer_scores(row["prediction"], gold) for gold in row["golds"]]
        assert max(s.precision for s in scores) == row[f"{program}_prec"], row["id"]
        assert max(s.recall for s in scores) == row[f"{program}_recall"], row["id"]


def test_torchmetrics_squad_is_musique_in_float32(rows: list[dict]) -> None:
    for row in rows:
        scores = score_answers(row["prediction"], row["golds"])
        assert math.isclose(scores["musique_f1"], row["torchmetrics_f1"], abs_tol=1e-6), row["id"]
        assert scores["musique_em"] == row["torchmetrics_em"], row["id"]


def test_aggregates_equal_the_programs_own(rows: list[dict], shared: Path) -> None:
    official = json.loads((shared / "oracles" / "metrics_aggregate.json").read_text())
    scored = [score_answers(r["prediction"], r["golds"]) for r in rows]

    def mean(name: str) -> float:
        return sum(s[name] for s in scored) / len(scored)

    for name in ("em", "f1", "acc"):
        assert math.isclose(mean(name), official["flashrag"][name])
    assert math.isclose(100 * mean("triviaqa_em"), official["triviaqa_evaluate_percent"]["exact_match"])
    assert math.isclose(100 * mean("triviaqa_f1"), official["triviaqa_evaluate_percent"]["f1"])
    assert round(mean("musique_em"), 3) == official["musique_evaluate_rounded3"]["answer_em"]
    assert round(mean("musique_f1"), 3) == official["musique_evaluate_rounded3"]["answer_f1"]


def test_no_column_of_the_reference_values_is_left_uncompared(rows: list[dict]) -> None:
    whole = {f"{program}_{name}" for program in ("hotpot", "twowiki_v10", "twowiki_v11", "flashrag") for name in ("em", "f1", "prec", "recall")}
    others = {"flashrag_acc", "searchr1_em", "searchr1_subem", *(f"{p}_{m}" for p in ("triviaqa", "musique", "torchmetrics") for m in ("em", "f1"))}
    assert set().union(*rows) - {"id", "class", "source", "prediction", "golds"} == whole | others


@given(TEXTS)
def test_normalizing_twice_changes_nothing(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)
    assert normalize_triviaqa(normalize_triviaqa(text)) == normalize_triviaqa(text)


@given(TEXTS, GOLDS)
def test_scores_are_floats_between_0_and_1_in_the_documented_order(prediction: str, golds: list[str]) -> None:
    scores = score_answers(prediction, golds)
    assert tuple(scores) == ANSWER_METRICS
    assert all(type(score) is float and 0 <= score <= 1 for score in scores.values())


@given(TEXTS, TEXTS)
def test_em_and_f1_do_not_care_which_side_is_which(a: str, b: str) -> None:
    there, back = score_answers(a, [b]), score_answers(b, [a])
    for name in ANSWER_METRICS:
        if name not in ("acc", "multihoprag_hit"):  # containment has a direction; MultiHop-RAG cleans the prediction only
            assert there[name] == back[name], name


@given(TEXTS, GOLDS)
def test_exact_match_implies_containment_and_full_overlap(prediction: str, golds: list[str]) -> None:
    scores = score_answers(prediction, golds)
    if scores["em"]:
        assert scores["acc"] == 1
        assert scores["musique_f1"] == 1
        assert scores["f1"] == 1 or not normalize(prediction)


@given(TEXTS, GOLDS, TEXTS)
def test_one_more_gold_never_lowers_a_score(prediction: str, golds: list[str], gold: str) -> None:
    before, after = score_answers(prediction, golds), score_answers(prediction, [*golds, gold])
    assert all(after[name] >= before[name] for name in ANSWER_METRICS)


@given(TEXTS, GOLDS)
def test_scores_depend_on_normalized_text_only(prediction: str, golds: list[str]) -> None:
    plain, normalized = score_answers(prediction, golds), score_answers(normalize(prediction), list(map(normalize, golds)))
    assert all(plain[name] == normalized[name] for name in ("em", "f1", "acc", "musique_em", "musique_f1"))


def test_trap_12_normalizing_removes_the_vote_a() -> None:
    """"A", "A", "A", "B" became a majority for B: the normalizer maps a vote to nothing, so it is for scoring only."""
    assert [normalize(vote) for vote in ("A", "A", "A", "B")] == ["", "", "", "b"]


def test_trap_gold_that_normalizes_to_nothing_is_not_won_by_a_failed_row() -> None:
    assert score_answers("", ["A"])["em"] == 1  # as the official programs
    assert set(score_answers("", ["A"], failed=True).values()) == {0.0}


@pytest.mark.parametrize("word", ["yes", "no", "noanswer"])
def test_yes_no_and_noanswer_have_no_partial_overlap_but_in_musique_and_triviaqa(word: str) -> None:
    for prediction, gold in ((f"{word} indeed", word), (word, f"{word} indeed")):
        scores = score_answers(prediction, [gold])
        assert scores["f1"] == 0
        assert scores["musique_f1"] == scores["triviaqa_f1"] == pytest.approx(2 / 3)
    assert score_answers(f"The {word}.", [word])["f1"] == 1


def test_no_gold_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one golden answer"):
        score_answers("x", [])
