"""MultiHop-RAG's two files (github.com/yixuantt/MultiHop-RAG, dataset/): the queries and the 609 news articles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evoctx_torch.data.formats.pool import Passages, unique
from evoctx_torch.data.formats.reading import checked, entries, field
from evoctx_torch.errors import UsageError

EVIDENCE = ("fact", "title", "source", "author", "category", "published_at", "url")


def read(files: Sequence[Path], passages: Passages) -> Iterator[dict[str, Any]]:
    """Questions with their evidence, each fact with the id of its article.

    An article's title gets its source and date, "Title (The Verge, 2023-09-26)": the questions ask about them, and the
    official pipeline shows them with every chunk. Cut the articles with `evoctx index --chunk-words`.
    """
    kinds = {"query": [], "body": []}
    for path in files:
        _, first = next(entries(path))
        kind = next((kind for kind in kinds if kind in first), None)
        if kind is None:
            raise UsageError(f"{path}: its entries have neither 'query' nor 'body'; expected MultiHopRAG.json and corpus.json")
        kinds[kind].append(path)
    if [len(found) for found in kinds.values()] != [1, 1]:
        raise UsageError("expected two files: MultiHopRAG.json (the queries) and corpus.json (the articles)")
    (queries,), (corpus,) = kinds.values()
    articles = {}
    for where, row in entries(corpus):
        title, source, published, url = (field(row, name, str, where) for name in ("title", "source", "published_at", "url"))
        meta = {"source": source, "author": row.get("author"), "category": row.get("category"), "published_at": published, "url": url}
        articles[url] = passages.add(f"{title} ({source}, {published[:10]})", field(row, "body", str, where), meta=meta)
    for number, (where, row) in enumerate(entries(queries)):
        evidence = []
        for item in field(row, "evidence_list", list, where):
            url = field(checked(item, dict, f"{where} evidence"), "url", str, where)
            if url not in articles:
                raise UsageError(f"{where}: its evidence {url} is no article of {corpus}; give the two files of one release")
            evidence.append({"passage_id": articles[url], **{name: item[name] for name in EVIDENCE if name in item}})
        yield {
            "id": f"mhr_{number}", "question": field(row, "query", str, where), "golden_answers": [field(row, "answer", str, where)],
            "metadata": {
                "type": field(row, "question_type", str, where), "evidence": evidence,
                "supporting_passage_ids": unique([item["passage_id"] for item in evidence]),
            },
        }
