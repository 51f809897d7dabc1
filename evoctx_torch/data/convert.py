"""Writing our folder: from published files, and from a folder whose questions are to be kept to their own documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evoctx_torch.data.corpus import load_corpus
from evoctx_torch.data.datasets import DataFiles
from evoctx_torch.data.formats import FORMATS
from evoctx_torch.data.formats.pool import Pool, Titles, unique
from evoctx_torch.data.jsonl import read_jsonl
from evoctx_torch.data.writing import CORPUS, QUERIES, check_new, write_folder
from evoctx_torch.errors import UsageError
from evoctx_torch.operations import Passage


@dataclass(frozen=True, slots=True)
class Written:
    """What a conversion wrote; `incomplete` questions have a supporting fact whose paragraph is not in the corpus."""

    questions: int
    passages: int | None  # None where the corpus was there already
    incomplete: int = 0


def convert(name: str, files: Sequence[Path], out: Path, *, own_documents: bool = False, corpus: Path | None = None) -> Written:
    """Read `files` of the format `name` (a key of `FORMATS`) and write the data set `out`, a folder that is not there yet.

    Every question's paragraphs make up the corpus. With `own_documents` (the distractor setting) each question carries
    `metadata.doc_ids`, to which its retrieval is restricted, and every paragraph is a document. With `corpus` (the fullwiki
    setting) that file is the corpus: supporting paragraphs are looked up in it by title and only questions are written.
    Raises `UsageError` for files of another shape or an `out` that holds something.
    """
    if name not in FORMATS:
        raise UsageError(f"format is {name!r}; expected one of {', '.join(FORMATS)}")
    if corpus is not None and (own_documents or FORMATS[name].own_documents or name not in ("hotpotqa", "2wikimultihopqa")):
        raise UsageError("--corpus is for hotpotqa and 2wikimultihopqa without --own-documents: leave it out")
    check_new(out)
    own = own_documents or FORMATS[name].own_documents
    passages = Pool(own) if corpus is None else Titles(corpus)
    questions = list(FORMATS[name].read(files, passages))
    if own:
        for question in questions:
            if "context_passage_ids" not in question["metadata"]:
                raise UsageError(f"{name} has no paragraphs that belong to a question: leave out --own-documents")
            question["metadata"]["doc_ids"] = unique(question["metadata"]["context_passage_ids"])
    incomplete = sum(any(fact["passage_id"] is None for fact in q["metadata"].get("supporting_facts", ())) for q in questions)
    written = {QUERIES: questions} if questions else {}
    if isinstance(passages, Pool):
        written |= {CORPUS: passages.rows, "sentence_spans.jsonl": passages.spans, "passage_meta.jsonl": passages.meta}
    write_folder(out, written)
    return Written(len(questions), len(passages.rows) if isinstance(passages, Pool) else None, incomplete)


def restrict(files: DataFiles, key: str, out: Path) -> Written:
    """Copy a data set to `out` with `metadata.doc_ids` on every question: the documents of the passages under `metadata[key]`.

    Raises `UsageError` where a question has no such list or it names a passage that the corpus has not.
    """
    check_new(out)
    corpus, questions = load_corpus(files.corpus), []
    for number, row in read_jsonl(files.queries, {"id": str}, {"metadata": dict}):
        where, ids = f"{files.queries} line {number}", row.get("metadata", {}).get(key)
        if not isinstance(ids, list) or not ids:
            raise UsageError(f"{where}: metadata.{key} is {'empty' if ids == [] else 'no list'}; expected the ids of the question's passages")
        try:
            docs = dict.fromkeys(corpus.doc_ids[corpus.position(id)] for id in ids)
        except (KeyError, TypeError) as error:
            raise UsageError(f"{where}: metadata.{key} names {error}, which is no passage of {files.corpus}") from error
        questions.append(row | {"metadata": row["metadata"] | {"doc_ids": list(docs)}})
    write_folder(out, {QUERIES: questions, CORPUS: [_row(passage) for passage in corpus]})
    return Written(len(questions), len(corpus))


def _row(passage: Passage) -> dict[str, str]:
    return {"id": passage.id, "doc_id": passage.doc_id, "title": passage.title, "contents": passage.contents}
