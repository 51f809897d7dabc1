"""Two runs on the same questions, metric by metric: how large the difference is, and whether it may be chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from evoctx_torch.analysis.rows import COUNTS, LABELS, SHARES, figure, number
from evoctx_torch.analysis.runs import judged, read_predictions
from evoctx_torch.errors import UsageError
from evoctx_torch.metrics.bootstrap import mean_ci
from evoctx_torch.metrics.paired import compare_paired

DEFAULT = ("em", "f1", "acc", "rouge1", "rouge2", "rougeL", "bertscore", "llm_match", "evidence_recall")
# Of config.json, no options.
RECORDED = ("versions", "digests", "git_commit", "device_name", "queries_path", "corpus_path", "num_processes", "memory_at_start")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`second` against `first`. Differences are second - first; `metrics` and `efficiency` are as `--json` prints them."""

    first: str
    second: str
    questions: int
    left_out: int  # questions of either run that the other lacks (`common` only)
    options: dict[str, list[Any]]  # what the runs were asked to do differently: [first, second]
    metrics: dict[str, dict[str, Any]]
    efficiency: dict[str, dict[str, Any]]


def compare_runs(first: Path, second: Path, names: Sequence[str] = (), *, common: bool = False, seed: int = 0) -> Comparison:
    """Compare the runs of two folders in `names` (default: those of `DEFAULT` that both have) and in all costs.

    Raises `UsageError` for a folder that is no finished run, a metric that a run lacks, and for runs on different
    questions; `common` compares those that both have.
    """
    (config_a, a), (config_b, b) = read(first), read(second)
    only = [i for i in a if i not in b], [i for i in b if i not in a]
    if (only[0] or only[1]) and not common:
        raise UsageError(f"the runs have different questions ({some(only[0], first)}; {some(only[1], second)}): "
                         "run both on the same ones, or compare those that both have with --common")
    ids = [i for i in a if i in b]
    if not ids:
        raise UsageError(f"{first} and {second} have no question in common")
    for i in ids:
        if differs := [name for name in ("question", "golden_answers") if a[i][name] != b[i][name]]:
            raise UsageError(f"question {i!r} has another {differs[0]} in {second} than in {first}: the runs are on different data")
    pairs = {name: paired(name, [a[i] for i in ids], [b[i] for i in ids]) for name in choose(names, a, b)}
    costs = {name: paired(name, [a[i] for i in ids], [b[i] for i in ids]) for name in COUNTS}
    return Comparison(
        str(first), str(second), len(ids), len(only[0]) + len(only[1]), differing(config_a, config_b),
        {name: score(*columns, seed) for name, columns in pairs.items() if columns[0]},
        {name: cost(*columns, seed) for name, columns in costs.items() if columns[0]},
    )


def read(folder: Path) -> tuple[Row, dict[str, Row]]:
    """Configuration, and rows by id with what a judge added to them."""
    config, rows = read_predictions(folder)
    verdicts = judged(folder)
    return config, {row["id"]: row | verdicts.get(row["id"], {}) for row in rows}


def choose(names: Sequence[str], a: Mapping[str, Row], b: Mapping[str, Row]) -> list[str]:
    """The metrics to compare. Raises `UsageError` for one that is no column of numbers in both runs."""
    known = [name for name in columns(a) if name in columns(b)]
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--metric is {unknown[0]!r}; expected some of {', '.join(known)}")
    return list(dict.fromkeys(names)) or [name for name in DEFAULT if name in known]


def columns(rows: Mapping[str, Row]) -> list[str]:
    """The columns that hold a number in some row."""
    return list(dict.fromkeys(name for row in rows.values() for name, value in row.items() if type(value) in (int, float)))


def paired(name: str, a: Sequence[Row], b: Sequence[Row]) -> tuple[list[float], list[float]]:
    """The values of a column in both runs, of the questions where both have one."""
    both = [(x[name], y[name]) for x, y in zip(a, b, strict=True) if x.get(name) is not None and y.get(name) is not None]
    return [x for x, _ in both], [y for _, y in both]


def score(a: Sequence[float], b: Sequence[float], seed: int) -> dict[str, Any]:
    """One metric: means, difference, interval, p, and the questions that the second run won, lost, tied."""
    found = compare_paired(a, b, seed=seed)
    mean, low, high = found.difference
    return {"first": found.first, "second": found.second, "difference": mean, "ci95": [low, high], "p": found.p,
            "won": found.won, "lost": found.lost, "tied": found.tied, "questions": len(a)}


def cost(a: Sequence[float], b: Sequence[float], seed: int) -> dict[str, Any]:
    """One efficiency column: means, mean difference and its interval."""
    mean, low, high = mean_ci([y - x for x, y in zip(a, b, strict=True)], seed=seed)
    return {"first": sum(a) / len(a), "second": sum(b) / len(b), "difference": mean, "ci95": [low, high], "questions": len(a)}


def differing(a: Row, b: Row) -> dict[str, list[Any]]:
    """The options of two `config.json` that differ."""
    names = [name for name in dict.fromkeys([*a, *b]) if name not in RECORDED]
    return {name: [a.get(name), b.get(name)] for name in names if a.get(name) != b.get(name)}


def some(ids: Sequence[str], folder: Path) -> str:
    """`3 only in RUN: a, b, …`."""
    return f"{len(ids)} only in {folder}" + (f": {', '.join(ids[:3])}{', …' if len(ids) > 3 else ''}" if ids else "")


def score_table(found: Comparison) -> Table:
    """Scores; shares in percent, their differences in points."""
    table = Table(
        box=SIMPLE_HEAD, padding=(0, 1, 0, 0), title_justify="left", caption_justify="left",
        title=escape(f"{found.second} against {found.first}, {found.questions} questions"),
        caption="diff.: second - first, paired bootstrap interval; p: two-sided, random exchange of values",
    )
    for heading in ("metric", "first", "second", "diff.", "95 % interval", "p", "won/lost/tied"):
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for name, entry in found.metrics.items():
        table.add_row(*_means(name, entry), f"{entry['p']:.3f}", f"{entry['won']}/{entry['lost']}/{entry['tied']}")
    return table


def cost_table(found: Comparison) -> Table:
    """Costs of a question."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), title="Costs of a question", title_justify="left")
    for heading in ("", "first", "second", "diff.", "95 % interval"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, entry in found.efficiency.items():
        table.add_row(*_means(name, entry))
    return table


def _means(name: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    label = f"{SHARES[name]}, %" if name in SHARES else LABELS.get(name, name)
    means = [figure(name, entry[key]) for key in ("first", "second")]
    change = [_signed(name, value) for value in (entry["difference"], *entry["ci95"])]
    return escape(label), *means, change[0], f"{change[1]} to {change[2]}"


def _signed(name: str, value: float) -> str:
    shown = number(name, abs(value) * (100 if name in SHARES else 1))
    return shown if not float(shown.replace(",", "")) else f"{'+' if value > 0 else '-'}{shown}"
