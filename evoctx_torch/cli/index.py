"""`evoctx index CORPUS`: build an index folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from evoctx_torch.cli.arguments import Parser
from evoctx_torch.errors import UsageError
from evoctx_torch.retrieval.folder import KINDS
from evoctx_torch.retrieval.sources import DEFAULT_ENCODER, DTYPES, check_encoder, encoder_digest


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    parser = commands.add_parser("index", help="build a FAISS or BM25 index", description="Build an index folder; a killed build continues.")
    parser.add_argument("corpus", metavar="CORPUS", help="corpus.jsonl, a data set's folder, or a known name (demo)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the index folder")
    parser.add_argument("--kind", choices=KINDS, default="flat", help="flat: exact FAISS search; bm25: lexical [default: flat]")
    parser.add_argument("--encoder", metavar="M", help=f"encoder of a dense index [default: {DEFAULT_ENCODER}]")
    parser.add_argument("--dtype", choices=DTYPES, help="number format of the encoder's weights, also of those that later embed the queries "
                                                         "[default: float32]")
    parser.add_argument("--query-prompt", metavar="TEXT", help="what stands before each query [default: the encoder's own, docs/data.md]")
    parser.add_argument("--passage-prompt", metavar="TEXT", help="what stands before each passage [default: the encoder's own]")
    parser.add_argument("--chunk-words", type=int, metavar="N", help="cut the passages into chunks of at most N words [default: as they are; paper: 500]")
    parser.add_argument("--chunk-overlap", type=int, metavar="N", help="words that neighbouring chunks share [default: 0]")
    parser.add_argument("--device", default="auto", metavar="D", help="auto, cpu, cuda or cuda:N [default: auto]")
    parser.set_defaults(run=run_index)


def run_index(arguments: argparse.Namespace) -> int:
    """Build with a progress bar."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from evoctx_torch.data.chunks import chunk
    from evoctx_torch.data.corpus import load_corpus
    from evoctx_torch.data.datasets import resolve_corpus
    from evoctx_torch.generation.models import resolve_device
    from evoctx_torch.retrieval.build import build_index
    from evoctx_torch.retrieval.folder import check_out
    if arguments.chunk_overlap is not None and arguments.chunk_words is None:
        raise UsageError("--chunk-overlap needs --chunk-words N")
    overlap = arguments.chunk_overlap or 0
    if arguments.chunk_words is not None:
        chunk([], arguments.chunk_words, overlap)  # refuses impossible sizes
    dense, dtype = arguments.kind != "bm25", arguments.dtype or "float32"
    name = DEFAULT_ENCODER if arguments.encoder is None else arguments.encoder
    prompts = {"query_prompt": arguments.query_prompt, "passage_prompt": arguments.passage_prompt}
    if not dense and {arguments.encoder, arguments.dtype, *prompts.values()} != {None}:
        raise UsageError("--kind bm25 uses no encoder: leave --encoder, --dtype and the prompts out, or take --kind flat")
    check_out(arguments.out, arguments.kind)
    if dense:
        check_encoder(name)
    corpus, encoder = load_corpus(resolve_corpus(arguments.corpus)), None
    if dense:
        check_out(arguments.out, arguments.kind, corpus.digest, encoder_digest(name, dtype, arguments.passage_prompt))
        from evoctx_torch.retrieval.encoder import Encoder
        encoder = Encoder(name, resolve_device(arguments.device), dtype, **prompts)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("left"), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("indexing", total=len(corpus))
        info = build_index(corpus, arguments.kind, encoder, arguments.out, lambda done, total: progress.update(task, completed=done, total=total),
                           arguments.chunk_words, overlap)
    cut = "" if info.source_digest is None else f" cut from {len(corpus)}"
    print(f"{arguments.kind} index of {info.passages} passages{cut}: {arguments.out}", file=sys.stdout)
    return 0
