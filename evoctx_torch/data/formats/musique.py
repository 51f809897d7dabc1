"""MuSiQue's JSON lines, answerable and full (github.com/StonyBrookNLP/musique)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evoctx_torch.data.formats.pool import Passages, unique
from evoctx_torch.data.formats.reading import checked, field, one_file
from evoctx_torch.data.jsonl import read_jsonl


def read(files: Sequence[Path], passages: Passages) -> Iterator[dict[str, Any]]:
    """Questions with supporting paragraphs by number and id. In MuSiQue-Full a question stands twice under one id, once
    without the paragraphs that answer it: that one becomes `<id>__unanswerable`.
    """
    path = one_file(files, "the questions")
    for number, row in read_jsonl(path, {"id": str, "question": str, "paragraphs": list}, {"question_decomposition": list, "answer_aliases": list}):
        where = f"{path} line {number}"
        answer = field(row, "answer", str, where, " (test sets are published without answers)")
        ids, supporting = {}, []
        for paragraph in row["paragraphs"]:
            checked(paragraph, dict, f"{where} paragraph")
            place = field(paragraph, "idx", int, where)
            ids[place] = passages.add(field(paragraph, "title", str, where), field(paragraph, "paragraph_text", str, where))
            if field(paragraph, "is_supporting", bool, where):
                supporting.append(place)
        answerable = row.get("answerable", True)
        yield {
            "id": row["id"] if answerable else f"{row['id']}__unanswerable", "question": row["question"],
            "golden_answers": list(dict.fromkeys((answer, *row.get("answer_aliases", ())))),
            "metadata": {
                "type": row["id"].partition("__")[0], "answerable": answerable,
                "supporting_passage_ids": unique([ids[place] for place in supporting]),
                "context_passage_ids": [ids[place] for place in sorted(ids)], "support_idxs": supporting,
                "decomposition": [
                    {"question": step["question"], "answer": step["answer"], "passage_id": ids.get(step.get("paragraph_support_idx"))}
                    for step in row.get("question_decomposition", ())
                ],
            },
        }
