"""`evoctx score FILE`: the metrics of any predictions file."""

from __future__ import annotations

import argparse
from pathlib import Path

from evoctx_torch.cli.arguments import Parser


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    parser = commands.add_parser("score", help="metrics of any predictions file",
                                 description="Score a file of {id, prediction, golden_answers} lines; writes one line a row and prints the means.")
    parser.add_argument("file", type=Path, metavar="FILE", help="JSONL with id, prediction and golden_answers")
    parser.add_argument("--out", type=Path, required=True, metavar="OUT", help="where the scored lines go")
    parser.set_defaults(run=run_score)


def run_score(arguments: argparse.Namespace) -> int:
    """Score and print."""
    from evoctx_torch.evaluation.score import score_file
    for name, mean in score_file(arguments.file, arguments.out).items():
        print(f"{name:<18} {mean:g}" if isinstance(mean, int) else f"{name:<18} {mean:.4f}")
    return 0
