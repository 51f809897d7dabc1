"""`evoctx profile METHOD`: where the time of a method's ticks goes."""

from __future__ import annotations

import argparse

from evoctx_torch.cli.arguments import Parser, add_options
from evoctx_torch.cli.evaluate import RESERVED, add_methods
from evoctx_torch.evaluation.config import resolve
from evoctx_torch.evaluation.profile import ProfileOptions, profile
from evoctx_torch.options import typed


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command, with one parser a method."""
    text = "Run a method's first ticks under torch.profiler: time by phase and by operator, a Chrome trace and a roofline."
    parser = commands.add_parser("profile", help="profile a method's ticks by phase and operator", description=text)
    out = "folder of trace.json, phases.json and roofline.png; an earlier profile in it is replaced"
    add_methods(parser, run_profile, "profile", "DIR", out, lambda one: add_options(one, ProfileOptions, "the profile"))


def run_profile(arguments: argparse.Namespace) -> int:
    """Profile and print the tables."""
    options = typed(ProfileOptions, vars(arguments))
    given = {name: value for name, value in vars(arguments).items() if name not in {*RESERVED, *ProfileOptions.__slots__}}
    config = resolve(arguments.method, given, config=arguments.config, preset=arguments.preset)
    from rich.console import Console
    from rich.progress import Progress

    from evoctx_torch.analysis.profile_tables import operator_table, phase_table
    progress, tasks = Progress(console=Console(stderr=True), transient=True), {}

    def report(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = progress.add_task(what)
            progress.start()
        progress.update(tasks[what], completed=done, total=total)

    try:
        found = profile(config, options, arguments.out, report)
    finally:
        if tasks:
            progress.stop()
    console = Console()
    console.print(phase_table(found))
    console.print(operator_table(found))
    files = f"Trace, for ui.perfetto.dev: {arguments.out / 'trace.json'}; roofline: {arguments.out / 'roofline.png'}"
    console.print(files, markup=False, soft_wrap=True)
    return 0
