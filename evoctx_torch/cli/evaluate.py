"""`evoctx eval METHOD`: evaluate a method and write the run's folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from evoctx_torch.cli.arguments import Parser, add_options
from evoctx_torch.evaluation.config import EvalOptions, ModelOptions, other_roles, presets, resolve
from evoctx_torch.evaluation.processes import from_environment
from evoctx_torch.methods import METHODS, Method, Modules
from evoctx_torch.methods.registry import package
from evoctx_torch.options import flag

RESERVED = {"run", "out", "config", "preset", "method"}


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command, with one parser a method."""
    parser = commands.add_parser("eval", help="evaluate a method on a data set", description="Evaluate a method on a data set.")
    add_methods(parser, run_eval, "eval", "RUN", "the run's folder; the same command continues or repeats it")


def add_methods(
    parser: Parser, run: Callable[[argparse.Namespace], int], command: str, out: str, out_help: str, extra: Callable[[Parser], None] = lambda one: None
) -> None:
    """One parser a method: `--out` and every option of the method's evaluation, and what `extra` adds. Each is made when it is used."""
    methods = parser.add_subparsers(title="methods", metavar="METHOD", dest="method", required=True, parser_class=Parser)

    def fill(one: Parser, name: str) -> None:
        add_method(one, METHODS[name], command, out, out_help)
        extra(one)
        one.set_defaults(run=run)

    for name in METHODS:
        summary = METHODS.own[name].summary if name in METHODS.own else f"from the package {package(METHODS.others()[name][0])}"
        methods.add_parser(name, help=summary, fill=partial(fill, name=name))


def add_method(one: Parser, method: Method, command: str, out: str, out_help: str) -> None:
    """A method's options, and what its --help says."""
    one.usage = f"evoctx {command} {method.name} --data DIR --generator MODEL --out {out} [options]"
    one.description = f"{method.name}: {method.summary}. Source: {method.source}."
    run = one.add_argument_group("the run")
    run.add_argument("--out", required=True, type=Path, metavar="DIR", help=out_help)
    run.add_argument("--config", type=Path, metavar="FILE", help="TOML file with options, or the config.json of a run")
    run.add_argument("--preset", metavar="NAME", help=f"a paper's settings: {', '.join(presets())}")
    add_options(one, method.options, f"options of {method.name}")
    if method.retrieves:
        add_options(one, Modules, "modules of retrieval")
    add_options(one, EvalOptions, "evaluation")
    add_options(one, ModelOptions, "models (of all roles that have no setting of their own)", defaults=method.defaults.get("generator", {}))
    for role in other_roles(method):
        group = one.add_argument_group(f"the role {role}")
        default = "required" if role in method.required else "default: the generator"
        group.add_argument(flag(role), metavar="TEXT", default=argparse.SUPPRESS, help=f"model of the role {role} [{default}]")
        add_options(one, ModelOptions, f"settings of the {role}", prefix=role, inherit="generator", defaults=method.defaults.get(role, {}))


def run_eval(arguments: argparse.Namespace) -> int:
    """Run the evaluation and print its tables; of several processes the first speaks for all."""
    processes = from_environment()
    given = {name: value for name, value in vars(arguments).items() if name not in RESERVED}
    config = resolve(arguments.method, given, config=arguments.config, preset=arguments.preset)
    from rich.console import Console

    from evoctx_torch.analysis.tables import action_table, run_table
    from evoctx_torch.evaluation.run import Interrupted, evaluate
    try:
        outcome = evaluate(config, arguments.out, processes=processes)
    except Interrupted as stop:
        if processes.first:
            print(f"evoctx: {stop}", file=sys.stderr)
        return 130
    if not processes.first:
        return 0
    console = Console()
    console.print(run_table(outcome.metrics, outcome.config))
    if outcome.metrics["action_share_by_round"]:
        console.print(action_table(outcome.metrics))
    for warning in outcome.metrics["warnings"]:
        console.print(f"Warning: {warning}", style="yellow", markup=False)
    for title, key in (("Routes", "routes"), ("Thoughts", "thoughts"), ("Ended by", "finish_reasons"), ("Failed", "failures")):
        if counted := outcome.metrics.get(key):
            console.print(f"{title}: " + ", ".join(f"{count} {reason}" for reason, count in counted.items()), markup=False)
    already = "" if outcome.ran else " (it was finished: nothing was run)"
    console.print(f"Run: {arguments.out}{already}; report: {arguments.out / 'report.html'}", markup=False, soft_wrap=True)
    return 0
