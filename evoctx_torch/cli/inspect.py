"""`evoctx ls | replay | report`: what there is, a trajectory told in words, the report of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from evoctx_torch.cli.arguments import Parser
from evoctx_torch.errors import UsageError
from evoctx_torch.methods import METHODS, get_method


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the three commands."""
    commands.add_parser("ls", help="list methods, presets and packaged data sets",
                        description="List methods, presets and packaged data sets.").set_defaults(run=run_ls)
    replay = commands.add_parser("replay", help="tell one trajectory of a run in words", description="Tell one trajectory in words, from the run's files.")
    replay.add_argument("folder", type=Path, metavar="RUN", help="a run's folder")
    replay.add_argument("--id", required=True, metavar="Q", help="the question's id")
    replay.add_argument("--verbose", action="store_true", help="whole traces and passages")
    replay.set_defaults(run=run_replay)
    report = commands.add_parser("report", help="write the HTML report of runs", description="Write RUN/report.html anew for each run.")
    report.add_argument("folders", type=Path, nargs="+", metavar="RUN", help="a run's folder")
    report.set_defaults(run=run_report)


def run_ls(arguments: argparse.Namespace) -> int:
    """Print the lists."""
    from evoctx_torch.data.datasets import PACKAGED
    from evoctx_torch.evaluation.config import presets
    print("methods")
    for name in METHODS:
        print(f"  {name:<17} {told(name)}")
    print("presets\n" + "\n".join(f"  {name}" for name in presets()))
    print("data sets\n" + "\n".join(f"  {name:<17} {folder}" for name, folder in PACKAGED.items()))
    return 0


def told(name: str) -> str:
    """A method in one line; of another package's that cannot be used, why."""
    try:
        method = get_method(name)
    except UsageError as error:
        return f"cannot be used: {error}"
    return f"{method.summary} ({method.source}; roles: {', '.join(method.roles)})"


def run_replay(arguments: argparse.Namespace) -> int:
    """Print one trajectory."""
    from evoctx_torch.analysis.narrate import narrate
    from evoctx_torch.analysis.runs import read_run, shown_contents
    run = read_run(arguments.folder)
    trajectories = {row["id"]: row for row in run.trajectories}
    if arguments.id not in trajectories:
        some = ", ".join(list(trajectories)[:5])
        raise UsageError(f"{arguments.folder} has no question {arguments.id!r}; it has {len(trajectories)}, the first: {some}")
    trajectory = trajectories[arguments.id]
    prediction = next(row for row in run.predictions if row["id"] == arguments.id)
    print(narrate(trajectory, prediction, shown_contents(run, [trajectory]), config=run.config, verbose=arguments.verbose))
    return 0


def run_report(arguments: argparse.Namespace) -> int:
    """Write the reports."""
    from evoctx_torch.analysis.report import write_report
    for folder in arguments.folders:
        print(write_report(folder))
    return 0
