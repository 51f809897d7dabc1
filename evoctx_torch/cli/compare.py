"""`evoctx compare RUN RUN`: whether two runs differ by more than chance."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from evoctx_torch.cli.arguments import Parser


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "compare", help="two runs on the same questions: difference, interval, p",
        description="Compare the second run with the first, question by question: means, difference with its paired bootstrap "
                    "95 % interval, two-sided p, questions won, lost and tied, and the costs.")
    parser.add_argument("first", type=Path, metavar="RUN", help="a finished run's folder, the one compared with")
    parser.add_argument("second", type=Path, metavar="RUN2", help="another one on the same questions")
    parser.add_argument("--metric", nargs="+", default=[], metavar="NAME",
                        help="columns of predictions.jsonl (llm_match: of judge.jsonl) [default: em, f1, acc, and of the long-answer metrics, "
                             "llm_match and evidence_recall those that both have]")
    parser.add_argument("--common", action="store_true", help="compare the questions that both have, where they have different ones")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run_compare)


def run_compare(arguments: argparse.Namespace) -> int:
    """Compare and print."""
    from rich.console import Console

    from evoctx_torch.analysis.compare import compare_runs, cost_table, score_table
    found = compare_runs(arguments.first, arguments.second, arguments.metric, common=arguments.common)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(found), ensure_ascii=False, indent=1))
        return 0
    console = Console()
    console.print(score_table(found))
    if found.efficiency:
        console.print(cost_table(found))
    for name, (a, b) in found.options.items():
        console.print(f"{name}: {a} in the first, {b} in the second", markup=False)
    if found.left_out:
        console.print(f"Left out: {found.left_out} questions that only one of the runs has.", style="yellow")
    return 0
