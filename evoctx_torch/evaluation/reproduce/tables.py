"""What a table of a paper consists of, read from the TOML file of that name in `papers/`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from evoctx_torch.errors import UsageError

PAPERS = Path(__file__).parent / "papers"


@dataclass(frozen=True, slots=True)
class Row:
    """One run on every data set: a method with options, and the key of its published values in `analysis.paper`."""

    label: str
    method: str
    options: Mapping[str, Any]
    paper: str | None


@dataclass(frozen=True, slots=True)
class Mean:
    """A published mean over rows of the table."""

    label: str
    rows: tuple[str, ...]
    paper: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A direction that the paper states: on `metric`, every row of `better` is at least as good as every row of `worse`.

    `lower`: less is better (calls, tokens, turns). `data`: the data sets that the paper says it of; empty: all of the table.
    """

    text: str
    metric: str
    better: tuple[str, ...]
    worse: tuple[str, ...]
    lower: bool = False
    data: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table: its rows on its data sets with the paper's settings."""

    name: str
    title: str
    source: str
    notes: str
    data: tuple[str, ...]
    metrics: tuple[str, ...]
    settings: Mapping[str, Any]
    rows: tuple[Row, ...]
    means: tuple[Mean, ...]
    claims: tuple[Claim, ...]


def tables() -> list[str]:
    """The names that `evoctx reproduce` takes."""
    return sorted(path.stem for path in PAPERS.glob("*.toml"))


def read_table(name: str) -> PaperTable:
    """A table by name. Raises `UsageError` that lists the known ones."""
    if name not in tables():
        raise UsageError(f"no table is named {name!r}; expected one of {', '.join(tables())}")
    return parse_table(name, tomllib.loads((PAPERS / f"{name}.toml").read_text(encoding="utf-8")))


def parse_table(name: str, content: Mapping[str, Any]) -> PaperTable:
    """A table from its TOML. Raises `ValueError` when a mean or claim names a row metric or data set that the table lacks."""
    table = PaperTable(
        name=name, title=content["title"], source=content["source"], notes=content.get("notes", ""), data=tuple(content["data"]),
        metrics=tuple(content["metrics"]), settings=content.get("settings", {}),
        rows=tuple(row for entry in content["rows"] for row in expand(entry)),
        means=tuple(Mean(m["label"], tuple(m["rows"]), m["paper"]) for m in content.get("means", ())),
        claims=tuple(Claim(c["text"], c["metric"], tuple(c["better"]), tuple(c["worse"]), c.get("lower", False), tuple(c.get("data", ())))
                     for c in content.get("claims", ())),
    )
    labels = [row.label for row in table.rows]
    named = {row for mean in table.means for row in mean.rows} | {row for claim in table.claims for row in (*claim.better, *claim.worse)}
    if wrong := named - set(labels) - {mean.label for mean in table.means}:
        raise ValueError(f"table {name} has no row {sorted(wrong)[0]!r}; its rows are {labels}")
    if wrong := {claim.metric for claim in table.claims} - set(table.metrics):
        raise ValueError(f"table {name} shows no metric {sorted(wrong)[0]!r}; its metrics are {table.metrics}")
    if wrong := {data for claim in table.claims for data in claim.data} - set(table.data):
        raise ValueError(f"table {name} has no data set {sorted(wrong)[0]!r}; its data sets are {table.data}")
    if len(set(labels)) < len(labels):
        raise ValueError(f"table {name} has two rows of one label: {labels}")
    return table


def expand(entry: Mapping[str, Any]) -> list[Row]:
    """The rows of an entry: one, or one for every combination of its `grid` (the label is a format string of its options)."""
    grid = entry.get("grid", {})
    combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return [
        Row(entry["label"].format(**chosen), entry["method"], {**entry.get("options", {}), **chosen}, entry.get("paper"))
        for chosen in combinations
    ]
