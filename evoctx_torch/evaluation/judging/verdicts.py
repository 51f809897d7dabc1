"""From a judge's replies to a line a question and the numbers of a run (docs/metrics.md, Judged by a model)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evoctx_torch.evaluation.judging.methods import read_scores, read_verdict
from evoctx_torch.evaluation.results import interval
from evoctx_torch.trajectory import Trajectory

EMPTY, FAILED, UNPARSABLE = "empty", "failed", "unparsable"
CALLS = ("llm_calls", "prompt_tokens", "computed_prompt_tokens", "completion_tokens")


def match_line(row: Mapping[str, Any], answers: Sequence[str], record: Trajectory | None) -> dict[str, Any]:
    """One question's line of `judge.jsonl`; `llm_match` is None where the judge said nothing that counts."""
    shared = common(row, record)
    if record is None:
        verdict = EMPTY
    elif record.error or record.answer is None:
        verdict = FAILED
    else:
        verdict = read_verdict(record.answer.text) or UNPARSABLE
    match = {"yes": 1.0, "no": 0.0, EMPTY: 0.0}.get(verdict)
    return {"id": row["id"], "prediction": answers[0], "verdict": verdict, "llm_match": match, **shared}


def match_summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The share of matches among the questions that have a verdict, and how many have none."""
    verdicts = Counter(line["verdict"] for line in lines)
    values = [line["llm_match"] for line in lines if line["llm_match"] is not None]
    return {
        "questions": len(lines), "llm_match": interval(values) if values else None,
        **{name: verdicts[name] for name in ("yes", "no", EMPTY, UNPARSABLE, FAILED)}, **totals(lines),
    }


def score_line(row: Mapping[str, Any], answers: Sequence[str], record: Trajectory | None) -> dict[str, Any]:
    """One question's line: both answers' scores in both orders, their means, and who won. Failed and unparsable ones have no winner."""
    shared, scores = common(row, record), [None, None]
    if record is None:  # an empty answer loses, two tie
        mine, other = map(said_something, answers)
        outcome, means = won(mine, other), (None, None)
    elif record.error or record.answer is None:
        outcome, means = FAILED, (None, None)
    else:
        first, second = (read_scores(call.completion.text) for call in record.calls)
        scores = [first, second and second[::-1]]  # each is (this run's, the other's), whatever the order of asking
        whole = [pair for pair in scores if pair is not None]
        means = tuple(sum(column) / 2 for column in zip(*whole, strict=True)) if len(whole) == 2 else (None, None)
        outcome = UNPARSABLE if None in means else won(*means)
    return {"id": row["id"], "prediction": answers[0], "other": answers[1], "outcome": outcome, "score": means[0], "other_score": means[1],
            "scores": scores, **shared}


def won(mine: float, other: float) -> str:
    """win | tie | loss."""
    return "win" if mine > other else "loss" if mine < other else "tie"


def score_summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The share of wins among the questions with an outcome, and how many have none."""
    outcomes = Counter(line["outcome"] for line in lines)
    decided = [float(line["outcome"] == "win") for line in lines if line["outcome"] in ("win", "tie", "loss")]
    scored = [line for line in lines if line["score"] is not None]
    replies = [pair for line in lines if line["replies"] and line["outcome"] != FAILED for pair in line["scores"]]
    return {
        "questions": len(lines), "win_rate": interval(decided) if decided else None,
        "wins": outcomes["win"], "ties": outcomes["tie"], "losses": outcomes["loss"], UNPARSABLE: outcomes[UNPARSABLE],
        "unparsable_replies": replies.count(None), FAILED: outcomes[FAILED],
        EMPTY: sum(not said_something(line["prediction"]) or not said_something(line["other"]) for line in lines),
        "score": interval([line["score"] for line in scored]) if scored else None,
        "other_score": interval([line["other_score"] for line in scored]) if scored else None,
        "order_matters": sum(won(*line["scores"][0]) != won(*line["scores"][1]) for line in scored), **totals(lines),
    }


def said_something(answer: str) -> bool:
    """Whether there is anything to judge: an empty answer needs no call."""
    return bool(answer.strip())


def common(row: Mapping[str, Any], record: Trajectory | None) -> dict[str, Any]:
    """What both kinds of lines hold: what was asked and replied, and what it cost."""
    calls = record.counts() if record else {}
    return {
        "question": row["question"], "golden_answers": row["golden_answers"],
        "replies": [call.completion.text for call in record.calls] if record else [], **{name: calls.get(name, 0) for name in CALLS},
        "finish_reason": record.finish_reason if record else EMPTY, "error": record.error if record else None,
    }


def totals(lines: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The judge's calls and tokens, all questions together."""
    return {name: sum(line[name] for line in lines) for name in CALLS}
