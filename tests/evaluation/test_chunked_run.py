"""An evaluation over an index of chunks: it finds chunks, counts them for the passage they were cut from, and needs no corpus besides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoctx_torch.data.chunks import chunk
from evoctx_torch.data.corpus import Corpus, load_corpus
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation import assemble
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


def test_a_run_asks_with_the_prompts_of_its_index_and_keeps_them_out_of_the_boundary(tmp_path: Path, configure, scripted, data: Path, monkeypatch) -> None:
    scripted(lambda p: f"trace of {p.question_id}")
    encoded: list[tuple[str, str]] = []

    class Prompted(HashEncoder):
        """Writes down on which side a text was encoded; a prompt makes other vectors."""

        def __init__(self, query_prompt: str | None = None, passage_prompt: str | None = None) -> None:
            super().__init__(64)
            self.query_prompt, self.passage_prompt = query_prompt or "", passage_prompt or ""

        def encode(self, texts, window="head"):
            encoded.extend(("plain", text) for text in texts)
            return super().encode(texts, window)

        def encode_queries(self, texts):
            encoded.extend(("query", text) for text in texts)
            return HashEncoder.encode(self, [self.query_prompt + text for text in texts])

        def encode_passages(self, texts, window="head"):
            encoded.extend(("passage", text) for text in texts)
            return HashEncoder.encode(self, [self.passage_prompt + text for text in texts], window)

    monkeypatch.setattr(assemble, "Encoder", lambda name, device, dtype, canonical, **prompts: Prompted(**prompts))
    build_index(load_corpus(data / "corpus.jsonl"), "flat", Prompted("ask: ", "told: "), tmp_path / "i")
    encoded.clear()
    config = configure("evoctx", index=str(tmp_path / "i"), encoder="e", boundary_encoder="e", rounds=1, limit=1)
    inputs = check_inputs(config)
    assert inputs.encoder_prompts == {"query_prompt": "ask: ", "passage_prompt": "told: "}
    evaluate(config, tmp_path / "run")
    trajectory = json.loads((tmp_path / "run" / "trajectories.jsonl").read_text())
    boundary = trajectory["rounds"][0]["boundary"]
    assert {text for side, text in encoded if side == "plain"} == {"trace of q0", *boundary}  # no vector of the index stands in for a passage
    assert {side for side, _ in encoded} == {"plain", "query"}
    query = trajectory["bootstrap"]["query"]
    best = trajectory["bootstrap"]["passages"][0]
    contents = next(p.contents for p in inputs.corpus if p.id == best["id"])
    cosine = (HashEncoder(64).encode([f"ask: {query}"]) @ HashEncoder(64).encode([f"told: {contents}"]).T).item()
    assert best["score"] == pytest.approx(cosine, abs=1e-6)
