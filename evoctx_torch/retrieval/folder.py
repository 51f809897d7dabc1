"""An index as a folder that needs nothing else: `index.json`, the FAISS or BM25 files, and the corpus itself."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from filelock import FileLock

from evoctx_torch.data.checks import DataWarning
from evoctx_torch.data.corpus import Corpus, load_corpus
from evoctx_torch.errors import UsageError
from evoctx_torch.paths import check_writable

FORMAT = 1
KINDS = ("flat", "bm25")


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """What `index.json` says. `encoder` and `encoder_digest` are None for bm25.

    `corpus_digest` is that of the passages that were indexed, which lie in the folder; `source_digest` that of the corpus
    they were cut from, None where they were not cut.
    """

    kind: str
    corpus_digest: str
    passages: int
    encoder: str | None = None
    encoder_digest: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    source_digest: str | None = None
    format: int = FORMAT
    folder: Path = Path()

    @property
    def digest(self) -> str:
        """Of everything that decides what a search finds; not of the place."""
        return blake2b(json.dumps(self._content(), sort_keys=True).encode(), digest_size=16).hexdigest()

    @property
    def prompts(self) -> dict[str, str | None]:
        """`query_prompt` and `passage_prompt` of the encoder, as it embedded the passages."""
        return {name: self.options.get(name) for name in ("query_prompt", "passage_prompt")}

    @property
    def chunks(self) -> str:
        """How the corpus was cut, in words."""
        if self.source_digest is None:
            return "not cut"
        return f"--chunk-words {self.options['chunk_words']} --chunk-overlap {self.options['chunk_overlap']}"

    def check_matches(self, corpus_digest: str | None = None, encoder_digest: str | None = None) -> None:
        """Raise `UsageError` naming what differs from the given digests; None is not compared.

        A corpus matches if its passages are those that were indexed, or those that these were cut from.
        """
        if corpus_digest is not None and corpus_digest not in (self.corpus_digest, self.source_digest):
            raise UsageError(
                f"index {self.folder} was built from another corpus (digest {(self.source_digest or self.corpus_digest)[:8]}, this one "
                f"has {corpus_digest[:8]}): give the corpus it was built from, or build the index again"
            )
        if encoder_digest is not None and self.encoder_digest is not None and encoder_digest != self.encoder_digest:
            raise UsageError(
                f"index {self.folder} was built with another encoder ({self.encoder}, digest {self.encoder_digest[:8]}; this one "
                f"has {encoder_digest[:8]}): give the encoder it was built with, or build the index again"
            )

    def write(self, folder: Path) -> None:
        (folder / "index.json").write_text(json.dumps(self._content(), indent=2) + "\n", encoding="utf-8")

    def _content(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "folder"}


def read_index(folder: Path) -> IndexInfo:
    """`index.json` of an index folder. Raises `UsageError` when it is none, damaged, or of another format; loads nothing else."""
    path = folder / "index.json"
    if not path.is_file():
        what = "has no index.json" if folder.is_dir() else "does not exist"
        raise UsageError(f"index {folder} {what}: expected a folder that evoctx index wrote")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] == FORMAT:
            info = IndexInfo(**content, folder=folder)
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} is damaged or not written by evoctx index: build the index again") from error
    if content["format"] != FORMAT:
        raise UsageError(f"index {folder} has format {content['format']}, this version reads {FORMAT}: build the index again")
    if info.kind not in KINDS:
        raise UsageError(f"index {folder} is of kind {info.kind!r}; expected one of {', '.join(KINDS)}")
    return info


def indexed_corpus(info: IndexInfo, given: Corpus | None = None) -> Corpus:
    """The passages that the index finds: `given` itself, or the index's own copy where `given` is None or was cut for it.

    Raises `UsageError` when `given` belongs to another index.
    """
    info.check_matches(corpus_digest=given.digest if given is not None else None)
    return given if given is not None and given.digest == info.corpus_digest else read_corpus(info)


def read_corpus(info: IndexInfo) -> Corpus:
    """The index's own copy of its corpus. Raises `UsageError` when it is not the corpus that was indexed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # said when the corpus was indexed
        corpus = load_corpus(info.folder / "corpus.jsonl")
    if corpus.digest != info.corpus_digest:
        raise UsageError(f"{info.folder / 'corpus.jsonl'} was changed after the index was built: build the index again")
    return corpus


def write_index(index: Any, corpus: Corpus, info: IndexInfo, out: Path) -> IndexInfo:
    """Put index, corpus and `index.json` into a folder beside `out`, then rename it: `out` is whole or not there."""
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
    partial.mkdir(parents=True)
    index.write(partial / "index.faiss" if info.kind == "flat" else partial / "bm25")
    with (partial / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for p in corpus:
            row = {"id": p.id, "doc_id": p.doc_id, "title": p.title, "contents": p.contents}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    info.write(partial)
    partial.replace(out)
    return read_index(out)


def check_out(out: Path, kind: str | None = None, corpus_digest: str | None = None, encoder_digest: str | None = None) -> IndexInfo | None:
    """What `out` already holds: the index that is wanted, or None where there is nothing. Raises `UsageError` for anything else.

    None for what is wanted is not compared.
    """
    if (out / "index.json").is_file():
        there = read_index(out)
        if kind not in (None, there.kind):
            raise UsageError(f"{out} already holds a {there.kind} index; give --out another folder")
        there.check_matches(corpus_digest, encoder_digest)
        return there
    check_writable(out)
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} holds something that is no index; expected a new or an empty folder")
    return None


@contextmanager
def lock(out: Path) -> Iterator[None]:
    """One builder of `out` at a time; the lock's file is gone afterwards."""
    out.parent.mkdir(parents=True, exist_ok=True)
    path = out.with_name(f".{out.name}.lock")
    with FileLock(path):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # while it is held: who waits for it notices, and takes a new one
