"""From trajectories to the numbers of a run: a line a question, and the means with their intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from evoctx_torch.metrics.answers import ANSWER_METRICS, score_answers
from evoctx_torch.metrics.bootstrap import mean_ci
from evoctx_torch.metrics.evidence import evidence_recall, gold_passages
from evoctx_torch.metrics.extract import extract
from evoctx_torch.metrics.multihoprag import acc_from_share
from evoctx_torch.operations import RETRIEVE, THINK
from evoctx_torch.trajectory import Trajectory

COUNTS = ("retrieval_calls", "retrieved_passages", "unique_passages", "llm_calls", "prompt_tokens", "computed_prompt_tokens",
          "completion_tokens", "rounds")
SCORES = (*ANSWER_METRICS, "evidence_recall")
LOPSIDED = 0.95  # a share of one action above this is worth a warning (PAPERS section 1: saturating thresholds)


def prediction_row(record: Trajectory, rule: str) -> dict[str, Any]:
    """The line of `predictions.jsonl`. A failed row has an empty prediction, scores 0 and stays in every mean."""
    question, raw = record.question, record.answer.text if record.answer else ""
    prediction = extract(raw, rule) if record.prediction is None else record.prediction
    reason = record.finish_reason
    if record.answer is not None and not prediction and reason == record.answer.finish_reason:
        reason = "empty"
    recall = evidence_recall((p.id for p in record.passages), gold_passages(question.metadata))
    return {
        "id": question.id, "question": question.text, "golden_answers": list(question.golden_answers),
        "prediction": prediction, "raw_answer": raw,
        **score_answers(prediction, question.golden_answers, failed=not prediction), "evidence_recall": recall,
        "actions": record.actions, **record.counts(), **record.columns, "finish_reason": reason, "error": record.error,
    }


def summarize(rows: Sequence[Mapping[str, Any]], timing: Mapping[str, float], *, measured: bool = True) -> dict[str, Any]:
    """`metrics.json`: means with bootstrap 95 % intervals, failures, action shares; all but `timing` is reproducible.

    `measured`: the actions came from the signals, so that one action everywhere is worth a warning. A metric that no question has (evidence recall without gold passages) is left out.
    """
    summary: dict[str, Any] = {"questions": len(rows), "failures": failures(rows)}
    for name in (*SCORES, *COUNTS):
        values = [row[name] for row in rows if row[name] is not None]
        if values:
            summary[name] = interval(values)
    if rows:
        summary["multihoprag_acc"] = interval([row["multihoprag_hit"] for row in rows], acc_from_share)
    actions = [action for row in rows for action in row["actions"]]
    summary["think_ratio"] = actions.count(THINK) / len(actions) if actions else None
    summary["action_share_by_round"] = action_share(row["actions"] for row in rows)
    summary["warnings"] = warnings(actions) if measured else []
    summary["timing"] = dict(timing)
    return summary


def interval(values: Sequence[float], transform: Callable[[Any], Any] | None = None) -> dict[str, Any]:
    """{"mean", "ci95": [low, high]}; `transform` as in `mean_ci`."""
    mean, low, high = mean_ci(values, transform=transform)
    return {"mean": mean, "ci95": [low, high]}


def failures(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Failed rows by reason, each counted once: no prediction, whatever ended it."""
    return dict(sorted(Counter(row["finish_reason"] for row in rows if row["error"] or not row["prediction"]).items()))


def action_share(actions: Iterable[Sequence[str]]) -> list[dict[str, Any]]:
    """The share of each action by round, over the questions that reached it."""
    columns: list[Counter[str]] = []
    for row in actions:
        for i, action in enumerate(row):
            if i == len(columns):
                columns.append(Counter())
            columns[i][action] += 1
    return [{"round": i, RETRIEVE: c[RETRIEVE] / c.total(), THINK: c[THINK] / c.total(), "count": c.total()} for i, c in enumerate(columns, 1)]


def warnings(actions: Sequence[str]) -> list[str]:
    """Sentences for the reader of the run."""
    said = []
    for action in (RETRIEVE, THINK):
        share = actions.count(action) / len(actions) if actions else 0.0
        if share > LOPSIDED:
            said.append(f"{share:.0%} of all actions are {action}: the thresholds hardly decide anything here. Look at the signals "
                        "in the report, and at --tau-near, --tau-centroid, --tau-tail, --distance and --passage-text.")
    return said
