"""`evoctx search --index DIR --query TEXT`: what an index finds."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from evoctx_torch.cli.arguments import Parser
from evoctx_torch.errors import UsageError


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    parser = commands.add_parser("search", help="search an index", description="Search an index folder; best first.")
    parser.add_argument("--index", type=Path, required=True, metavar="DIR", help="a folder made by `evoctx index`")
    parser.add_argument("--query", required=True, metavar="TEXT", help="what to look for")
    parser.add_argument("--top-k", default=5, type=int, metavar="K", help="passages to show; all there are if the corpus is smaller [default: 5]")
    parser.add_argument("--json", action="store_true", help="print a JSON list of {id, doc_id, title, score, contents}")
    parser.set_defaults(run=run_search)


def run_search(arguments: argparse.Namespace) -> int:
    """Search and print."""
    if arguments.top_k < 1:
        raise UsageError(f"--top-k is {arguments.top_k}; expected at least 1")
    if not arguments.query.strip():
        raise UsageError("--query is blank; expected some words")
    from evoctx_torch.retrieval.build import open_index
    found = open_index(arguments.index).search_one(arguments.query, arguments.top_k)
    if arguments.json:
        rows = [{"id": p.id, "score": p.score, "title": p.title, "doc_id": p.doc_id, "contents": p.contents} for p in found]
        print(json.dumps(rows, ensure_ascii=False, indent=1))
        return 0
    for passage in found:
        text = " ".join(passage.contents.split())
        print(f"{passage.score:8.4f}  {passage.id}  {text[:160]}{'…' if len(text) > 160 else ''}")
    return 0
