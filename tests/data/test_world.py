"""The demo world is what its script writes, and its questions are fair: checked on the files, not on the script's word."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from evoctx_torch.data.world import make
from evoctx_torch.data.world.facts import make_world
from evoctx_torch.data.world.telling import bare

WORLD = Path(make.__file__).parent
FILES = ("corpus.jsonl", "queries.jsonl")


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def names(text: str, name: str) -> bool:
    text, name = text.casefold(), name.casefold()
    return name in text and re.search(rf"\b{re.escape(name)}\b", text) is not None


@pytest.fixture(scope="module")
def corpus() -> dict[str, dict]:
    return {row["id"]: row for row in lines(WORLD / "corpus.jsonl")}


@pytest.fixture(scope="module")
def queries() -> list[dict]:
    return lines(WORLD / "queries.jsonl")


def test_the_script_writes_the_committed_bytes(tmp_path: Path) -> None:
    # a process of its own, so that an order that hangs on the hash seed would show
    subprocess.run([sys.executable, "-m", "evoctx_torch.data.world.make", "--out", str(tmp_path)], check=True, cwd=WORLD.parents[2],
                   capture_output=True)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (WORLD / name).read_bytes(), f"{name}: run python -m evoctx_torch.data.world.make"


def test_another_seed_makes_another_world(corpus: dict[str, dict], queries: list[dict]) -> None:
    other_corpus, other_queries = make.make(make.SEED + 1)
    assert len(other_queries) == len(queries)
    assert len(other_corpus) >= 300
    same = {row["contents"] for row in other_corpus} & {row["contents"] for row in corpus.values()}
    assert len(same) < 0.1 * len(corpus)


def test_passages(corpus: dict[str, dict]) -> None:
    rows = lines(WORLD / "corpus.jsonl")
    assert 320 <= len(rows) <= 400
    assert len(corpus) == len(rows)
    assert len({row["contents"] for row in rows}) == len(rows)
    titles = defaultdict(set)
    for row in rows:
        title, text = row["contents"].split("\n")
        assert title == row["title"]
        assert 25 <= len(text.split()) <= 60, row
        assert not re.search(r"[\[\]{}|]", text), f"an unfilled template: {text}"
        assert names(text, title.removeprefix("The ")), "a passage must stand alone"
        titles[title.casefold()].add(row["doc_id"])
    assert all(len(documents) == 1 for documents in titles.values()), "two things share a title"
    per_document = Counter(row["doc_id"] for row in rows)
    assert set(per_document.values()) == {1, 2}


def test_counts_and_splits(queries: list[dict]) -> None:
    assert len(queries) == 180
    assert len({row["id"] for row in queries}) == len({row["question"].casefold() for row in queries}) == 180
    assert Counter((row["metadata"]["hops"], row["metadata"]["split"]) for row in queries) == {
        (hops, split): count for hops in (1, 2, 3) for split, count in (("train", 40), ("held-out", 20))}
    assert [row["metadata"]["hops"] for row in queries[:16]] == [1, 2, 3] * 5 + [1]
    assert Counter(row["metadata"]["split"] for row in queries[:16]) == {"train": 12, "held-out": 4}
    comparisons = [row for row in queries if row["metadata"]["type"] == "comparison"]
    assert {row["metadata"]["split"] for row in comparisons} == {"train", "held-out"}
    verdicts = Counter(row["golden_answers"][0] for row in comparisons if row["golden_answers"][0] in ("yes", "no"))
    assert verdicts["yes"] == verdicts["no"] == 3


def test_supports_hold_the_chain_and_the_answer_comes_last(corpus: dict[str, dict], queries: list[dict]) -> None:
    for row in queries:
        meta = row["metadata"]
        supports = [corpus[identity] for identity in meta["supporting_passage_ids"]]
        assert len(supports) == meta["hops"] == len({support["doc_id"] for support in supports})
        if meta["type"] == "comparison":
            assert all(names(row["question"], support["title"].removeprefix("The ")) for support in supports), row
            continue
        met = [meta["start"], *meta["bridge_entities"], row["golden_answers"][0]]
        assert len(met) == meta["hops"] + 1
        assert names(row["question"], meta["start"])
        assert not any(names(row["question"], name) for name in met[1:]), f"gives a bridge or the answer away: {row}"
        for subject, value, support in zip(met[:-1], met[1:], supports, strict=True):
            holding = {identity for identity, passage in corpus.items() if names(passage["contents"], subject) and names(passage["contents"], value)}
            assert holding == {support["id"]}, f"evidence of {subject} / {value} must stand in one passage only"
        assert not any(names(support["contents"], answer) for support in supports[:-1] for answer in row["golden_answers"]), row


def test_no_answer_names_two_things(corpus: dict[str, dict], queries: list[dict]) -> None:
    titles = {row["title"] for row in corpus.values()}
    for row in queries:
        canonical, *aliases = row["golden_answers"]
        for alias in aliases:  # a surname or "River X": means nothing else in this world
            assert {title for title in titles if names(title, alias.removeprefix("River "))} == {canonical}, row


def test_each_question_has_one_answer_among_the_facts(queries: list[dict]) -> None:
    world = make_world(random.Random(make.SEED))
    known = {bare(name): name for name in world.kinds}
    assert len(known) == len(world.kinds), "two things share a name"
    for row in queries:
        if row["metadata"]["type"] != "comparison":
            met = world.follow(known[row["metadata"]["start"]], tuple(row["metadata"]["relations"]))
            assert [bare(name) for name in met] == [*row["metadata"]["bridge_entities"], row["golden_answers"][0]]
    both_ways = [(relation, {subject, value}) for (subject, relation), value in world.facts.items() if relation in ("spouse", "correspondent")]
    for relation in ("spouse", "correspondent"):  # hold both ways: nobody may have two
        people = Counter(person for its, pair in both_ways if its == relation for person in pair)
        assert set(people.values()) == {1}


def test_comparisons_are_right(corpus: dict[str, dict], queries: list[dict]) -> None:
    world = make_world(random.Random(make.SEED))
    known = {bare(name): name for name in world.kinds}
    for row in (row for row in queries if row["metadata"]["type"] == "comparison"):
        [relation] = row["metadata"]["relations"]
        subjects = [known[name] for name in known if names(row["question"], name) and (known[name], relation) in world.facts]
        a, b = subjects
        values = {name: world.facts[name, relation] for name in (a, b)}
        if row["golden_answers"][0] in ("yes", "no"):
            assert (values[a] == values[b]) == (row["golden_answers"][0] == "yes")
        else:
            wants_larger = any(word in row["question"] for word in ("taller", "more recent", "younger"))
            best = (max if wants_larger else min)(values, key=lambda name: int(values[name]))
            assert bare(best) == row["golden_answers"][0]
            assert len(set(values.values())) == 2


def test_chronology() -> None:
    world = make_world(random.Random(make.SEED))
    for (subject, relation), value in world.facts.items():
        if relation in ("teacher", "founder", "author", "composer", "painter", "designer", "landlord", "maker", "leader"):
            assert 14 <= world.year(subject) - world.year(value) <= 65, (subject, relation, value)
        if relation == "school":
            assert world.year(value) <= world.year(subject) + 14
        if relation == "died":
            assert int(value) - world.year(subject) >= 66


def test_loads_like_any_data_set(corpus: dict[str, dict], queries: list[dict]) -> None:
    from evoctx_torch.data.corpus import load_corpus
    from evoctx_torch.data.questions import load_questions

    assert [question.id for question in load_questions(WORLD / "queries.jsonl")] == [row["id"] for row in queries]
    assert [passage.id for passage in load_corpus(WORLD / "corpus.jsonl")] == list(corpus)


def test_the_readme_counts_what_is_there(corpus: dict[str, dict]) -> None:
    words = [len(row["contents"].split("\n")[1].split()) for row in corpus.values()]
    sizes = Counter(row["doc_id"] for row in corpus.values())
    told = (f"{len(corpus)} passages of {min(words)} to {max(words)} words ({sum(words) / len(words):.0f} on average) in {len(sizes)} documents; "
            f"{sum(size == 2 for size in sizes.values())} documents")
    assert told in (WORLD / "README.md").read_text(encoding="utf-8")
