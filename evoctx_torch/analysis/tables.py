"""The terminal's tables: one run with the papers' values beside it, its actions by round, several methods side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from evoctx_torch.analysis.rows import action_shares, metric_rows

COMPARED = ("em", "f1", "acc", "evidence_recall", "llm_calls", "retrieval_calls", "unique_passages", "tokens")


def run_table(metrics: Mapping[str, Any], config: Mapping[str, Any]) -> Table:
    """Metric, mean, bootstrap 95 % interval, and the paper's value where it has the same cell. Shares in percent."""
    rows = metric_rows(metrics, config)
    sources = list(dict.fromkeys(row.source for row in rows if row.source))
    title = f"{config['method']} on {config.get('data_name') or '?'}, {metrics['questions']} questions"
    table = Table(title=escape(title), caption=escape("Paper: " + "; ".join(sources)) if sources else None, title_justify="left")
    table.add_column("metric")
    for heading in ("mean", "95 % interval", *(["paper"] if sources else [])):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(escape(row.label), row.mean, row.interval, *([row.paper] if sources else []))
    return table


def action_table(metrics: Mapping[str, Any]) -> Table:
    """The share of each action by round, in percent; without rows for a method that has no rounds."""
    actions, rounds = action_shares(metrics)
    table = Table(title="Actions by round", title_justify="left")
    for heading in ("round", *(f"{escape(action)}, %" for action in actions), "questions"):
        table.add_column(heading, justify="right")
    for entry in rounds:
        table.add_row(str(entry["round"]), *(f"{100 * entry.get(action, 0):.1f}" for action in actions), str(entry["count"]))
    return table


def comparison_table(runs: Mapping[str, Mapping[str, Any]], title: str = "") -> Table:
    """Methods side by side: `runs` maps a column's heading to its `metrics.json`. Means; shares in percent."""
    columns = {
        heading: {row.name: row for row in metric_rows(metrics, {"method": heading})} for heading, metrics in runs.items()
    }
    table = Table(title=escape(title) if title else None, title_justify="left")
    table.add_column("metric")
    for heading in columns:
        table.add_column(escape(heading), justify="right")
    for name in COMPARED:
        present = [rows[name] for rows in columns.values() if name in rows]
        if present:
            table.add_row(present[0].label, *(rows[name].mean if name in rows else "–" for rows in columns.values()))
    return table
