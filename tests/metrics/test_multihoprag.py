"""MultiHop-RAG's own scoring of answers and rankings against its official programs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.metrics.multihoprag import acc_from_share, clean, hit, multihoprag_acc, multihoprag_ranking


@pytest.fixture(scope="module")
def sets(shared: Path) -> list[dict]:
    return json.loads((shared / "oracles" / "multihoprag_qa.json").read_text())["sets"]


def scored(items: list[dict]) -> list[dict]:
    """The program's choice of items: an empty gold is skipped, a repeated query has the first gold."""
    first = {}
    for item in items:
        first.setdefault(item["query"], item["gold"])
    return [{**item, "gold": first[item["query"]]} for item in items if item["gold"]]


def test_every_item_equals_the_official_program(sets: list[dict]) -> None:
    assert (len(sets), sum(len(s["items"]) for s in sets)) == (17, 471)
    for s in sets:
        items = scored(s["items"])
        assert [clean(i["model_answer"]) for i in items] == s["official"]["extracted_answers"], s["name"]
        assert [hit(i["model_answer"], i["gold"]) for i in items] == s["official"]["per_item_intersection"], s["name"]


def test_every_set_and_question_type_has_the_official_accuracy(sets: list[dict]) -> None:
    for s in sets:
        items = scored(s["items"])
        groups = {"overall": items} | {kind: [i for i in items if i["question_type"] == kind] for kind in s["official"]["by_type"]}
        for kind, group in groups.items():
            official = s["official"]["overall"] if kind == "overall" else s["official"]["by_type"][kind]
            hits = [float(hit(i["model_answer"], i["gold"])) for i in group]
            assert math.isclose(multihoprag_acc(hits), official["accuracy"]), (s["name"], kind)
            assert math.isclose(sum(hits) / len(hits) if hits else 0, official["f1"]), (s["name"], kind)


def test_the_papers_accuracy_is_this_formula() -> None:
    """EvoCtx on MultiHop-RAG: EM 74.6, Acc 66.3, impossible if Acc were containment."""
    assert round(acc_from_share(0.746), 3) == 0.663


def test_every_ranking_equals_the_official_program(shared: Path) -> None:
    oracle = json.loads((shared / "oracles" / "retrieval.json").read_text())
    assert len(oracle["cases"]) == 49
    values = []
    for case in oracle["cases"]:
        ours, official = multihoprag_ranking(case["retrieved"], case["gold"]), case["official"]
        if "error" in official:
            assert ours is None, case["name"]
            continue
        values.append(ours)
        for name, value in official.items():
            assert math.isclose(ours[f"multihoprag_{name.lower()}"], value), (case["name"], name)
    total = oracle["aggregate_over_cases_without_error"]["official"]
    for name, value in total.items():
        assert math.isclose(sum(v[f"multihoprag_{name.lower()}"] for v in values) / len(values), value), name


@given(st.text(), st.text())
def test_a_hit_is_a_shared_word_and_has_no_direction_without_the_template(a: str, b: str) -> None:
    if clean(a) == a and clean(b) == b:
        assert hit(a, b) == hit(b, a) == any(word in b.lower().split() for word in a.lower().split())


@given(st.lists(st.booleans(), min_size=1))
def test_accuracy_is_between_a_third_and_one_and_grows_with_hits(hits: list[bool]) -> None:
    acc = multihoprag_acc(list(map(float, hits)))
    assert 1 / 3 <= acc <= 1
    assert multihoprag_acc([*map(float, hits), 1.0]) >= acc
