"""An evaluation over an index of chunks: it finds chunks, counts them for the passage they were cut from, and needs no corpus besides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoctx_torch.data.chunks import chunk
from evoctx_torch.data.corpus import Corpus, load_corpus
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.inputs import check_inputs
from evoctx_torch.evaluation.run import evaluate
from evoctx_torch.retrieval.build import build_index
from evoctx_torch.retrieval.hashing import HashEncoder


@pytest.fixture
def index(data: Path, tmp_path: Path) -> Path:
    build_index(load_corpus(data / "corpus.jsonl"), "flat", HashEncoder(64), tmp_path / "i", chunk_words=5, chunk_overlap=2)
    return tmp_path / "i"


def test_the_run_reads_chunks_and_finds_its_evidence_in_them(tmp_path: Path, configure, scripted, data: Path, index: Path) -> None:
    scripted()
    evaluate(configure(index=str(index), top_k=3), tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()]
    found = [row["evidence_recall"] for row in rows]
    trajectories = [json.loads(line) for line in (tmp_path / "run" / "trajectories.jsonl").read_text().splitlines()]
    ids = [[passage["id"] for passage in t["bootstrap"]["passages"]] for t in trajectories]
    assert all(len(row) == 3 and all("#" in id for id in row) for row in ids)
    # Gold passages are named as in the corpus that was cut.
    assert found == [float(any(id.startswith(f"p{i}#") for id in row)) for i, row in enumerate(ids)]
    assert 0 < sum(found) < 8
    digests = json.loads((tmp_path / "run" / "config.json").read_text())["digests"]
    assert digests["corpus"] == Corpus(chunk(load_corpus(data / "corpus.jsonl"), 5, 2)).digest


def test_without_a_corpus_of_its_own_the_data_set_takes_the_index_s(configure, scripted, data: Path, index: Path) -> None:
    scripted()
    with_corpus = check_inputs(configure(index=str(index)))
    (data / "corpus.jsonl").unlink()
    assert list(check_inputs(configure(index=str(index))).corpus) == list(with_corpus.corpus)


def test_the_index_of_another_corpus_is_refused(configure, scripted, data: Path, index: Path) -> None:
    scripted()
    lines = (data / "corpus.jsonl").read_text().splitlines(keepends=True)
    (data / "corpus.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(UsageError, match="built from another corpus"):
        check_inputs(configure(index=str(index)))
