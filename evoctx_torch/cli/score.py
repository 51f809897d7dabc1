"""`evoctx score FILE`: the metrics of any predictions file."""

from __future__ import annotations

import argparse
from pathlib import Path

from evoctx_torch.cli.arguments import Parser
from evoctx_torch.options import convert


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    parser = commands.add_parser("score", help="metrics of any predictions file",
                                 description="Score a file of {id, prediction, golden_answers} lines; writes one line a row and prints the means.")
    parser.add_argument("file", type=Path, metavar="FILE", help="JSONL with id, prediction and golden_answers")
    parser.add_argument("--out", type=Path, required=True, metavar="OUT", help="where the scored lines go")
    parser.add_argument("--metrics", nargs="+", default=[], metavar="NAME", help="metrics of long answers besides: rouge, bertscore")
    parser.add_argument("--bertscore-model", metavar="M", help="encoder of bertscore: all-minilm-l6-v2, a folder, or a cached hub name")
    parser.add_argument("--bertscore-layers", metavar="N",
                        help="layer that bertscore compares [default: bert-score's for models it knows, else the last]")
    parser.add_argument("--device", default="auto", metavar="D", help="where bertscore runs: auto, cpu, cuda or cuda:N [default: auto]")
    parser.set_defaults(run=run_score)


def run_score(arguments: argparse.Namespace) -> int:
    """Score and print."""
    from evoctx_torch.evaluation.long_answers import LongAnswers
    from evoctx_torch.evaluation.score import score_file
    layers = convert("bertscore_layers", int | None, arguments.bertscore_layers)
    model, device = arguments.bertscore_model, arguments.device
    long_answers = LongAnswers(arguments.metrics, bertscore_model=model, bertscore_layers=layers, device=device)
    for name, mean in score_file(arguments.file, arguments.out, long_answers).items():
        print(f"{name:<18} {mean:g}" if isinstance(mean, int) else f"{name:<18} {mean:.4f}")
    return 0
