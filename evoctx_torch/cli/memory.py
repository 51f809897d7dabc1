"""`evoctx memory ls|show|stats FILE` and `abstraction RUN`: what a thought memory holds, and what a run recalled. Needs no model."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from evoctx_torch.cli.arguments import Parser
from evoctx_torch.errors import UsageError

if TYPE_CHECKING:
    from evoctx_torch.memory.store import ThoughtStore


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command and its three."""
    parser = commands.add_parser("memory", help="look into a thought memory",
                                 description="Look into a thought memory (`--memory FILE`, or a run's memory.sqlite).")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for name, help, run in (("ls", "list its thoughts", run_ls), ("show", "a thought with the tree of its sources", run_show),
                            ("stats", "how many, at which levels, how alike, what was rejected", run_stats)):
        one = verbs.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        one.add_argument("file", type=Path, metavar="FILE", help="the memory")
        one.set_defaults(run=run)
        if name == "show":
            one.add_argument("id", metavar="ID", help="a thought, by the number that `ls` shows")
        else:
            one.add_argument("--json", action="store_true", help="print JSON")
    one = verbs.add_parser("abstraction", help="how abstract what a run recalled is, by a field of its questions",
                           description="Mean level of what a run recalled, by a field of its questions' metadata (docs/metrics.md).")
    one.add_argument("folder", type=Path, metavar="RUN", help="the folder of a finished run of thought-retriever")
    one.add_argument("--by", required=True, metavar="FIELD", help="field of the questions' metadata, for instance type")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.set_defaults(run=run_abstraction)


def run_ls(arguments: argparse.Namespace) -> int:
    """Print all thoughts."""
    store = read(arguments.file)
    if arguments.json:
        rows = [{"thought": t.text, "level": t.level, "provenance": list(t.provenance)} for t in store.thoughts]
        print(json.dumps(rows, ensure_ascii=False, indent=1))
        return 0
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    table = Table("id", "level", "passages", "thought", title=escape(f"{len(store.thoughts)} thoughts in {arguments.file}"))
    for thought in store.thoughts:
        table.add_row(str(thought.id), f"{thought.level:.3g}", str(len(thought.provenance)), escape(thought.text))
    Console().print(table)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print one thought and what it rests on, down to the passages."""
    store = read(arguments.file)
    number = arguments.id.removeprefix("thought-")
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= len(store.thoughts)):
        raise UsageError(f"{arguments.file} has no thought {arguments.id!r}; it has {len(store.thoughts)}, numbered from 1")
    from rich.console import Console
    from rich.markup import escape
    from rich.tree import Tree

    shown: set[int] = set()

    def grow(id: int, parent: Tree | None = None) -> Tree:
        thought = store.thoughts[id - 1]
        label = f"{id} (level {thought.level:.3g}): {escape(thought.text)}"
        tree = Tree(label) if parent is None else parent.add(label)
        if id in shown:  # shared sources are drawn once: a tree of them all could be exponentially large
            tree.add("(as above)")
            return tree
        shown.add(id)
        for source in thought.sources:
            grow(source, tree) if isinstance(source, int) else tree.add(escape(f"passage {source}"))
        return tree

    Console().print(grow(int(number)), soft_wrap=True)
    return 0


def run_stats(arguments: argparse.Namespace) -> int:
    """Print the numbers of the memory."""
    from evoctx_torch.memory.statistics import statistics
    found = statistics(read(arguments.file))
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
        return 0
    for name, value in found.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key}: {count}" for key, count in value.items()) or "none"
        elif isinstance(value, float):
            value = f"{value:.3f}"
        print(f"{name.replace('_', ' ')}: {'none' if value is None else value}")
    return 0


def run_abstraction(arguments: argparse.Namespace) -> int:
    """Print the abstraction of what was recalled by a field of the questions."""
    from evoctx_torch.analysis.abstraction import abstraction_by
    found = abstraction_by(arguments.folder, arguments.by)
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
        return 0
    for value, entry in found["values"].items():
        print(f"{entry['abstraction']:7.3f}  {arguments.by} {value} ({entry['questions']} questions)")
    if correlation := found["spearman"]:
        print(f"Spearman's rho {correlation['rho']:.3f}, p {correlation['p']:.3g}")
    print(f"{found['questions']} questions, {found['left_out']} left out (nothing recalled, or no such field)")
    return 0


def read(path: Path) -> ThoughtStore:
    """The memory of a file. Raises `UsageError` where there is none."""
    if not path.exists():
        raise UsageError(f"{path}: no such file; expected the memory of a run (`--memory FILE`, or RUN/memory.sqlite)")
    from evoctx_torch.memory.store import ThoughtStore
    return ThoughtStore(path)
