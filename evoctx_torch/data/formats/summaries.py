"""Rows of summarization sets (documents and one summary) as questions over their own documents: GovReport, WCEP."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from evoctx_torch.data.formats.pool import Passages, unique
from evoctx_torch.data.formats.reading import checked, field

BETWEEN = re.compile(r"</s>|\[SEP\]")  # what stands between the documents where they are one string


def read(rows: Iterable[dict[str, Any]], passages: Passages, name: str, column: str, question: str) -> Iterator[dict[str, Any]]:
    """A question a row: `column` holds a document or several, `summary` the reference. Titles are "<name> <row>.<document>"."""
    for number, row in enumerate(rows):
        where = f"{name} row {number}"
        found = row.get(column)
        texts = found if isinstance(found, list) else BETWEEN.split(field(row, column, str, where))
        texts = [text.strip() for text in texts if checked(text, str, where).strip()]
        ids = [passages.add(f"{name} {number}.{i}", text) for i, text in enumerate(texts)]
        yield {
            "id": f"{name}-{row.get('id') or number}", "question": question, "golden_answers": [field(row, "summary", str, where)],
            "metadata": {"type": name, "supporting_passage_ids": unique(ids), "context_passage_ids": unique(ids)},
        }
