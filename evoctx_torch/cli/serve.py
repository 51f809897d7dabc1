"""`evoctx serve --index DIR --port P`: answer the Search-R1 protocol from an index folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evoctx_torch.cli.arguments import Parser, add_options
from evoctx_torch.options import typed
from evoctx_torch.serving.options import ServeOptions


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    parser = commands.add_parser("serve", help="serve an index over HTTP (Search-R1's protocol)",
                                 description="Serve an index: POST /retrieve as Search-R1 asks it, GET /health, GET /metrics. SIGTERM or Ctrl-C ends it.")
    parser.add_argument("--index", type=Path, required=True, metavar="DIR", help="a folder made by `evoctx index`")
    parser.add_argument("--device", default="cpu", metavar="D", help="where index and encoder are: auto, cpu, cuda or cuda:N [default: cpu]")
    parser.add_argument("--index-fp16", action="store_true", help="hold a dense index on a GPU in half precision: half the memory, the same results")
    add_options(parser, ServeOptions, "the server")
    parser.set_defaults(run=run_serve)


def run_serve(arguments: argparse.Namespace) -> int:
    """Load the index and serve until told to stop."""
    options = typed(ServeOptions, vars(arguments))
    from evoctx_torch.retrieval.folder import read_index
    from evoctx_torch.serving.server import serve
    info = read_index(arguments.index)

    def load() -> tuple[Any, Mapping[str, Any]]:
        from evoctx_torch.generation.models import resolve_device
        from evoctx_torch.retrieval.build import open_index
        retriever = open_index(arguments.index, device=resolve_device(arguments.device), fp16=arguments.index_fp16)
        retriever.search_one("a first search", 1)  # what is loaded or compiled at first use is not the first client's to wait for
        return retriever, {"kind": info.kind, "passages": info.passages, "encoder": info.encoder, "index": info.digest, "max_topk": options.max_topk}
    serve(load, options)
    return 0
