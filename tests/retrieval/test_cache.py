"""Embeddings on disk: computed once, continued after a kill, rebuilt when torn, safe between processes."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from retrieval_cases import corpus_of, random_texts

from evoctx_torch.retrieval import cache
from evoctx_torch.retrieval.cache import corpus_vectors
from evoctx_torch.retrieval.hashing import HashEncoder

TEXTS = [*random_texts(25), "same", "same", *random_texts(3)]  # the last three repeat earlier ones
CORPUS = corpus_of(TEXTS)


class Watched(HashEncoder):
    """Counts texts, and dies when `fuse` of them are encoded."""

    def __init__(self, fuse: int = 10**9, **kwargs) -> None:
        super().__init__(**kwargs)
        self.fuse, self.seen = fuse, []

    def encode(self, texts, window="head"):
        if len(self.seen) + len(texts) > self.fuse:
            raise KeyboardInterrupt
        self.seen += texts
        return super().encode(texts, window)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BLOCK", 4)


def test_rows_are_those_of_the_corpus_and_a_second_call_encodes_nothing(tmp_path: Path) -> None:
    encoder, steps = Watched(), []
    vectors = corpus_vectors(CORPUS, encoder, folder=tmp_path, progress=lambda done, total: steps.append((done, total)))
    assert (vectors == HashEncoder().encode(TEXTS).numpy()).all()
    assert vectors.dtype == np.float32
    assert isinstance(vectors, np.memmap)
    assert encoder.seen == list(dict.fromkeys(TEXTS))  # equal contents once
    assert steps == [(min(i, 26), 26) for i in range(4, 29, 4)]
    again = Watched()
    assert (corpus_vectors(CORPUS, again, folder=tmp_path) == vectors).all()
    assert again.seen == []
    assert [p.suffix for p in tmp_path.iterdir() if p.suffix != ".lock"] == [".npy"]


def test_after_a_kill_only_unfinished_blocks_are_encoded(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        corpus_vectors(CORPUS, Watched(fuse=10), folder=tmp_path)
    encoder = Watched()
    vectors = corpus_vectors(CORPUS, encoder, folder=tmp_path)
    assert encoder.seen == list(dict.fromkeys(TEXTS))[8:]
    assert (vectors == HashEncoder().encode(TEXTS).numpy()).all()


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[: len(b) // 2], lambda b: b[:7], lambda b: b"", lambda b: b + b"x"])
def test_a_torn_file_is_rebuilt(tmp_path: Path, damage) -> None:
    corpus_vectors(CORPUS, HashEncoder(), folder=tmp_path)
    (file,) = tmp_path.glob("*.npy")
    file.write_bytes(damage(file.read_bytes()))
    assert (corpus_vectors(CORPUS, HashEncoder(), folder=tmp_path) == HashEncoder().encode(TEXTS).numpy()).all()


def test_a_torn_block_is_encoded_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        corpus_vectors(CORPUS, Watched(fuse=10), folder=tmp_path)
    block = min(tmp_path.glob("*.parts/*.npy"))
    block.write_bytes(block.read_bytes()[:-4])
    encoder = Watched()
    corpus_vectors(CORPUS, encoder, folder=tmp_path)
    assert encoder.seen[:4] == TEXTS[:4]


def test_corpus_encoder_and_window_have_their_own_file(tmp_path: Path) -> None:
    corpus_vectors(CORPUS, HashEncoder(), folder=tmp_path)
    corpus_vectors(CORPUS, HashEncoder(dimension=32), folder=tmp_path)
    corpus_vectors(CORPUS, HashEncoder(), "tail", folder=tmp_path)
    corpus_vectors(corpus_of(TEXTS[:5]), HashEncoder(), folder=tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 4


def test_two_that_want_the_same_vectors_share_the_work(tmp_path: Path) -> None:
    class Slow(Watched):
        def encode(self, texts, window="head"):
            time.sleep(0.01)
            return super().encode(texts, window)

    encoders = [Slow(), Slow()]
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda encoder: corpus_vectors(CORPUS, encoder, folder=tmp_path), encoders)
    assert (first == second).all()
    assert sorted(len(encoder.seen) for encoder in encoders) == [0, 26]


SCRIPT = """
import sys, time
from evoctx_torch.retrieval import cache
from evoctx_torch.retrieval.hashing import HashEncoder
from retrieval_cases import corpus_of, random_texts
class Slow(HashEncoder):
    def encode(self, texts, window="head"):
        time.sleep(0.05)
        return super().encode(texts, window)
cache.BLOCK = 2
calls = []
vectors = cache.corpus_vectors(corpus_of(random_texts(30)), Slow(), folder=cache.Path(sys.argv[1]), progress=lambda *_: calls.append(1))
print(len(calls), float(vectors.sum()))
"""


@pytest.mark.slow
def test_two_processes_that_want_the_same_vectors_share_the_work(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent) for _ in range(2)]
    said = sorted(process.communicate(timeout=60)[0].split() for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert [int(calls) for calls, _ in said] == [0, 15]
    assert said[0][1] == said[1][1]
