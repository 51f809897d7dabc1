"""Runs with a retrieval server in the place of corpus and index."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evoctx_torch.data.corpus import load_corpus
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation import assemble
from evoctx_torch.evaluation.config import difference, resolve
from evoctx_torch.evaluation.inputs import check_inputs
from evoctx_torch.evaluation.run import evaluate
from evoctx_torch.retrieval.build import make_retriever
from evoctx_torch.retrieval.hashing import HashEncoder
from evoctx_torch.serving.options import ServeOptions
from evoctx_torch.serving.server import listen, make_server


@pytest.fixture
def url(data: Path, scripted) -> Iterator[str]:
    """A server over the corpus of the small data set."""
    scripted()
    corpus = load_corpus(data / "corpus.jsonl")
    with listen("127.0.0.1", 0) as bound:
        server = make_server(make_retriever(corpus, HashEncoder(64)), ServeOptions(), about={"passages": len(corpus)})
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.005)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        server.should_exit = True
        thread.join(20)


def test_a_run_with_a_server_is_the_run_with_its_index_and_needs_no_corpus(tmp_path, configure, url, data):
    for method in ("naive-rag", "evoctx"):
        local = evaluate(configure(method), tmp_path / f"{method}-local")
        (data / "corpus.jsonl").rename(data / "away")
        remote = evaluate(configure(method, retriever=url), tmp_path / f"{method}-remote")
        (data / "away").rename(data / "corpus.jsonl")
        assert remote.metrics["failures"] == {} and remote.metrics["evidence_recall"] == local.metrics["evidence_recall"]
        assert remote.metrics["evidence_recall"]["mean"] > 0
        for file in ("predictions.jsonl", "trajectories.jsonl"):
            assert (tmp_path / f"{method}-remote" / file).read_bytes() == (tmp_path / f"{method}-local" / file).read_bytes()
        config = json.loads((tmp_path / f"{method}-remote/config.json").read_text())
        assert config["retriever"] == url and config["encoder"] is None and config["corpus_path"] is None


def test_rows_that_the_server_fails_fail_alone(tmp_path, configure, url, monkeypatch):
    from evoctx_torch.retrieval.executor import Retriever
    answer = Retriever.answer

    def broken(self, pending):
        if any("Lisk" in p.operation.query for p in pending):
            raise RuntimeError("no Lisk")
        return answer(self, pending)
    monkeypatch.setattr(Retriever, "answer", broken)
    outcome = evaluate(configure(retriever=url), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/predictions.jsonl").read_text().splitlines()]
    assert outcome.metrics["failures"] == {"error": 1} and [row["id"] for row in lines if row["error"]] == ["q1"]
    assert "no Lisk" in lines[1]["error"] and "HTTP 500" in lines[1]["error"]


def test_a_server_that_is_not_there_is_refused_before_a_model_is_loaded(tmp_path, configure, scripted, monkeypatch):
    scripted()
    monkeypatch.setattr(assemble, "build_generator", lambda *_: pytest.fail("a generator was loaded"))
    with pytest.raises(UsageError, match=r"--retriever http://127.0.0.1:1/retrieve: no connection.*evoctx serve"):
        evaluate(configure(retriever="http://127.0.0.1:1"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_more_passages_than_the_server_has_are_refused(tmp_path, configure, url):
    with pytest.raises(UsageError, match=r"--top-k is 17, and --retriever .* has only 16 passages"):
        evaluate(configure(retriever=url, top_k=17), tmp_path / "run")


@pytest.mark.parametrize(("method", "given", "words"), [
    ("naive-rag", {"index": "i"}, "--index does not go with --retriever"), ("naive-rag", {"corpus": "c"}, "--corpus does not go"),
    ("naive-rag", {"encoder": "e"}, "--encoder does not go"), ("naive-rag", {"index_device": "cuda"}, "--index-device does not go"),
    ("closed-book", {}, "closed-book does not"), ("thought-retriever", {}, "gives no vectors"), ("naive-rag", {"retriever": "localhost:1"}, "expected an address like"),
])
def test_what_does_not_go_with_a_server_is_refused(configure, scripted, method, given, words):
    scripted()
    with pytest.raises(UsageError, match=words):
        check_inputs(configure(method, **{"retriever": "http://127.0.0.1:1", **given}))


def test_questions_with_documents_of_their_own_are_refused(configure, scripted, data):
    scripted()
    rows = [json.loads(line) for line in (data / "queries.jsonl").read_text().splitlines()]
    rows[2]["metadata"]["doc_ids"] = ["Tarn 0"]
    (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UsageError, match="question q2 is restricted to its own documents"):
        check_inputs(configure(retriever="http://127.0.0.1:1"))


def test_a_papers_encoder_gives_way_to_the_servers():
    given = {"generator": "g"}
    assert resolve("search-r1", given, preset="search-r1-paper").common.encoder
    assert resolve("search-r1", given | {"retriever": "http://h"}, preset="search-r1-paper").common.encoder is None


def test_another_server_is_another_run_and_another_time_limit_is_not(configure):
    one, two, three = (configure(**given).flat() for given in ({"retriever": "http://a"}, {"retriever": "http://b"}, {"retriever": "http://a", "retriever_timeout": 3}))
    assert "retriever is 'http://b'" in difference(one, two) and difference(one, three) is None
