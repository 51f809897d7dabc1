"""`report.html`: one self-contained page of a finished run, from its folder's files only.

The page is byte-reproducible, so it leaves out what depends on company and machine: `timing` and computed prompt tokens.
Texts of models and corpora are hostile until shown otherwise: Jinja2 escapes them, the embedded JSON holds no markup,
the script writes them as text nodes, and a content security policy lets only that script run and nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evoctx_torch.analysis.reason import SIGNALS, reason, rule_of, signal_name, thresholds
from evoctx_torch.analysis.rows import action_shares, metric_rows
from evoctx_torch.analysis.runs import Run, dropped_passages, notes, read_run, shown_contents
from evoctx_torch.operations import NoveltyRule

FULL = 1000  # trajectories embedded with all their rounds; later questions have their outcome only
HEADLINES = ("em", "f1", "acc", "multihoprag_acc", "evidence_recall", "retrieval_calls", "tokens")
NOT_REPRODUCIBLE = ("computed_prompt_tokens",)
OUTCOMES = ("right", "wrong", "failed")


def write_report(run_folder: Path) -> Path:
    """Write `report.html` into the folder of a finished run and return its path. Raises `UsageError` as `read_run` does."""
    run = read_run(run_folder)
    target = run_folder / "report.html"
    partial = target.with_suffix(".html.partial")
    partial.write_bytes(render(run).encode("utf-8", errors="replace"))  # a lone surrogate of a model's output becomes "?"
    os.replace(partial, target)
    return target


def render(run: Run, full: int = FULL) -> str:
    """The page as text; trajectories after the first `full` are listed with their outcome only."""
    rule = rule_of(run.config)
    contents = shown_contents(run, run.trajectories[:full])
    metrics = {name: value for name, value in run.metrics.items() if name not in NOT_REPRODUCIBLE}
    rows = metric_rows(metrics, run.config)
    outcomes = [outcome(row) for row in run.predictions]
    actions, by_round = action_shares(metrics)
    script = files("evoctx_torch.analysis").joinpath("page.js").read_text(encoding="utf-8")
    data = {
        "rows": [_row(row, result) for row, result in zip(run.predictions, outcomes, strict=True)],
        "trajectories": [compact(trajectory, rule) for trajectory in run.trajectories[:full]],
        "contents": contents,
        "thresholds": thresholds(rule) if rule else {},
        "signals": {name: signal_name(name, rule) for name in SIGNALS},
    }
    environment = Environment(loader=PackageLoader("evoctx_torch", "analysis"), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}  # ASCII only, so U+2028 too
    return environment.get_template("page.html.j2").render(
        config=run.config, questions=metrics["questions"],
        rows=rows, headlines=[row for name in HEADLINES for row in rows if row.name == name],
        sources=list(dict.fromkeys(row.source for row in rows if row.source)),
        failures=metrics["failures"], warnings=metrics.get("warnings", []), think_ratio=metrics.get("think_ratio"),
        actions=actions, by_round=by_round, taken=sorted({a for row in run.predictions for a in row["actions"]}),
        plots=_plots(run, rule), predictions=list(zip(run.predictions, outcomes, strict=True)),
        outcomes=[(name, Counter(outcomes)[name]) for name in OUTCOMES], full=full, data=data,
        titles_only=not contents and any(row["retrieved_passages"] for row in run.predictions),
        script=Markup(script), script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=Markup(files("evoctx_torch.analysis").joinpath("page.css").read_text(encoding="utf-8")),
    )


def outcome(row: Mapping[str, Any]) -> str:
    """failed (an error, or no prediction: what `metrics.json` counts as failures), else right (EM 1) or wrong."""
    if row["error"] is not None or not row["prediction"]:
        return "failed"
    return "right" if row["em"] == 1 else "wrong"


def compact(trajectory: Mapping[str, Any], rule: NoveltyRule | None) -> dict[str, Any]:
    """A trajectory as the page shows it: boundaries as their size, the probe only where it is not the trace."""
    rounds = [
        {
            **{key: entry[key] for key in ("trace", "signals", "score", "action", "query", "passages", "subquery")},
            "probe": entry["probe"] if entry["probe"] != entry["trace"] else "",
            "boundary": len(entry["boundary"]),
            "reason": reason(entry, rule),
            "notes": notes(entry),
        }
        for entry in trajectory["rounds"]
    ]
    return {
        "bootstrap": trajectory["bootstrap"], "rounds": rounds, "dropped": dropped_passages(trajectory),
        "roles": dict(Counter(call["role"] for call in trajectory["calls"])),
    }


def _row(row: Mapping[str, Any], result: str) -> dict[str, Any]:
    return {**{name: value for name, value in row.items() if name not in NOT_REPRODUCIBLE}, "outcome": result}


def _plots(run: Run, rule: NoveltyRule | None) -> list[Any]:
    """The plots, or none where the extra is not installed (the page then says which command brings them)."""
    if find_spec("matplotlib") is None:
        return []
    from evoctx_torch.analysis.plots import plots

    return plots(run.trajectories, run.predictions, run.metrics, rule)
