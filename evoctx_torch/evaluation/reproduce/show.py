"""A reproduced table as rows of text (terminal, Markdown) and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evoctx_torch.analysis.paper import paper_cell
from evoctx_torch.analysis.rows import LABELS, SHARES, figure, number
from evoctx_torch.evaluation.reproduce.run import Cells
from evoctx_torch.evaluation.reproduce.tables import PaperTable
from evoctx_torch.evaluation.reproduce.verdict import Verdict, value
from evoctx_torch.paths import replace

WORDS = {True: "as in the paper", False: "not as in the paper", None: "not measured"}
TIE = "a tie"


def headings(table: PaperTable) -> list[str]:
    """The columns of `cell_rows`."""
    return ["", *(f"{LABELS.get(metric, metric)}{', %' if metric in SHARES else ''}" for metric in table.metrics)]


def cell_rows(table: PaperTable, found: Cells) -> list[list[str]]:
    """One data set's rows: the label, then `measured (paper)` for every metric; – where there is no such value."""
    named = [(row.label, row.paper) for row in table.rows] + [(mean.label, mean.paper) for mean in table.means]
    rows = []
    for label, key in named:
        cells = [label]
        for metric in table.metrics:
            published = paper_cell(key, found.data, metric) if key else None
            cells.append((figure(metric, value(table, found, label, metric)) or "–") + (f" ({number(metric, published.value)})" if published else ""))
        rows.append(cells)
    return rows


def verdict_rows(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Data set, claim, verdict, and by how much the closest pair differs, with the p of the paired test."""
    rows = []
    for verdict in verdicts:
        how = ""
        if verdict.pair and verdict.difference is not None:
            unit = 100 if verdict.claim.metric in SHARES else 1
            how = f"{verdict.pair[0]} against {verdict.pair[1]}: {unit * verdict.difference:+.1f}"
            how += f", p = {verdict.p:.2f}" if verdict.p is not None else ""
        rows.append([verdict.data, verdict.claim.text, TIE if verdict.difference == 0 else WORDS[verdict.holds], how])
    return rows


def markdown(table: PaperTable, cells: Sequence[Cells], verdicts: Sequence[Verdict], settings: str) -> str:
    """The table as a page: what was run, every data set's cells with the paper's in brackets, the claims."""
    parts = [f"# {table.title}", f"Source: {table.source}. Values in brackets are the paper's.", settings, table.notes]
    for found in cells:
        parts.append(f"## {found.data}")
        parts.append(grid(headings(table), cell_rows(table, found)))
    if verdicts:
        parts += ["## Claims", grid(["data", "claim", "here", "closest pair"], verdict_rows(verdicts))]
    return "\n\n".join(part for part in parts if part) + "\n"


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def write(out: Path, table: PaperTable, cells: Sequence[Cells], verdicts: Sequence[Verdict], settings: str) -> None:
    """`table.md` and `table.json` in the folder of the reproduction."""
    replace(out / "table.md", markdown(table, cells, verdicts, settings))
    content: dict[str, Any] = {"table": table.name, "source": table.source, "settings": settings, "cells": {}, "claims": [asdict(v) for v in verdicts]}
    for found in cells:
        content["cells"][found.data] = {
            label: {metric: {"measured": value(table, found, label, metric), "paper": published(key, found.data, metric)} for metric in table.metrics}
            for label, key in [(row.label, row.paper) for row in table.rows] + [(mean.label, mean.paper) for mean in table.means]
        }
    replace(out / "table.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def published(key: str | None, data: str, metric: str) -> float | None:
    """The paper's value in the unit of `metrics.json`: shares in [0, 1]."""
    cell = paper_cell(key, data, metric) if key else None
    return None if cell is None else cell.value / 100 if metric in SHARES else cell.value
