"""An index of chunks: it finds chunks, holds them, and belongs to the corpus that they were cut from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from retrieval_cases import WORDS

from evoctx_torch.cli import main
from evoctx_torch.data.chunks import chunk
from evoctx_torch.data.corpus import Corpus, load_corpus
from evoctx_torch.errors import UsageError
from evoctx_torch.operations import Passage
from evoctx_torch.retrieval.build import build_index, make_retriever, open_index
from evoctx_torch.retrieval.folder import indexed_corpus, read_index
from evoctx_torch.retrieval.hashing import HashEncoder

LONG = Corpus(Passage(f"d{i}", f"doc {i}", f"Title {i}", f"Title {i}\n" + " ".join(f"{word}{i}" for word in WORDS)) for i in range(4))
CHUNKS = Corpus(chunk(LONG, 6, 2))
ENCODERS = {"flat": HashEncoder(), "bm25": None}


@pytest.mark.parametrize("kind", ["flat", "bm25"])
def test_chunks_are_found_whatever_corpus_is_given(tmp_path: Path, kind: str) -> None:
    info = build_index(LONG, kind, ENCODERS[kind], tmp_path / "i", chunk_words=6, chunk_overlap=2)
    assert (info.passages, info.corpus_digest, info.source_digest) == (len(CHUNKS), CHUNKS.digest, LONG.digest)
    assert (info.options["chunk_words"], info.options["chunk_overlap"]) == (6, 2)
    expected = make_retriever(CHUNKS, ENCODERS[kind], tmp_path / "i").search_one("nectar2 orchid2", 3)
    (best, *_) = expected
    assert (best.id, best.doc_id, best.title) == ("d2#3", "doc 2", "Title 2")
    assert best.contents == "Title 2\nmesa2 nectar2 orchid2"
    assert open_index(tmp_path / "i", ENCODERS[kind]).search_one("nectar2 orchid2", 3) == expected
    assert make_retriever(LONG, ENCODERS[kind], tmp_path / "i").search_one("nectar2 orchid2", 3) == expected
    assert list(load_corpus(tmp_path / "i" / "corpus.jsonl")) == list(CHUNKS)


def test_the_corpus_of_a_run_is_the_one_that_was_indexed(tmp_path: Path) -> None:
    info = build_index(LONG, "bm25", None, tmp_path / "i", chunk_words=6, chunk_overlap=2)
    assert indexed_corpus(info, CHUNKS) is CHUNKS
    assert list(indexed_corpus(info, LONG)) == list(indexed_corpus(info)) == list(CHUNKS)
    whole = build_index(LONG, "bm25", None, tmp_path / "whole")
    assert indexed_corpus(whole, LONG) is LONG
    other = Corpus(list(LONG)[:3])
    for index, corpus in ((info, other), (whole, CHUNKS)):
        with pytest.raises(UsageError, match="another corpus"):
            indexed_corpus(index, corpus)


def test_the_same_chunks_are_left_alone_and_others_refused(tmp_path: Path) -> None:
    out = tmp_path / "i"
    first = build_index(LONG, "bm25", None, out, chunk_words=6, chunk_overlap=2)
    assert build_index(LONG, "bm25", None, out, chunk_words=6, chunk_overlap=2) == first
    for sizes in ({"chunk_words": 6}, {"chunk_words": 7, "chunk_overlap": 2}, {}):
        with pytest.raises(UsageError, match=r"other chunks \(--chunk-words 6 --chunk-overlap 2"):
            build_index(LONG, "bm25", None, out, **sizes)
    build_index(LONG, "bm25", None, tmp_path / "whole")
    with pytest.raises(UsageError, match=r"other chunks \(not cut"):
        build_index(LONG, "bm25", None, tmp_path / "whole", chunk_words=6)
    with pytest.raises(UsageError, match="another corpus"):
        build_index(Corpus(list(LONG)[:3]), "bm25", None, out, chunk_words=6, chunk_overlap=2)


def test_the_command_cuts_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"id": p.id, "title": p.title, "contents": p.contents}) + "\n" for p in LONG))
    sizes = ["--chunk-words", "6", "--chunk-overlap", "2"]
    assert main(["index", str(tmp_path), "--kind", "bm25", "--out", str(tmp_path / "i"), *sizes]) == 0
    assert "bm25 index of 16 passages cut from 4:" in capsys.readouterr().out
    assert read_index(tmp_path / "i").source_digest == load_corpus(corpus).digest
    assert main(["search", "--index", str(tmp_path / "i"), "--query", "cedar3 dune3", "--top-k", "1", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["id"], found["doc_id"]) == ("d3#0", "Title 3")
    for wrong, said in ((["--chunk-overlap", "2"], "needs --chunk-words"), (["--chunk-words", "3", "--chunk-overlap", "3"], "0 to 2")):
        assert main(["index", str(corpus), "--kind", "bm25", "--out", str(tmp_path / "no"), *wrong]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
