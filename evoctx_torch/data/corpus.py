"""The passages that can be retrieved (`corpus.jsonl`), kept in the file's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import overload

from evoctx_torch.data.checks import Remarks, require_new, require_text
from evoctx_torch.data.jsonl import read_jsonl
from evoctx_torch.operations import Passage


class Corpus(Sequence[Passage]):
    """An immutable sequence of passages, stored by column; a `Passage` is made when it is asked for.

    `ids`, `doc_ids`, `titles`, `contents` are tuples in corpus order, the order of an index's rows. Raises
    `ValueError` for repeated ids.
    """

    def __init__(self, passages: Iterable[Passage], path: Path | None = None) -> None:
        ids, doc_ids, titles, contents = [], [], [], []
        for passage in passages:
            ids.append(passage.id)
            doc_ids.append(passage.doc_id)
            titles.append(passage.title)
            contents.append(passage.contents)
        self.ids, self.doc_ids, self.titles, self.contents = tuple(ids), tuple(doc_ids), tuple(titles), tuple(contents)
        self.path = path
        self._positions = {id: i for i, id in enumerate(self.ids)}
        if len(self._positions) != len(self.ids):
            raise ValueError("passages with the same id; ids must be unique")

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> list[Passage]: ...
    def __getitem__(self, index: int | slice) -> Passage | list[Passage]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return Passage(self.ids[index], self.doc_ids[index], self.titles[index], self.contents[index])

    def position(self, id: str) -> int:
        """Row of the passage with this id; raises `KeyError` where there is none."""
        return self._positions[id]

    @cached_property
    def digest(self) -> str:
        """Digest of the content and its order (32 hex digits): ids, doc_ids, titles and contents of all passages."""
        state = blake2b(digest_size=16)
        for fields in zip(self.ids, self.doc_ids, self.titles, self.contents, strict=True):
            for value in map(str.encode, fields):
                state.update(len(value).to_bytes(8, "little") + value)  # with lengths: no two corpora read the same
        return state.hexdigest()


def load_corpus(path: Path | str) -> Corpus:
    """Read a corpus: `id` and `contents` required, `title` default "", `doc_id` default the title, else the id.

    Raises `UsageError` with file, line and field for a missing file, a broken or ill-typed line, a repeated or blank
    id, or blank contents. Warns once (`DataWarning`) where contents repeat under another id and where a text is
    not NFC.
    """
    path = Path(path)
    remarks = Remarks(path)
    corpus = Corpus(_passages(path, remarks), path)
    remarks.warn()
    return corpus


def _passages(path: Path, remarks: Remarks) -> Iterator[Passage]:
    lines: dict[str, int] = {}
    texts: set[int] = set()  # hashes: enough for a warning, and a large corpus fits
    for number, row in read_jsonl(path, {"id": str, "contents": str}, {"title": str, "doc_id": str}):
        line = f"{path} line {number}"
        require_text(row, "id", line)
        require_new(row["id"], lines, number, line)
        require_text(row, "contents", line)
        passage = Passage(row["id"], row.get("doc_id") or row.get("title") or row["id"], row.get("title", ""), row["contents"])
        if hash(passage.contents) in texts:
            remarks.add("with the contents of an earlier passage: both can be retrieved, as if they were two", passage.id)
        texts.add(hash(passage.contents))
        remarks.add_unless_nfc((passage.title, passage.contents), passage.id)
        yield passage
