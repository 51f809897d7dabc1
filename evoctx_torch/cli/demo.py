"""`evoctx demo`: the main job on the embedded default, no arguments, no network."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from evoctx_torch.cli.arguments import Parser

METHODS = ("closed-book", "naive-rag", "evoctx")


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "demo", help="compare three methods on a small invented world, with embedded models",
        description="Closed book, naive RAG and EvoCtx on questions about an invented world, with SmolLM2-135M and "
                    "all-MiniLM-L6-v2 from installed packages: a few minutes on two cores, no network.")
    parser.add_argument("--out", type=Path, default=Path("evoctx-demo"), metavar="DIR", help="folder of the three runs [default: evoctx-demo]")
    parser.add_argument("--questions", type=int, default=16, metavar="N", help="how many questions [default: 16]")
    parser.set_defaults(run=run_demo)


def run_demo(arguments: argparse.Namespace) -> int:
    """Run the three methods, print one table and one trajectory."""
    from rich.console import Console

    from evoctx_torch.analysis.narrate import narrate
    from evoctx_torch.analysis.runs import read_run, shown_contents
    from evoctx_torch.analysis.tables import comparison_table
    from evoctx_torch.evaluation.config import resolve
    from evoctx_torch.evaluation.run import Interrupted, evaluate
    settings = {"data": "demo", "generator": "smollm2", "limit": arguments.questions, "max_new_tokens": 32, "batch_size": 16}
    options = {"closed-book": {}, "naive-rag": {"top_k": 3}, "evoctx": {"top_k": 3, "rounds": 2}}
    print(f"{arguments.questions} questions about an invented world that no model has read of; {', '.join(METHODS)} with SmolLM2-135M. "
          f"Runs go to {arguments.out}/.")
    runs = {}
    for name in METHODS:
        try:
            runs[name] = evaluate(resolve(name, settings | options[name]), arguments.out / name)
        except Interrupted as stop:
            print(f"evoctx: {stop}", file=sys.stderr)
            return 130
    console = Console()
    console.print()
    console.print(comparison_table({name: run.metrics for name, run in runs.items()}, "The demo world, SmolLM2-135M-Instruct"))
    console.print("A 135M model answers badly whatever it is given; evidence recall, calls and tokens show what a method does.\n", markup=False)
    run = read_run(arguments.out / "evoctx")
    trajectory = max(run.trajectories, key=lambda t: len({r["action"] for r in t["rounds"]}))
    prediction = next(row for row in run.predictions if row["id"] == trajectory["id"])
    print(narrate(trajectory, prediction, shown_contents(run, [trajectory]), config=run.config))
    print(f"All trajectories in a browser: {arguments.out / 'evoctx' / 'report.html'}\n"
          f"Your own questions: evoctx eval evoctx --data FOLDER --generator MODEL --out RUN")
    return 0
