"""From trajectories to the numbers of a run: a line a question, and the means with their intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from evoctx_torch.evaluation.long_answers import LONG_METRICS
from evoctx_torch.metrics.answers import ANSWER_METRICS, score_answers
from evoctx_torch.metrics.bootstrap import mean_ci
from evoctx_torch.metrics.evidence import evidence_recall, gold_ids, gold_passages
from evoctx_torch.metrics.extract import extract
from evoctx_torch.metrics.multihoprag import MULTIHOPRAG_RANKING, acc_from_share, gold_facts, multihoprag_ranking
from evoctx_torch.metrics.ranking import RETRIEVAL_METRICS, score_ranking
from evoctx_torch.operations import RETRIEVE, THINK, Passage
from evoctx_torch.trajectory import Trajectory

COUNTS = ("retrieval_calls", "retrieved_passages", "unique_passages", "dropped_passages", "llm_calls", "prompt_tokens",
          "computed_prompt_tokens", "completion_tokens", "rounds")
SCORES = (*ANSWER_METRICS, "evidence_recall", *RETRIEVAL_METRICS)
# Columns of some runs, data sets or methods only.
SOMETIMES = (*LONG_METRICS, *MULTIHOPRAG_RANKING, "turns", "invalid_votes", "unparsable_thinking",
             "abstraction", "thoughts_recalled", "provenance_precision", "provenance_recall")
TALLIES = {"thoughts": "thought", "routes": "route"}  # key of a run -> the column whose values it counts
LOPSIDED = 0.95  # a share of one action above this is worth a warning (PAPERS section 1: saturating thresholds)


def prediction_row(record: Trajectory, rule: str) -> dict[str, Any]:
    """The line of `predictions.jsonl`. A failed row has an empty prediction, scores 0 and stays in every mean."""
    question, raw = record.question, record.answer.text if record.answer else ""
    prediction = extract(raw, rule) if record.prediction is None else record.prediction
    reason = record.finish_reason
    if record.answer is not None and not prediction and reason == record.answer.finish_reason:
        reason = "empty"
    return {
        "id": question.id, "question": question.text, "golden_answers": list(question.golden_answers),
        "prediction": prediction, "raw_answer": raw,
        **score_answers(prediction, question.golden_answers, failed=not prediction),
        **retrieval_columns(question.metadata, record.passages),
        "actions": record.actions, **record.counts(), **record.columns, "finish_reason": reason, "error": record.error,
    }


def retrieval_columns(metadata: Mapping[str, Any], passages: Sequence[Passage]) -> dict[str, float | None]:
    """How well `passages`, all that an episode retrieved in their order, hold a question's gold; None where it has none."""
    gold, facts = gold_passages(metadata), gold_facts(metadata)
    ranked = gold_ids([p.id for p in passages], gold)
    columns = {"evidence_recall": evidence_recall(ranked, gold), **score_ranking(ranked, gold)}
    if facts is None:
        return columns
    return columns | (multihoprag_ranking([p.contents for p in passages], facts) or dict.fromkeys(MULTIHOPRAG_RANKING))


def summarize(rows: Sequence[Mapping[str, Any]], timing: Mapping[str, float], *, measured: bool = True) -> dict[str, Any]:
    """`metrics.json`: means with bootstrap 95 % intervals, failures, action shares; all but `timing` is reproducible.

    `measured`: the actions came from the signals, so that one action everywhere is worth a warning. A metric that no
    question has (evidence recall without gold passages) is left out.
    """
    summary: dict[str, Any] = {"questions": len(rows), "failures": failures(rows), "finish_reasons": reasons(rows)}
    columns = {name: [row[name] for row in rows] for name in (*SCORES, *COUNTS)}
    columns |= {name: [row.get(name) for row in rows] for name in SOMETIMES}
    for name, column in columns.items():
        if values := [value for value in column if value is not None]:
            summary[name] = interval(values)
    if rows:
        summary["multihoprag_acc"] = interval([row["multihoprag_hit"] for row in rows], acc_from_share)
    for name, column in TALLIES.items():
        if outcomes := Counter(row[column] for row in rows if column in row):
            summary[name] = dict(sorted(outcomes.items()))
    actions = [action for row in rows for action in row["actions"]]
    summary["think_ratio"] = actions.count(THINK) / len(actions) if actions else None
    rounds = action_counts(row["actions"] for row in rows)
    summary["think_ratio_by_round"], summary["action_share_by_round"] = think_ratios(rounds), action_shares(rounds)
    summary["warnings"] = [*(warnings(actions) if measured else []), *truncation(rows)]
    summary["timing"] = dict(timing)
    return summary


def interval(values: Sequence[float], transform: Callable[[Any], Any] | None = None) -> dict[str, Any]:
    """{"mean", "ci95": [low, high]}; `transform` as in `mean_ci`."""
    mean, low, high = mean_ci(values, transform=transform)
    return {"mean": mean, "ci95": [low, high]}


def failures(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Failed rows by reason, each counted once: no prediction, whatever ended it."""
    return reasons(row for row in rows if row["error"] or not row["prediction"])


def reasons(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Rows by what ended them. A row that had to be asked for its answer has one (`max_turns`, `no_answer`) and is no failure."""
    return dict(sorted(Counter(row["finish_reason"] for row in rows).items()))


def action_counts(actions: Iterable[Sequence[str]]) -> list[Counter[str]]:
    """How often each action was taken, by round, over the questions that reached it."""
    rounds: list[Counter[str]] = []
    for row in actions:
        for i, action in enumerate(row):
            if i == len(rounds):
                rounds.append(Counter())
            rounds[i][action] += 1
    return rounds


def action_shares(rounds: Sequence[Counter[str]]) -> list[dict[str, Any]]:
    """The share of each action in each round: RETRIEVE, THINK, and what else this run has (INVALID, ANSWER), so that they add up to 1."""
    names = dict.fromkeys((RETRIEVE, THINK, *sorted(set().union(*rounds))))
    return [{"round": i, **{name: c[name] / c.total() for name in names}, "count": c.total()} for i, c in enumerate(rounds, 1)]


def think_ratios(rounds: Sequence[Counter[str]]) -> list[dict[str, Any]]:
    """The think ratio had every question stopped after round N at the latest: THINK / all actions of the first N rounds."""
    so_far = accumulate(rounds)
    return [{"round": i, "think_ratio": c[THINK] / c.total(), "count": c.total()} for i, c in enumerate(so_far, 1)]


def truncation(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence where prompts lost passages: what was retrieved counts as retrieved, though a model did not see it."""
    cut = sum(row["dropped_passages"] > 0 for row in rows)
    return [f"{cut} of {len(rows)} questions had prompts longer than the context, and passages were left out of them (`dropped_passages`): "
            "try a smaller --top-k, a larger --context-length, or an index of chunks (`evoctx index --chunk-words`)."] if cut else []


def warnings(actions: Sequence[str]) -> list[str]:
    """Sentences for the reader of a run whose actions came from the signals."""
    said = []
    for action in (RETRIEVE, THINK):
        share = actions.count(action) / len(actions) if actions else 0.0
        if share > LOPSIDED:
            said.append(f"{share:.0%} of all actions are {action}: the thresholds hardly decide anything here. Look at the signals "
                        "in the report, and at --tau-near, --tau-centroid, --tau-tail, --distance and --passage-text.")
    return said
