"""Index folders: whole or absent, self-contained, and refused where they do not belong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from threading import Thread

import pytest
from retrieval_cases import corpus_of, random_texts

from evoctx_torch.errors import UsageError
from evoctx_torch.retrieval import build, cache
from evoctx_torch.retrieval.build import build_index, make_retriever, open_index
from evoctx_torch.retrieval.folder import lock, read_index
from evoctx_torch.retrieval.hashing import HashEncoder

CORPUS = corpus_of(random_texts(30), [f"doc {i % 7}" for i in range(30)])
ENCODERS = {"flat": HashEncoder(), "bm25": None}


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("kind", ["flat", "bm25"])
def test_a_folder_is_all_that_a_search_needs(tmp_path: Path, kind: str) -> None:
    info = build_index(CORPUS, kind, ENCODERS[kind], tmp_path / "made")
    shutil.move(tmp_path / "made", tmp_path / "moved")
    retriever = open_index(tmp_path / "moved", ENCODERS[kind])
    assert read_index(tmp_path / "moved").digest == info.digest
    assert (info.kind, info.corpus_digest, info.passages) == (kind, CORPUS.digest, 30)
    assert list(retriever.corpus) == list(CORPUS)
    assert retriever.search_one("amber kelp", 5) == make_retriever(CORPUS, ENCODERS[kind], tmp_path / "moved").search_one("amber kelp", 5)
    assert not [name for name in files(tmp_path / "moved") if name.endswith((".pkl", ".pickle", ".bin"))]


def test_an_index_finds_what_the_search_without_one_finds(tmp_path: Path) -> None:
    build_index(CORPUS, "flat", HashEncoder(), tmp_path / "i")
    for query in ("amber", "kelp dune 3", "nothing of it"):
        assert open_index(tmp_path / "i", HashEncoder()).search_one(query, 30) == make_retriever(CORPUS, HashEncoder()).search_one(query, 30)


def test_a_kill_leaves_no_half_folder_and_the_next_call_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BLOCK", 4)
    monkeypatch.setenv("EVOCTX_CACHE", str(tmp_path / "cache"))
    encoded: list[str] = []

    class Dies(HashEncoder):
        def encode(self, texts, window="head"):
            encoded.extend(texts)
            if len(encoded) == 16:
                raise KeyboardInterrupt
            return super().encode(texts, window)

    with pytest.raises(KeyboardInterrupt):
        build_index(CORPUS, "flat", Dies(), tmp_path / "i")
    assert not (tmp_path / "i").exists()
    with monkeypatch.context() as patch:  # and once more while the files are written
        patch.setattr(build.IndexInfo, "write", lambda self, folder: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            build_index(CORPUS, "flat", Dies(), tmp_path / "i")
    assert not (tmp_path / "i").exists()
    build_index(CORPUS, "flat", Dies(), tmp_path / "i")
    assert encoded == [*CORPUS.contents[:16], *CORPUS.contents[12:]]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cache", "i"]


def test_a_second_builder_waits_and_no_lock_stays(tmp_path: Path) -> None:
    came: list[str] = []

    def second() -> None:
        with lock(tmp_path / "i"):
            came.append("second")
            assert [p.name for p in tmp_path.iterdir()] == [".i.lock"]

    with lock(tmp_path / "i"):
        thread = Thread(target=second)
        thread.start()
        thread.join(0.2)
        came.append("first")
    thread.join()
    assert came == ["first", "second"] and not list(tmp_path.iterdir())
    with pytest.raises(RuntimeError), lock(tmp_path / "i"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_building_again_changes_nothing_and_other_contents_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "i"
    build_index(CORPUS, "flat", HashEncoder(), out)
    before = files(out)
    build_index(CORPUS, "flat", HashEncoder(), out)
    for corpus, kind, encoder, word in (
        (corpus_of(["kelp"]), "flat", HashEncoder(), "another corpus"),
        (CORPUS, "flat", HashEncoder(32), "another encoder"),
        (CORPUS, "bm25", None, "already holds a flat index"),
    ):
        with pytest.raises(UsageError, match=word):
            build_index(corpus, kind, encoder, out)
    assert files(out) == before


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="notes"):
        build_index(CORPUS, "bm25", None, tmp_path / "notes")
    with pytest.raises(UsageError, match="thesis"):
        build_index(CORPUS, "bm25", None, tmp_path / "notes" / "thesis.txt")
    assert files(tmp_path) == {"notes/thesis.txt": b"years of work"}
    (tmp_path / "empty").mkdir()
    build_index(CORPUS, "bm25", None, tmp_path / "empty")
    with pytest.raises(UsageError, match="hnsw"):
        build_index(CORPUS, "hnsw", None, tmp_path / "x")


def test_what_is_no_index_or_another_one_is_refused_in_one_line(tmp_path: Path) -> None:
    build_index(CORPUS, "flat", HashEncoder(), tmp_path / "i")
    (tmp_path / "folder").mkdir()

    def refused(folder: str, word: str, **given) -> None:
        with pytest.raises(UsageError, match=word) as caught:
            open_index(tmp_path / folder, **{"encoder": HashEncoder(), **given})
        assert "\n" not in str(caught.value)

    refused("nothing", "nothing does not exist")
    refused("folder", "no index.json")
    refused("i", "another corpus", corpus=corpus_of(["kelp"]))
    refused("i", "another encoder", encoder=HashEncoder(32))

    content = json.loads((tmp_path / "i" / "index.json").read_text())
    for change, word in (({"format": 99}, "format 99"), ({"kind": "tree"}, "tree"), ({"surprise": 1}, "damaged")):
        (tmp_path / "i" / "index.json").write_text(json.dumps({**content, **change}))
        refused("i", word)
    for text in ("{", "[]", "3", "{}"):
        (tmp_path / "i" / "index.json").write_text(text)
        refused("i", "damaged")
    (tmp_path / "i" / "index.json").write_text(json.dumps(content))
    lines = (tmp_path / "i" / "corpus.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "i" / "corpus.jsonl").write_text("".join(lines[::-1]))  # trap 11: rows of the index and the corpus apart
    refused("i", "was changed")
    (tmp_path / "i" / "corpus.jsonl").write_text("".join(lines))
    (tmp_path / "i" / "index.faiss").write_bytes(b"not faiss")
    refused("i", "damaged")
