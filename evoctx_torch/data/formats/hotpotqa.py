"""HotpotQA's JSON (github.com/hotpotqa/hotpot, "JSON Format"), which 2WikiMultihopQA shares, and HotpotQA's Wikipedia."""

from __future__ import annotations

import bz2
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evoctx_torch.data.formats.pool import Passages, flat, joined, unique
from evoctx_torch.data.formats.reading import checked, entries, field, one_file
from evoctx_torch.errors import UsageError

KEPT = ("type", "level", "evidences", "evidences_id", "answer_id", "entity_ids")  # the last four are 2WikiMultihopQA's


def read(files: Sequence[Path], passages: Passages, glue: str = "") -> Iterator[dict[str, Any]]:
    """Questions with supporting facts by (title, sentence number) and the ids of the paragraphs they stand in.

    `glue`: what stands between sentences (`pool.joined`): nothing in HotpotQA, a blank in 2WikiMultihopQA.
    """
    for where, row in entries(one_file(files, "the questions")):
        answer = field(row, "answer", str, where, " (test sets are published without answers)")
        ids, context, sentences = [], {}, {}
        for paragraph in field(row, "context", list, where):
            title, texts = _pair(paragraph, str, list, f"{where} field 'context'")
            text, spans = joined(title, [checked(text, str, f"{where} sentence of {title!r}") for text in texts], glue)
            ids.append(passages.add(title, text, spans))
            if title not in context:
                context[title], sentences[title] = ids[-1], texts
        facts = []
        for fact in field(row, "supporting_facts", list, where):
            title, number = _pair(fact, str, int, f"{where} field 'supporting_facts'")
            texts = sentences.get(title, ())
            facts.append({
                "passage_id": context.get(title) or passages.find(title), "title": title, "sent_id": number,
                # Some facts name a sentence that their paragraph does not have.
                "sentence": texts[number].strip() if 0 <= number < len(texts) else None,
            })
        yield {
            "id": field(row, "_id", str, where), "question": field(row, "question", str, where), "golden_answers": [answer],
            "metadata": {
                **{name: row[name] for name in KEPT if name in row},
                "supporting_passage_ids": unique([fact["passage_id"] for fact in facts]), "supporting_facts": facts,
                "context_passage_ids": [id for id in ids if id is not None],
            },
        }


def read_wiki(files: Sequence[Path], passages: Passages) -> Iterator[dict[str, Any]]:
    """The introductory paragraphs of Wikipedia of October 2017, HotpotQA's fullwiki corpus: files of JSON lines in bz2, or their folder."""
    found = [path for file in files for path in (sorted(file.rglob("wiki_*")) if file.is_dir() else [file]) if path.is_file()]
    if not found:
        raise UsageError(f"{', '.join(map(str, files))}: no wiki_* file; expected the unpacked archive of HotpotQA's Wikipedia abstracts")
    for path in found:
        try:
            with bz2.open(path, "rt", encoding="utf-8") if path.suffix == ".bz2" else path.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    where, row = f"{path} line {number}", json.loads(line)
                    title = field(row, "title", str, where)
                    text, spans = joined(title, list(flat(field(row, "text", list, where))))
                    if text:
                        passages.add(title, text, spans, id=str(row["id"]))
        except (OSError, EOFError, ValueError, KeyError) as error:
            raise UsageError(f"{path}: not JSON lines of articles ({error})") from error
    yield from ()


def _pair(value: Any, first: type, second: type, where: str) -> tuple[Any, Any]:
    if type(value) is not list or len(value) != 2:
        raise UsageError(f"{where} holds {json.dumps(value)[:80]}; expected pairs")
    return checked(value[0], first, where), checked(value[1], second, where)
