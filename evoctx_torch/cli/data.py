"""`evoctx data convert|restrict`: published data sets into our folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from evoctx_torch.cli.arguments import Parser


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command with its two parts."""
    parser = commands.add_parser("data", help="convert published data sets", description="Make a data set's folder (docs/data.md).")
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    convert = parts.add_parser("convert", help="from the files of a data set as they are published",
                               description="Write queries.jsonl and corpus.jsonl from published files.")
    convert.add_argument("format", metavar="FORMAT", help="hotpotqa, 2wikimultihopqa, musique, multihoprag, academiceval or hotpotqa-wiki")
    convert.add_argument("files", type=Path, nargs="+", metavar="FILE", help="the published files, in any order")
    convert.add_argument("--out", type=Path, required=True, metavar="DIR", help="the new folder")
    convert.add_argument("--own-documents", action="store_true", help="distractor setting: a question retrieves from its own paragraphs only")
    convert.add_argument("--corpus", type=Path, metavar="FILE", help="fullwiki setting: the corpus is this one; supporting passages by title")
    convert.set_defaults(run=run_convert)
    restrict = parts.add_parser("restrict", help="keep the questions of a folder to their own documents",
                                description="Copy a data set with metadata.doc_ids: the documents of the passages that a question names.")
    restrict.add_argument("data", metavar="DATA", help="a data set's folder or a known name")
    restrict.add_argument("--to", required=True, metavar="KEY", help="metadata that lists passage ids, such as context_passage_ids")
    restrict.add_argument("--out", type=Path, required=True, metavar="DIR", help="the new folder")
    restrict.set_defaults(run=run_restrict)


def run_convert(arguments: argparse.Namespace) -> int:
    """Convert, and say what is missing."""
    from evoctx_torch.data.convert import convert
    done = convert(arguments.format, arguments.files, arguments.out, own_documents=arguments.own_documents, corpus=arguments.corpus)
    parts = [f"{count} {what}" for count, what in ((done.questions, "questions"), (done.passages, "passages")) if count]
    print(f"{' and '.join(parts)}: {arguments.out}")
    if done.incomplete:
        print(f"{done.incomplete} questions have a supporting fact whose paragraph is not in the corpus: their evidence recall counts the others")
    return 0


def run_restrict(arguments: argparse.Namespace) -> int:
    """Copy with `metadata.doc_ids`."""
    from evoctx_torch.data.convert import restrict
    from evoctx_torch.data.datasets import resolve
    done = restrict(resolve(arguments.data), arguments.to, arguments.out)
    print(f"{done.questions} questions with their own documents and {done.passages} passages: {arguments.out}")
    return 0
