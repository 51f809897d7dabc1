"""How abstract what a run recalled is, against how abstract its questions are (Thought-Retriever, arXiv 2604.12231)."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from evoctx_torch.analysis.runs import read_predictions
from evoctx_torch.data.questions import load_questions
from evoctx_torch.errors import UsageError


def abstraction_by(folder: Path, field: str) -> dict[str, Any]:
    """Mean `abstraction` of a finished run's questions by the value of a field of their metadata (docs/metrics.md).

    `spearman` is the rank correlation with its two-sided p where every value is a number and both sides vary, else None.
    Questions that recalled nothing or lack the field are left out and counted. Raises `UsageError` for a run of a method that
    recalls no thoughts, for questions that are not there any more, and for a field that no question has.
    """
    config, rows = read_predictions(folder)
    if not any("abstraction" in row for row in rows):
        raise UsageError(f"{folder} is a run of {config.get('method')}, which recalls no thoughts; expected one of thought-retriever")
    metadata = {question.id: question.metadata for question in load_questions(config["queries_path"])}
    pairs = [(value, row["abstraction"]) for row in rows
             if (value := metadata.get(row["id"], {}).get(field)) is not None and row.get("abstraction") is not None]
    if not pairs:
        names = sorted({name for fields in metadata.values() for name in fields})
        raise UsageError(f"no question has {field!r} in its metadata; they have {', '.join(names) or 'none'}")
    groups: dict[str, list[float]] = {}
    for value, level in sorted(pairs, key=lambda pair: str(pair[0])):
        groups.setdefault(str(value), []).append(level)
    return {"field": field, "questions": len(pairs), "left_out": len(rows) - len(pairs),
            "values": {value: {"abstraction": fmean(levels), "questions": len(levels)} for value, levels in groups.items()},
            "spearman": _spearman(pairs)}


def _spearman(pairs: list[tuple[Any, float]]) -> dict[str, float] | None:
    numbers = [value for value, _ in pairs if isinstance(value, (int, float)) and not isinstance(value, bool)]
    levels = [level for _, level in pairs]
    if len(numbers) < len(pairs) or len(set(numbers)) < 2 or len(set(levels)) < 2:
        return None
    from scipy.stats import spearmanr
    found = spearmanr(numbers, levels)
    return {"rho": float(found.statistic), "p": float(found.pvalue)}
