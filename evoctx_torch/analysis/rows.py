"""Metrics as rows of text: what the terminal's tables and the HTML report both show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evoctx_torch.analysis.paper import data_key, paper_cell, paper_variant

SHARES = {  # in [0, 1], shown in percent
    "em": "EM", "f1": "F1", "acc": "Acc", "multihoprag_acc": "Acc (MultiHop-RAG)", "multihoprag_hit": "Word in common (MultiHop-RAG)",
    "triviaqa_em": "EM (TriviaQA)", "triviaqa_f1": "F1 (TriviaQA)", "musique_em": "EM (MuSiQue)", "musique_f1": "F1 (MuSiQue)",
    "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "bertscore": "BERTScore F",
    "llm_match": "LLM match", "provenance_precision": "Provenance precision", "provenance_recall": "Provenance recall",
    "evidence_recall": "Evidence recall", "think_ratio": "THINK actions",
    "hits@4": "Hits@4", "hits@10": "Hits@10", "mrr@10": "MRR@10", "map@10": "MAP@10",
    "multihoprag_hits@4": "Hits@4 (MultiHop-RAG)", "multihoprag_hits@10": "Hits@10 (MultiHop-RAG)",
    "multihoprag_mrr@10": "MRR@10 (MultiHop-RAG)", "multihoprag_map@10": "MAP@10 (MultiHop-RAG)",
}
COUNTS = {  # a question's mean
    "llm_calls": "Model calls", "retrieval_calls": "Retrieval calls", "retrieved_passages": "Passages retrieved",
    "unique_passages": "Passages, unique", "dropped_passages": "Passages left out of prompts", "rounds": "Rounds", "turns": "Turns",
    "abstraction": "Abstraction of what was recalled", "thoughts_recalled": "Thoughts recalled", "prompt_tokens": "Prompt tokens",
    "computed_prompt_tokens": "Prompt tokens computed", "completion_tokens": "Completion tokens",
}
DATA_SETS = ("triviaqa", "musique", "multihoprag")  # a metric of that prefix is shown on that data set only
LABELS = {**SHARES, **COUNTS, "tokens": "Tokens, all"}


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric in words: mean, 95 % interval and the paper's value, each "" where there is none."""

    name: str
    label: str
    mean: str
    interval: str
    paper: str = ""
    source: str = ""


def metric_rows(metrics: Mapping[str, Any], config: Mapping[str, Any]) -> list[MetricRow]:
    """The metrics of `metrics.json` but other data sets' own: scores first, then costs, then any not known here, by its name."""
    variant, data_name = paper_variant(config), str(config.get("data_name") or "")
    others = tuple(f"{name}_" for name in DATA_SETS if name != data_key(data_name))
    means = {name: entry for name, entry in metrics.items() if isinstance(entry, dict) and "mean" in entry and not name.startswith(others)}
    if "prompt_tokens" in means and "completion_tokens" in means:  # as the papers count; a sum's interval is not the sum's
        means["tokens"] = {"mean": _sum(means["prompt_tokens"]["mean"], means["completion_tokens"]["mean"])}
    order = [name for name in LABELS if name in means] + [name for name in means if name not in LABELS]
    rows = []
    for name in order:
        cell = paper_cell(variant, data_name, name)
        low, high = means[name].get("ci95") or (None, None)
        rows.append(MetricRow(
            name=name,
            label=f"{SHARES[name]}, %" if name in SHARES else LABELS.get(name, name),
            mean=figure(name, means[name]["mean"]) or "–",
            interval=f"{figure(name, low)} – {figure(name, high)}" if figure(name, low) and figure(name, high) else "",
            paper=number(name, cell.value) if cell else "",
            source=cell.source if cell else "",
        ))
    return rows


def figure(name: str, value: float | str | None) -> str:
    """A metric's value as shown: a share in percent, a count as it is, "" for none (null or "nan")."""
    if value is None or not math.isfinite(float(value)):
        return ""
    return number(name, 100 * float(value) if name in SHARES else float(value))


def number(name: str, value: float) -> str:
    """A figure in its shown unit: one decimal for percent, fewer the larger a count is."""
    if name in SHARES:
        return f"{value:.1f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def action_shares(metrics: Mapping[str, Any]) -> tuple[list[str], list[Mapping[str, Any]]]:
    """The actions that occur, RETRIEVE and THINK first, and the entries of `action_share_by_round`."""
    rounds = list(metrics.get("action_share_by_round") or [])
    names = {name: None for entry in rounds for name in entry if name not in ("round", "count")}
    return sorted(names, key=lambda name: (name not in ("RETRIEVE", "THINK"), name)), rounds


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b
