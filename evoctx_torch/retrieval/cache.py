"""Corpus embeddings on disk, computed once (design, rule 8): `[N, D]` float32 under a digest of what they depend on."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock

from evoctx_torch.cache_folder import cache_folder
from evoctx_torch.data.corpus import Corpus
from evoctx_torch.errors import UsageError
from evoctx_torch.retrieval.encoder import TextEncoder

Progress = Callable[[int, int], None]  # passages done, passages in all
BLOCK = 1024  # texts encoded between two writes: what a kill can cost


def corpus_vectors(
    corpus: Corpus, encoder: TextEncoder, window: str = "head", folder: Path | None = None, progress: Progress | None = None
) -> np.ndarray:
    """Vectors `[N, D]` float32 (a read-only memory map) of the corpus's `contents`, from the cache or computed into it.

    Computed in blocks that survive a kill; a second process that wants the same vectors waits for the first; a file that
    is torn is computed again. Equal contents get bitwise equal vectors, wherever in the corpus they stand. `folder`
    defaults to `cache_folder()/embeddings`; `progress(done, total)` counts distinct contents and is called after each block.
    """
    key = "\n".join(("embeddings 1", corpus.digest, encoder.digest, window))
    path = (folder or cache_folder() / "embeddings") / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.npy"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the embedding cache {path.parent} cannot be made ({error.strerror}): set EVOCTX_CACHE to a folder that can") from error
    shape = (len(corpus), encoder.dimension)
    if (vectors := _load(path, shape)) is not None:
        return vectors
    with FileLock(path.with_suffix(".lock")):
        if (vectors := _load(path, shape)) is None:
            _build(path, corpus.contents, encoder, window, progress)
            vectors = _load(path, shape)
    if vectors is None:
        raise OSError(f"{path} is not readable right after it was written")
    return vectors


def _build(path: Path, texts: Sequence[str], encoder: TextEncoder, window: str, progress: Progress | None) -> None:
    """Encode each distinct text once, block by block, then write one row a passage."""
    unique = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    distinct, parts = list(unique), path.with_suffix(".parts")
    parts.mkdir(exist_ok=True)
    blocks = []
    for start in range(0, len(distinct), BLOCK):
        block, part = distinct[start : start + BLOCK], parts / f"{start:012d}.npy"
        shape = (len(block), encoder.dimension)
        if _load(part, shape) is None:
            _save(part, shape, [encoder.encode_passages(block, window).cpu().numpy()])
        blocks.append(_load(part, shape))
        if progress:
            progress(start + len(block), len(distinct))
    rows = np.array([unique[text] for text in texts])
    pieces = (
        np.stack([blocks[row // BLOCK][row % BLOCK] for row in rows[start : start + BLOCK]]) for start in range(0, len(rows), BLOCK)
    )
    _save(path, (len(texts), encoder.dimension), pieces)
    shutil.rmtree(parts)


def _save(path: Path, shape: tuple[int, int], pieces: Iterable[np.ndarray]) -> None:
    """Write rows piece by piece; the file appears under its name only when it is whole and on the disk."""
    temporary = path.with_suffix(".tmp")  # one writer at a time: the lock is held
    with temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for piece in pieces:
            file.write(np.ascontiguousarray(piece, dtype="<f4").tobytes())
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _load(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    """The array, memory-mapped, or None where there is none of this shape or its file is torn."""
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):  # ValueError: a header or a body that is cut off
        return None
    whole = vectors.shape == shape and vectors.dtype == np.float32 and path.stat().st_size == vectors.offset + vectors.nbytes
    return vectors if whole else None
