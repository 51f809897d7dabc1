"""`evoctx reproduce TABLE`: a table of a paper, the paper's value beside every cell, a verdict of every claim."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from evoctx_torch.cli.arguments import Parser
from evoctx_torch.errors import UsageError


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    from evoctx_torch.evaluation.reproduce.tables import tables
    parser = commands.add_parser(
        "reproduce", help="a table of a paper, with its values beside yours",
        description="Run a table of a paper with the paper's settings. An interrupted command continues when repeated.")
    parser.add_argument("table", metavar="TABLE", help=", ".join(tables()))
    parser.add_argument("--data-root", type=Path, metavar="DIR", help="folder with a sub-folder for every data set of the table")
    parser.add_argument("--data", nargs="+", metavar="NAME", help="only these data sets (sub-folders of --data-root, or known names)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the runs, table.md and table.json")
    parser.add_argument("--generator", metavar="M", help="model in place of the paper's")
    parser.add_argument("--judge", metavar="M", help="model that judges the answers (LLM match); without it that column stays empty")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N questions of every data set")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE",
                        help="another option for every run whose method has it, for instance --set decider=smollm2 --set rounds=3")
    parser.set_defaults(run=run_reproduce)


def run_reproduce(arguments: argparse.Namespace) -> int:
    """Run what is missing of the table and print it."""
    from evoctx_torch.evaluation.reproduce.tables import read_table
    table = read_table(arguments.table)
    given = overrides(arguments)
    places = {name: {"data": place(arguments.data_root, name)} for name in arguments.data or table.data}
    from rich.console import Console
    from rich.table import Table

    from evoctx_torch.evaluation.reproduce import show
    from evoctx_torch.evaluation.reproduce.run import reproduce
    from evoctx_torch.evaluation.reproduce.verdict import verdicts
    from evoctx_torch.evaluation.run import Interrupted
    print(f"{table.title} ({table.source}): {len(table.rows)} rows on {', '.join(places)}")
    try:
        cells = reproduce(table, places, given, arguments.out, arguments.judge)
    except Interrupted as stop:
        print(f"evoctx: {stop}", file=sys.stderr)
        return 130
    claims = verdicts(table, cells)
    changed = ", ".join(f"{name} = {value}" for name, value in given.items())
    show.write(arguments.out, table, cells, claims, f"Settings in place of the paper's: {changed}." if changed else "The paper's settings.")
    console = Console()

    def draw(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        drawn = Table(title=title, title_justify="left")
        for i, head in enumerate(heads):
            drawn.add_column(head, justify="right" if i and heads[0] == "" else "left")
        for row in rows:
            drawn.add_row(*row)
        console.print(drawn, markup=False)
    for found in cells:
        draw(f"{table.title}: {found.data} (the paper's value in brackets)", show.headings(table), show.cell_rows(table, found))
    if claims:
        draw("What the paper claims", ["data", "claim", "here", "closest pair"], show.verdict_rows(claims))
    if table.notes:
        console.print(table.notes, markup=False)
    console.print(f"Table: {arguments.out / 'table.md'}; one run's folder a cell beside it.", markup=False, soft_wrap=True)
    return 0


def overrides(arguments: argparse.Namespace) -> dict[str, object]:
    """The options given in place of the paper's."""
    given: dict[str, object] = {}
    for name in ("generator", "limit"):
        if (value := getattr(arguments, name)) is not None:
            given[name] = value
    for entry in arguments.set:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {entry}: expected OPTION=VALUE, for instance --set rounds=3")
        given[name.strip().removeprefix("--").replace("-", "_")] = value
    return given


def place(root: Path | None, name: str) -> str:
    """The folder of a data set, or its known name."""
    from evoctx_torch.data import hub
    from evoctx_torch.data.datasets import PACKAGED
    if root is not None and (root / name).is_dir():
        return str(root / name)
    if name in PACKAGED or hub.is_name(name):
        return name
    where = f"{root} has no folder {name}" if root is not None else "--data-root DIR is missing"
    raise UsageError(f"{where}; expected a folder that holds {name}/queries.jsonl and {name}/corpus.jsonl, or --data with known names")
