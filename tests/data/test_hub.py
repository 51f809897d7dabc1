"""Sets by name, from a local folder in the place of the hub: the library, the layouts and our reading are the real ones."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest

from evoctx_torch.data import hub
from evoctx_torch.data.corpus import load_corpus
from evoctx_torch.data.datasets import resolve, resolve_corpus
from evoctx_torch.data.questions import load_questions
from evoctx_torch.errors import MissingExtra, UsageError

datasets = pytest.importorskip("datasets", reason="extra `data`")
ROWS = [
    {"id": "test_0", "question": "Who?", "golden_answers": ["X", "Y"], "metadata": {"type": "bridge", "supporting_facts": {"title": ["T"], "sent_id": [0]}}},
    {"id": "test_1", "question": "What?", "golden_answers": ["Z"], "metadata": {"type": "comparison", "level": "hard"}},
]


@pytest.fixture(autouse=True)
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder laid out as the hub's repositories are."""
    monkeypatch.setenv("EVOCTX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "hf"))
    remote = tmp_path / "remote"
    for name, split in (("hotpotqa", "dev"), ("hotpotqa", "train"), ("nq", "test"), ("nq", "dev")):
        (remote / name).mkdir(parents=True, exist_ok=True)
        rows = [row | {"id": f"{split}_{i}"} for i, row in enumerate(ROWS)]
        (remote / name / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(hub, "FLASHRAG", str(remote))
    return remote


@pytest.mark.parametrize(("data", "name", "first"), [
    ("flashrag:hotpotqa", "hotpotqa", "dev_0"), ("flashrag:nq", "nq", "test_0"), ("flashrag:nq@dev", "nq", "dev_0"), ("flashrag:hotpotqa@train", "hotpotqa", "train_0"),
])
def test_a_flashrag_set_has_the_questions_of_its_split(data: str, name: str, first: str) -> None:
    found = resolve(data, retrieves=False)
    questions = load_questions(found.queries)
    assert (found.name, questions[0].id, questions[0].golden_answers) == (name, first, ("X", "Y"))
    assert [q.metadata for q in questions] == [row["metadata"] for row in ROWS]  # no nulls where a row had no key


def test_its_corpus_is_given_or_that_of_the_index(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="questions only: give the corpus with --corpus FILE, or an index with --index DIR"):
        resolve("flashrag:nq")
    with pytest.raises(UsageError, match="flashrag:nq has questions only"):
        resolve_corpus("flashrag:nq")
    corpus = tmp_path / "i" / "corpus.jsonl"
    corpus.parent.mkdir()
    corpus.write_text('{"id": "p", "contents": "t"}\n')
    assert resolve("flashrag:nq", corpus=corpus).corpus == corpus
    assert resolve("flashrag:nq", index=corpus.parent).corpus == corpus
    own = tmp_path / "nq"
    own.mkdir()
    (own / "queries.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    assert resolve(own, index=corpus.parent).corpus == resolve(queries=own / "queries.jsonl", index=corpus.parent).corpus == corpus
    (own / "corpus.jsonl").write_text('{"id": "p", "contents": "t"}\n')
    assert resolve(own, index=corpus.parent).corpus == own / "corpus.jsonl"  # the index is then checked against it


def test_a_second_use_needs_neither_library_nor_source(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = resolve("flashrag:nq", retrieves=False)
    (local / "nq" / "test.jsonl").unlink()
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert resolve("flashrag:nq", retrieves=False) == first
    with pytest.raises(MissingExtra, match=r"evoctx-torch\[data\]"):
        resolve("flashrag:hotpotqa", retrieves=False)


@pytest.mark.parametrize(("data", "said"), [
    ("flashrag:no-such", "no set of that name with a split test or dev or train"), ("flashrag:nq@train", "with a split train"),
    ("flashrag:../nq", "expected NAME or NAME@SPLIT"), ("flashrag:", "no set"),
])
def test_what_is_not_there_is_said(data: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        resolve(data, retrieves=False)
    assert "\n" not in str(caught.value)


def test_without_a_network_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "FLASHRAG", "hf://datasets/RUC-NLPIR/FlashRAG_datasets")
    with pytest.raises(UsageError, match=r"could not be loaded .*--queries FILE --corpus FILE") as caught:
        resolve("flashrag:nq", retrieves=False)
    assert "\n" not in str(caught.value)


def test_reports_and_events_become_questions_over_their_own_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [{"report": "Bridges age.\n\nMoney is short.", "summary": "Bridges need money."}, {"report": "Ports grow.", "summary": "Ports."}]
    folder = tmp_path / "document"
    folder.mkdir()
    datasets.Dataset.from_list(reports).to_parquet(folder / "test-00000-of-00001.parquet")
    events = [{"document": ["A storm came. ", "The storm left.", " "], "summary": "A storm passed."}, {"document": ["Vote."], "summary": "A vote."}]
    with zipfile.ZipFile(tmp_path / "validation.zip", "w") as archive:
        archive.writestr("val.txt", "".join(json.dumps(row) + "\n" for row in events))
    for name, files in (("govreport", str(folder / "{split}-*.parquet")), ("wcep", str(tmp_path / "{split}.zip"))):
        old = hub.SUMMARIES[name]
        monkeypatch.setitem(hub.SUMMARIES, name, hub.Summaries(files, old.format, old.column, old.question))
    found = resolve("govreport")
    questions, corpus = load_questions(found.queries), load_corpus(found.corpus)
    assert (found.name, [q.golden_answers for q in questions]) == ("govreport", [("Bridges need money.",), ("Ports.",)])
    assert corpus.contents[0] == "govreport 0.0\nBridges age.\n\nMoney is short."
    assert [q.metadata["doc_ids"] for q in questions] == [[doc] for doc in corpus.doc_ids]
    assert resolve_corpus("govreport") == resolve_corpus(found.corpus) == resolve_corpus(found.corpus.parent) == found.corpus
    with pytest.raises(UsageError, match="nowhere: no such folder or name"):
        resolve_corpus("nowhere")
    with pytest.raises(UsageError, match=r"has no corpus\.jsonl"):
        resolve_corpus(tmp_path / "document")
    found = resolve("wcep@validation")
    questions, corpus = load_questions(found.queries), load_corpus(found.corpus)
    assert (found.name, corpus.contents) == ("wcep", ("wcep 0.0\nA storm came.", "wcep 0.1\nThe storm left.", "wcep 1.0\nVote."))
    assert [q.metadata["doc_ids"] for q in questions] == [["0", "1"], ["2"]]
    assert questions[0].metadata["supporting_passage_ids"] == ["0", "1"]
