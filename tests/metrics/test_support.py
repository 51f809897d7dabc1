"""Supporting facts and joint scores against the official programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.metrics.answers import answer_scores
from evoctx_torch.metrics.overlap import Scores
from evoctx_torch.metrics.support import joint, support_2wiki, support_hotpot, support_musique

FACTS = st.lists(st.tuples(st.sampled_from(["T", "t", "U", ""]), st.integers(0, 2)), max_size=6)
NAMES = ("em", "f1", "prec", "recall")


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[dict]:
    return [json.loads(line) for line in (shared / "oracles" / "support_joint.jsonl").read_text(encoding="utf-8").splitlines()]


def facts(pairs: list[list]) -> list[tuple[str, int]]:
    return [(title, number) for title, number in pairs]


def hotpot(row: dict) -> tuple[Scores, Scores, Scores]:
    answer = answer_scores(row["pred_answer"], row["gold_answer"])
    support = support_hotpot(facts(row["pred_sp"]), facts(row["gold_sp"]))
    return answer, support, joint(answer, support)


def test_hotpot_every_row(rows: list[dict]) -> None:
    assert len(rows) == 50
    for row in rows:
        for prefix, scores in zip(("hotpot_", "hotpot_sp_", "hotpot_joint_"), hotpot(row), strict=True):
            assert list(scores) == pytest.approx([row[prefix + name] for name in NAMES], abs=1e-15), (row["id"], prefix)


def test_2wiki_every_row(rows: list[dict]) -> None:
    for row in rows:
        scores = support_2wiki(facts(row["pred_sp"]), facts(row["gold_sp"]))
        assert list(scores) == [row["twowiki_v10_sp_" + name] for name in NAMES], row["id"]


def test_musique_every_row(rows: list[dict]) -> None:
    for row in rows:
        scores = support_musique(row["pred_idx"], row["gold_idx"])
        assert (scores.em, scores.f1) == (row["musique_support_em"], row["musique_support_f1"]), row["id"]


@pytest.mark.parametrize(("aggregate", "no_answer", "no_support"), [
    ("all", set(), set()),
    ("missing: answers s00,s01 and sp s01,s02 absent", {"s00", "s01"}, {"s01", "s02"}),
])
def test_a_missing_row_scores_0_and_stays_in_the_denominator(
    rows: list[dict], shared: Path, aggregate: str, no_answer: set[str], no_support: set[str]
) -> None:
    official = json.loads((shared / "oracles" / "support_joint_aggregate.json").read_text())[aggregate]
    absent = {"": no_answer, "sp_": no_support, "joint_": no_answer | no_support}
    for (prefix, missing), part in zip(absent.items(), range(3), strict=True):
        kept = [hotpot(row)[part] for row in rows if row["id"] not in missing]
        means = [sum(column) / len(rows) for column in zip(*kept, strict=True)]
        assert means == pytest.approx([official[prefix + name] for name in NAMES], abs=1e-12)


@given(FACTS, FACTS)
def test_laws_of_support(predicted: list, gold: list) -> None:
    for score in (support_hotpot, support_2wiki, support_musique):
        scores, back = score(predicted, gold), score(gold, predicted)
        assert all(0 <= value <= 1 for value in scores)
        assert scores.em == back.em
        assert scores == score(predicted * 2, gold[::-1] * 2)
        if score is not support_2wiki:  # case variants make 2Wiki's counts lopsided
            assert (scores.precision, scores.recall) == (back.recall, back.precision)
            assert scores.em == (set(predicted) == set(gold))


@given(FACTS, FACTS)
def test_joint_is_never_above_its_parts(predicted: list, gold: list) -> None:
    support, answer = support_hotpot(predicted, gold), Scores(1.0, 0.5, 0.4, 2 / 3)
    both = joint(answer, support)
    for value, a, b in zip(both, answer, support, strict=True):
        assert value <= min(a, b) + 1e-12
