"""`evoctx index`: what an earlier index in the folder, its kind and its number format do to the call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoctx_torch.cli import main
from evoctx_torch.data.corpus import load_corpus
from evoctx_torch.retrieval import encoder
from evoctx_torch.retrieval.build import build_index
from evoctx_torch.retrieval.hashing import HashEncoder


class Half(HashEncoder):
    """Has another digest in half precision, as the real encoder."""

    def __init__(self, name: str = "hash", device: str = "cpu", dtype: str = "float32", **prompts: str | None) -> None:
        super().__init__(16)
        self.dtype = dtype

    @property
    def digest(self) -> str:
        return f"hash-{self.dtype}"


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two passages, and encoders that cost nothing."""
    monkeypatch.setattr(encoder, "Encoder", Half)
    monkeypatch.setattr("evoctx_torch.cli.index.check_encoder", lambda name: None)
    monkeypatch.setattr("evoctx_torch.cli.index.encoder_digest", lambda name, dtype, prompt: f"hash-{dtype}")
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": i, "contents": f"text {i}"}) + "\n" for i in "ab"))
    return path


def test_the_number_format_of_the_encoder_is_the_index_own(corpus, tmp_path):
    assert main(["index", str(corpus), "--out", str(tmp_path / "i"), "--dtype", "float16"]) == 0
    content = json.loads((tmp_path / "i/index.json").read_text())
    assert (content["options"]["dtype"], content["encoder_digest"]) == ("float16", "hash-float16")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus.jsonl", "i"]


@pytest.mark.parametrize(("there", "given", "words"), [
    ("flat", ["--kind", "bm25"], "already holds a flat index"), ("bm25", [], "already holds a bm25 index"), ("flat", ["--dtype", "float16"], "another encoder"),
    ("other", [], "another corpus"),
])
def test_a_folder_with_another_index_is_refused_before_an_encoder_is_loaded(corpus, tmp_path, monkeypatch, capsys, there, given, words):
    passages = load_corpus(corpus)
    if there == "other":
        corpus.write_text(corpus.read_text().replace("text a", "text of a"))
    build_index(passages, "bm25" if there == "bm25" else "flat", None if there == "bm25" else Half(), tmp_path / "i")
    monkeypatch.setattr(encoder, "Encoder", lambda *_: pytest.fail("an encoder was loaded"))
    assert main(["index", str(corpus), "--out", str(tmp_path / "i"), *given]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_the_same_index_asked_for_again_is_left_alone(corpus, tmp_path, capsys):
    for _ in range(2):
        assert main(["index", str(corpus), "--out", str(tmp_path / "i")]) == 0
        assert "flat index of 2 passages" in capsys.readouterr().out
