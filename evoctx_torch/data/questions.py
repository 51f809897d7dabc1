"""Questions with their golden answers (`queries.jsonl`, the FlashRAG / Search-R1 layout)."""

from __future__ import annotations

from pathlib import Path

from evoctx_torch.data.checks import Remarks, require_golds, require_new, require_text
from evoctx_torch.data.jsonl import read_jsonl
from evoctx_torch.errors import UsageError
from evoctx_torch.metrics.normalize import normalize
from evoctx_torch.operations import Question


def load_questions(path: Path | str, limit: int | None = None) -> list[Question]:
    """The questions in the file's order, the first `limit` of them.

    The whole file is checked whatever the limit, so that a run can be extended later. Raises `UsageError` with file,
    line and field for a missing file, a broken or ill-typed line, a repeated id, a blank id or question, or golden
    answers that are not a non-empty list of non-blank strings. Warns once (`DataWarning`) where a golden answer
    normalizes to nothing and where a text is not NFC.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit is {limit}; expected at least 1")
    path = Path(path)
    questions: list[Question] = []
    lines: dict[str, int] = {}
    for number, row in read_jsonl(path, {"id": str, "question": str, "golden_answers": list}, {"metadata": dict}):
        line = f"{path} line {number}"
        require_text(row, "id", line)
        require_new(row["id"], lines, number, line)
        require_text(row, "question", line)
        golds = require_golds(row, line)
        questions.append(Question(row["id"], row["question"], golds, row.get("metadata", {})))
    questions = questions[:limit]
    remarks = Remarks(path)
    for question in questions:
        if not all(map(normalize, question.golden_answers)):
            remarks.add("with a golden answer that normalizes to nothing: acc is 1 for any answer, em for an empty one", question.id)
        remarks.add_unless_nfc((question.text, *question.golden_answers), question.id)
    remarks.warn()
    return questions
