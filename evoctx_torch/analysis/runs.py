"""A finished run as its folder holds it: the only input of tables, reports and narration."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoctx_torch.errors import UsageError

COMMON = frozenset(("round", "trace", "probe", "boundary", "signals", "score", "action", "query", "passages", "subquery", "votes"))


@dataclass(frozen=True, slots=True)
class Run:
    """The four files of a run's folder; predictions and trajectories stand in the same order."""

    config: dict[str, Any]
    metrics: dict[str, Any]
    predictions: list[dict[str, Any]]
    trajectories: list[dict[str, Any]]


def read_run(folder: Path) -> Run:
    """Read a finished run. Raises `UsageError` for a folder that lacks a file, a broken line, or rows that do not match."""
    _require(folder, "config.json", "metrics.json", "predictions.jsonl", "trajectories.jsonl")
    run = Run(
        config=_parse((folder / "config.json").read_text(encoding="utf-8"), folder / "config.json"),
        metrics=_parse((folder / "metrics.json").read_text(encoding="utf-8"), folder / "metrics.json"),
        predictions=list(_lines(folder / "predictions.jsonl")),
        trajectories=list(_lines(folder / "trajectories.jsonl")),
    )
    if [row["id"] for row in run.predictions] != [row["id"] for row in run.trajectories]:
        raise UsageError(f"{folder}: predictions.jsonl and trajectories.jsonl list different questions; repeat the run's command")
    return run


def read_predictions(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The configuration and the predictions of a finished run; trajectories, which may be large, stay unread.

    Raises `UsageError` for a folder that lacks a file or holds a line that is no question's.
    """
    _require(folder, "config.json", "metrics.json", "predictions.jsonl")
    rows = list(_lines(folder / "predictions.jsonl"))
    for number, row in enumerate(rows, 1):
        if missing := {"id", "question", "golden_answers", "prediction"} - set(row):
            raise UsageError(f"{folder / 'predictions.jsonl'}, line {number}: no field {sorted(missing)[0]!r}; repeat the run's command")
    return _parse((folder / "config.json").read_text(encoding="utf-8"), folder / "config.json"), rows


def judged(folder: Path) -> dict[str, dict[str, Any]]:
    """The column `llm_match` that `evoctx judge` added to a run, by question id; empty where it was not judged."""
    path = folder / "judge.jsonl"
    return {row["id"]: {"llm_match": row["llm_match"]} for row in _lines(path)} if path.is_file() else {}


def shown_contents(run: Run, trajectories: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The contents of every passage in `trajectories`, by id, read from the run's corpus in one pass that ends when all are found.

    Empty where the corpus is not recorded or not on this machine: readers then show titles.
    """
    shown = {p["id"]: p for t in trajectories for part in (t["bootstrap"], *t["rounds"]) for p in part["passages"]}
    found = {id: p["thought"] for id, p in shown.items() if "thought" in p}  # the memory holds these, and the trajectory tells them
    wanted = shown.keys() - found.keys()
    corpus = run.config.get("corpus_path")
    if not wanted or not corpus or not Path(corpus).is_file():
        return found
    for row in _lines(Path(corpus)):
        if len(found) == len(shown):
            break
        if (passage := str(row["id"])) in wanted:
            found[passage] = row["contents"]
    return found


def dropped_passages(trajectory: Mapping[str, Any]) -> list[str]:
    """The ids of the passages that truncation removed from any prompt, each once, oldest first."""
    return list(dict.fromkeys([p for call in trajectory["calls"] for p in call["dropped"]] + trajectory["dropped"]))


def notes(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What only some methods record in a round: the keys beyond the common ones, where they hold something."""
    return {key: value for key, value in entry.items() if key not in COMMON and value not in ("", None, [], {})}


def _require(folder: Path, *names: str) -> None:
    for name in names:
        if not (folder / name).is_file():
            raise UsageError(f"{folder} has no {name}: expected the folder of a finished run (`evoctx eval … --out {folder}`)")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="\n") as file:  # a text may hold U+2028: lines end at \n only
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _parse(line, f"{path}, line {number}")


def _parse(text: str, where: Path | str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=lambda name: str(float(name)))  # NaN -> "nan", as trajectories write it
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}: expected JSON, got {text[:40]!r} ({error.msg})") from None
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected a JSON object, got {text[:40]!r}")
    return value
