"""What the papers report, in one place: shown beside a user's run for comparison, never asserted.

Scores are in percent, counts as they are. The papers' models are far larger than the embedded default
(EvoCtx: Llama-3.1-8B-Instruct with Qwen3-4B-Thinking as decider; ACE: Llama-3.1-8B-Instruct; modules: Qwen2.5-7B, PPO).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EVOCTX = "EvoCtx, arXiv 2601.08747"
ACE = "ACE, arXiv 2601.08747 v1"
MODULES = "arXiv 2603.12396"
ANY_DATA = "*"  # the paper does not name the set of its questions


@dataclass(frozen=True, slots=True)
class PaperValue:
    """A published cell: `value` in percent for scores, in units for counts; `source` is its citation."""

    value: float
    source: str


# MultiHop-RAG's "Acc" is that data set's own 1 / (3 - 2p), not answer inclusion: it stands beside `multihoprag_acc`.
_SCORES = ("em", "f1", "acc")
_MULTIHOPRAG_SCORES = ("em", "f1", "multihoprag_acc")
_EFFICIENCY = ("retrieval_calls", "unique_passages", "tokens")

# (method, data set) -> (source, metrics, values). "tokens" is all tokens of a question; the papers do not split them.
_ROWS: tuple[tuple[str, str, str, tuple[str, ...], tuple[float, ...]], ...] = (
    ("evoctx", "2wikimultihopqa", EVOCTX, _SCORES, (46.2, 50.7, 53.6)),
    ("evoctx", "hotpotqa", EVOCTX, _SCORES, (49.1, 63.0, 65.4)),
    ("evoctx", "triviaqa", EVOCTX, _SCORES, (64.3, 72.3, 69.8)),
    ("evoctx", "multihoprag", EVOCTX, _MULTIHOPRAG_SCORES, (74.6, 74.6, 66.3)),
    ("iterdrag", "multihoprag", EVOCTX, _MULTIHOPRAG_SCORES, (59.8, 60.8, 58.4)),
    ("naive-rag", "multihoprag", EVOCTX, _MULTIHOPRAG_SCORES, (36.7, 39.2, 45.6)),
    ("closed-book", "2wikimultihopqa", EVOCTX, ("em",), (0.0,)),
    ("closed-book", "hotpotqa", EVOCTX, ("em",), (0.0,)),
    ("evoctx without retrieve", "multihoprag", EVOCTX, _MULTIHOPRAG_SCORES, (62.9, 64.2, 58.4)),
    ("evoctx without think", "multihoprag", EVOCTX, _MULTIHOPRAG_SCORES, (71.1, 71.6, 64.0)),
    ("evoctx without trace", "multihoprag", EVOCTX, _MULTIHOPRAG_SCORES, (63.7, 64.1, 58.4)),
    ("evoctx without boundary", "multihoprag", EVOCTX, _MULTIHOPRAG_SCORES, (68.4, 68.8, 61.8)),
    ("evoctx near", "multihoprag", f"{EVOCTX}, 100 questions", ("em",), (66.0,)),
    ("evoctx centroid", "multihoprag", f"{EVOCTX}, 100 questions", ("em",), (67.0,)),
    ("evoctx tail", "multihoprag", f"{EVOCTX}, 100 questions", ("em",), (68.0,)),
    ("evoctx near+tail", "multihoprag", f"{EVOCTX}, 100 questions", ("em",), (71.0,)),
    ("evoctx", "multihoprag", EVOCTX, _EFFICIENCY, (3.2, 12.8, 27_500)),
    ("iterdrag", "multihoprag", EVOCTX, _EFFICIENCY, (8.0, 17.6, 18_200)),
    ("naive-rag", "multihoprag", EVOCTX, _EFFICIENCY, (1.0, 5.0, 1_100)),
    ("evoctx hybrid", "multihoprag", f"{EVOCTX}, 100 questions", ("em",), (72.0,)),
    ("evoctx hybrid", "hotpotqa", EVOCTX, ("em",), (49.0,)),
    ("evoctx k = 1", "multihoprag", f"{EVOCTX}, mean over T", ("em",), (58.7,)),
    ("evoctx k = 5", "multihoprag", f"{EVOCTX}, mean over T", ("em",), (67.1,)),
    ("evoctx T = 8", "multihoprag", f"{EVOCTX}, mean over k", ("em",), (66.2,)),
    ("ace", "hotpotqa", f"{ACE}, N = 3", ("acc",), (62.8,)),
    ("ace", "multihoprag", ACE, ("multihoprag_acc", "tokens"), (57.9, 10_653)),
    ("ace N = 2", "multihoprag", ACE, ("think_ratio",), (50.0,)),
    ("ace N = 3", "hotpotqa", ACE, ("acc",), (62.8,)),
    ("ace N = 4", "hotpotqa", ACE, ("acc",), (61.3,)),
    ("ace N = 5", "multihoprag", f"{ACE}, think ratio over 73", ("multihoprag_acc", "think_ratio", "tokens"), (57.9, 73.0, 10_653)),
    ("naive-rag", "hotpotqa", ACE, ("acc",), (38.9,)),
    ("ace: naive-rag", "hotpotqa", ACE, ("acc",), (38.9,)),
    ("ace: naive-rag", "multihoprag", ACE, ("multihoprag_acc",), (49.2,)),
    ("ace: iterdrag", "multihoprag", ACE, ("tokens",), (18_196,)),
    *((f"search-r1{name}", ANY_DATA, f"{MODULES}, 500 questions", ("em", "llm_match", "turns"), values) for name, values in (
        ("", (46.4, 53.8, 2.392)), (" contextualize", (49.0, 57.4, 2.142)), (" dedup", (47.8, 56.0, 2.498)), (" hybrid", (48.0, 56.8, 2.154)))),
)
# An evoctx run with one of these options is an ablation of the paper, not its main row.
_ABLATIONS = {
    ("actions", "think-only"): "without retrieve",
    ("actions", "retrieve-only"): "without think",
    ("actions", "model"): "without boundary",
    ("trace", False): "without trace",
    ("signals", "near"): "near",
    ("signals", "centroid"): "centroid",
    ("signals", "tail"): "tail",
    ("signals", "near+tail"): "near+tail",
    ("signals", "near+centroid"): "near+centroid",
    ("signals", "centroid+tail"): "centroid+tail",
}
_CELLS = {
    (method, data, metric): PaperValue(value, source)
    for method, data, source, metrics, values in _ROWS
    for metric, value in zip(metrics, values, strict=True)
}


def paper_cell(method: str, data_name: str, metric: str) -> PaperValue | None:
    """The published value of (method or variant, data set, metric), or None where the papers have no such cell.

    Data set names are compared by `data_key` ("MultiHop-RAG" is "multihoprag").
    """
    return _CELLS.get((method, data_key(data_name), metric)) or _CELLS.get((method, ANY_DATA, metric))


def data_key(data_name: str) -> str:
    """A data set's name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", data_name.lower())


def paper_variant(config: Mapping[str, Any]) -> str:
    """The row of the papers that a run's `config.json` corresponds to: its method, or one ablation of it.

    Several ablations at once have no row: the name returned then has no cell.
    """
    method = str(config["method"])
    if method == "search-r1":
        modules = {(False, False): "", (True, False): " dedup", (False, True): " contextualize", (True, True): " hybrid"}
        return method + modules[bool(config.get("dedup")), bool(config.get("contextualize"))]
    if method != "evoctx":
        return method
    return " ".join([method, *(name for (option, value), name in _ABLATIONS.items() if config.get(option) == value)])
