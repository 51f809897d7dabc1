"""Why a round took its action, in one sentence: for a terminal and for the report alike."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from evoctx_torch.methods.evoctx import EvoCtxOptions
from evoctx_torch.operations import RETRIEVE, THINK, NoveltyRule

SIGNALS = ("near", "centroid", "tail")


def rule_of(config: Mapping[str, Any]) -> NoveltyRule | None:
    """The rule a run decided by, from its `config.json`; None for a method that measures no distances."""
    if "tau_near" not in config:
        return None
    return EvoCtxOptions(**{f.name: config[f.name] for f in dataclasses.fields(EvoCtxOptions) if f.name in config}).rule()


def thresholds(rule: NoveltyRule) -> dict[str, float]:
    """The threshold of each signal."""
    return {"near": rule.tau_near, "centroid": rule.tau_centroid, "tail": rule.tau_tail}


def signal_name(signal: str, rule: NoveltyRule | None = None) -> str:
    """A signal as a reader names it; the tail by its percentile."""
    quantile = rule.quantile if rule else NoveltyRule().quantile
    return {"near": "nearest", "centroid": "centroid", "tail": f"{100 * quantile:g}th-percentile"}[signal]


def reason(round: Mapping[str, Any], rule: NoveltyRule | None = None) -> str:
    """The sentence for one round of `trajectories.jsonl`; "" where the method recorded nothing to explain it by."""
    if votes := round.get("votes"):
        return "the votes were " + ", ".join(f"{count} {vote}" for vote, count in votes.items()) + f", so {round['action']}"
    if not round.get("signals"):
        return ""
    score = float(round["score"])
    if math.isnan(score):
        return f"the vectors held NaN or infinity, so nothing could be measured and the round fell back to {round['action']}"
    ruled = RETRIEVE if score >= 1 else THINK
    sentence = _measured(round["signals"], score, ruled, rule)
    if round["action"] and round["action"] != ruled:
        return f"{sentence} would mean {ruled}, but the run's options overruled it: {round['action']}"
    return f"{sentence}, so {'the trace left its boundary' if ruled == RETRIEVE else 'the trace stayed inside its boundary'}: {ruled}"


def _measured(signals: Mapping[str, Any], score: float, ruled: str, rule: NoveltyRule | None) -> str:
    """What was measured and tipped the decision. The recorded score is the authority; thresholds explain it."""
    if math.isinf(score):
        return "the boundary was empty"
    if rule is not None:
        tau = thresholds(rule)
        value = {name: float(signals[name]) for name in rule.signals}
        near_and_centroid = [name for name in ("near", "centroid") if name in value]
        groups = [group for group in (near_and_centroid, ["tail"] if "tail" in value else []) if group]
        beyond = [group for group in groups if all(value[name] >= tau[name] for name in group)]
        if bool(beyond) == (ruled == RETRIEVE):
            told = [n for g in beyond for n in g] if beyond else [n for g in groups for n in g if value[n] < tau[n]]
            return " and ".join(_against(signal_name(name, rule), value[name], tau[name]) for name in told)
    return f"the score {score:.4g} {'reached' if ruled == RETRIEVE else 'stayed below'} 1"


def _against(name: str, value: float, threshold: float) -> str:
    """A distance beside its threshold, with as many decimals as tell them apart."""
    digits = next((d for d in range(2, 7) if f"{value:.{d}f}" != f"{threshold:.{d}f}"), 2)
    verb = "stayed below" if value < threshold else "passed" if value > threshold else "reached"
    return f"the {name} distance {value:.{digits}f} {verb} {threshold:.{digits}f}"
