"""Runs the cells of a table, each in a folder of its own, so that an interrupted reproduction continues."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoctx_torch.analysis.runs import judged
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation import inputs
from evoctx_torch.evaluation.config import RunConfig, known_options, resolve
from evoctx_torch.evaluation.folder import RunFolder
from evoctx_torch.evaluation.inputs import check_inputs, record
from evoctx_torch.evaluation.judging.run import judge as judge_run
from evoctx_torch.evaluation.judging.run import judged_already, resolve_judge
from evoctx_torch.evaluation.reproduce.tables import PaperTable, Row
from evoctx_torch.evaluation.run import Outcome, evaluate
from evoctx_torch.methods import get_method


@dataclass(frozen=True, slots=True)
class Cells:
    """The finished runs of a table on one data set: metrics and lines of predictions, by the row's label."""

    data: str
    metrics: Mapping[str, Mapping[str, Any]]
    predictions: Mapping[str, Sequence[Mapping[str, Any]]]

    def value(self, label: str, metric: str) -> float | None:
        """A row's mean of a metric; `tokens` are prompt and completion together. None where the run has no such metric."""
        found = self.metrics[label]
        if metric == "tokens":
            return sum(found[name]["mean"] for name in ("prompt_tokens", "completion_tokens"))
        entry = found.get(metric)
        return entry["mean"] if isinstance(entry, dict) else entry

    def column(self, label: str, metric: str) -> list[float] | None:
        """A row's metric question by question; None where it is not a question's (or the label a mean's)."""
        rows = self.predictions.get(label, ())
        if metric == "tokens":
            return [row["prompt_tokens"] + row["completion_tokens"] for row in rows] or None
        values = [row.get(metric) for row in rows]
        return None if not values or None in values else values


def reproduce(
    table: PaperTable, places: Mapping[str, Mapping[str, Any]], given: Mapping[str, Any], out: Path, judge: str | None = None
) -> list[Cells]:
    """Run every row on every data set and return what came out.

    `places` maps a data set to the options that name its files (`{"data": FOLDER}`), `given` overrides the paper's settings,
    `judge` is the model that says which answers match (`llm_match`; its settings are those of `given`).
    Every run is checked before the first one starts. Raises `UsageError`, `Interrupted`.
    """
    check_given(table, given)
    judging = None if judge is None else resolve_judge(judge, given)
    if judging:
        inputs.check_generator(judging, "judge")
    planned = [
        (data, row, configure(table, row, place, given, out / data), out / data / slug(row.label))
        for data, place in places.items() for row in table.rows
    ]
    for _, _, config, folder in planned:
        RunFolder(folder).check(record(config, check_inputs(config)))
    for data in places:
        (out / data).mkdir(parents=True, exist_ok=True)  # for what its rows share
    done: dict[str, dict[str, Any]] = {data: {} for data in places}
    for data, row, config, folder in planned:
        done[data][row.label] = evaluate(config, folder, label=f"{data}: {row.label}")
    return [finished(data, runs, judging) for data, runs in done.items()]


def finished(data: str, runs: Mapping[str, Outcome], judging: RunConfig | None) -> Cells:
    """The runs of a data set as cells, judged where that is asked for and not done yet."""
    metrics, predictions = {}, {}
    for label, run in runs.items():
        metrics[label], predictions[label] = run.metrics, RunFolder(run.folder).rows()
        if judging:
            metrics[label] = run.metrics | {"llm_match": judged_already(run.folder, judging) or judge_run(run.folder, judging)[0]["llm_match"]}
            verdicts = judged(run.folder)
            predictions[label] = [row | verdicts[row["id"]] for row in predictions[label]]
    return Cells(data, metrics, predictions)


def check_given(table: PaperTable, given: Mapping[str, Any]) -> None:
    """Raise `UsageError` for an option that no row has, and for one that would make a row another than its label says."""
    known = set().union(*(known_options(get_method(row.method)) for row in table.rows))
    defining = set().union(*(row.options for row in table.rows))
    for name in sorted(given):
        if name == "data":
            raise UsageError("--set data: every data set has a column of its own; choose them with --data and --data-root")
        if name not in known:
            raise UsageError(f"--set {name}: no method of {table.name} has this option")
        if name in defining:
            raise UsageError(f"--set {name}: rows of {table.name} are defined by this option; `evoctx eval` runs a row with another value")


def configure(table: PaperTable, row: Row, place: Mapping[str, Any], given: Mapping[str, Any], folder: Path) -> RunConfig:
    """The configuration of one cell: the paper's settings < what the user gives (`check_given`) < the row's own options.

    `{folder}` in an option stands for the data set's folder (a memory that rows share).
    """
    known = known_options(get_method(row.method))
    values = {**table.settings, **place, **given, **row.options}
    chosen = {name: value for name, value in values.items() if name in known}
    return resolve(row.method, {k: v.replace("{folder}", str(folder)) if isinstance(v, str) else v for k, v in chosen.items()})


def slug(label: str) -> str:
    """A label as the name of a folder."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
