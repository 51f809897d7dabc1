"""Real questions, put back into the form in which they were published, come out as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evoctx_torch.data.convert import convert
from evoctx_torch.data.corpus import Corpus, load_corpus
from evoctx_torch.data.datasets import resolve
from evoctx_torch.data.questions import load_questions
from evoctx_torch.operations import Question


def load(folder: Path) -> tuple[list[Question], Corpus]:
    files = resolve(folder)
    return load_questions(files.queries), load_corpus(files.corpus)


def contents(corpus: Corpus, ids: list[str]) -> list[str]:
    return [corpus.contents[corpus.position(id)] for id in ids]


@pytest.mark.parametrize("name", ["hotpotqa", "2wikimultihopqa"])
def test_facts_and_paragraphs(shared: Path, tmp_path: Path, name: str) -> None:
    before, corpus = load(shared / "data" / name)
    spans = {row["id"]: row["spans"] for row in map(json.loads, (shared / "data" / name / "sentence_spans.jsonl").read_text().splitlines())}

    def published(question: Question) -> dict[str, Any]:
        context = []
        for id in question.metadata["context_passage_ids"]:
            passage = corpus[corpus.position(id)]
            cut = spans[id]
            # HotpotQA's sentences begin with the blank before them, if there is one.
            starts = [cut[i - 1][1] if i and name == "hotpotqa" else start for i, (start, _) in enumerate(cut)]
            context.append([passage.title, [passage.contents[start:end] for start, (_, end) in zip(starts, cut, strict=True)]])
        return {"_id": question.id, "question": question.text, "answer": question.golden_answers[0], "context": context, "type": question.metadata["type"],
                "supporting_facts": [[fact["title"], fact["sent_id"]] for fact in question.metadata["supporting_facts"]]}

    (tmp_path / "dev.json").write_text(json.dumps([published(question) for question in before]))
    done = convert(name, [tmp_path / "dev.json"], tmp_path / "out")
    after, made = load(tmp_path / "out")
    made_spans = {row["id"]: row["spans"] for row in map(json.loads, (tmp_path / "out" / "sentence_spans.jsonl").read_text().splitlines())}
    assert (done.questions, done.incomplete) == (len(before), 0)
    for old, new in zip(before, after, strict=True):
        assert (new.id, new.text, new.golden_answers, new.metadata["type"]) == (old.id, old.text, old.golden_answers, old.metadata["type"])
        for key in ("supporting_passage_ids", "context_passage_ids"):
            assert contents(made, new.metadata[key]) == contents(corpus, old.metadata[key])
        for id, same in zip(new.metadata["context_passage_ids"], old.metadata["context_passage_ids"], strict=True):
            assert made_spans[id] == spans[same]
        old_facts, new_facts = ([(f["title"], f["sent_id"], f["sentence"]) for f in q.metadata["supporting_facts"]] for q in (old, new))
        assert new_facts == old_facts


def test_musique(shared: Path, tmp_path: Path) -> None:
    before, corpus = load(shared / "data" / "musique")

    def published(question: Question) -> dict[str, Any]:
        of, support = question.metadata, set(question.metadata["support_idxs"])
        passages = [corpus[corpus.position(id)] for id in of["context_passage_ids"]]
        paragraphs = [{"idx": i, "title": p.title, "paragraph_text": p.contents.removeprefix(p.title + "\n"), "is_supporting": i in support}
                      for i, p in enumerate(passages)]
        steps = [step | {"paragraph_support_idx": of["context_passage_ids"].index(step["passage_id"])} for step in of["decomposition"]]
        return {"id": question.id, "question": question.text, "answer": question.golden_answers[0], "answer_aliases": list(question.golden_answers[1:]),
                "answerable": True, "paragraphs": paragraphs, "question_decomposition": steps}

    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(published(question)) + "\n" for question in before))
    convert("musique", [tmp_path / "dev.jsonl"], tmp_path / "out")
    after, made = load(tmp_path / "out")
    for old, new in zip(before, after, strict=True):
        assert (new.id, new.text, new.golden_answers) == (old.id, old.text, old.golden_answers)
        assert [new.metadata[key] for key in ("type", "answerable", "support_idxs")] == [old.metadata[key] for key in ("type", "answerable", "support_idxs")]
        for key in ("supporting_passage_ids", "context_passage_ids"):
            assert contents(made, new.metadata[key]) == contents(corpus, old.metadata[key])
        old_steps, new_steps = ([(s["question"], s["answer"], contents(c, [s["passage_id"]])) for s in q.metadata["decomposition"]]
                                for q, c in ((old, corpus), (new, made)))
        assert new_steps == old_steps


def test_multihoprag(shared: Path, tmp_path: Path) -> None:
    before, _ = load(shared / "data" / "multihoprag")
    names = ("fact", "title", "source", "author", "category", "published_at", "url")
    evidence = [item for question in before for item in question.metadata["evidence"]]
    articles = {item["url"]: {name: item.get(name, "") for name in names[1:]} | {"body": ""} for item in evidence}
    for item in evidence:
        articles[item["url"]]["body"] += f" {item['fact']}"
    queries = [{"query": q.text, "answer": q.golden_answers[0], "question_type": q.metadata["type"],
                "evidence_list": [{name: item[name] for name in names if name in item} for item in q.metadata["evidence"]]} for q in before]
    files = [tmp_path / "MultiHopRAG.json", tmp_path / "corpus.json"]
    for path, rows in zip(files, (queries, list(articles.values())), strict=True):
        path.write_text(json.dumps(rows))
    convert("multihoprag", files, tmp_path / "out")
    after, made = load(tmp_path / "out")
    for old, new in zip(before, after, strict=True):
        assert (new.id, new.text, new.golden_answers, new.metadata["type"]) == (old.id, old.text, old.golden_answers, old.metadata["type"])
        for was, item in zip(old.metadata["evidence"], new.metadata["evidence"], strict=True):
            assert [item.get(name) for name in names] == [was.get(name) for name in names]
            assert item["fact"] in made.contents[made.position(item["passage_id"])]
        assert set(new.metadata["supporting_passage_ids"]) == {item["passage_id"] for item in new.metadata["evidence"]}
