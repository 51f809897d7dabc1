"""EvoCtx (arXiv 2601.08747, later version): a trace's distance to the evidence boundary decides retrieve or think.

The decision model writes a reasoning trace; its action word is ignored. The trace is measured against the boundary
{question, sub-queries, passages}; novelty score = max(min(near/τ_near, centroid/τ_centroid), tail/τ_tail), and
RETRIEVE iff score >= 1. RETRIEVE brings passages of new documents, THINK one new sub-query. PAPERS section 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from evoctx_torch.errors import UsageError
from evoctx_torch.evidence import BoundaryCaps
from evoctx_torch.methods.base import Episode, Method, Steps
from evoctx_torch.methods.replies import UNPARSABLE, action_word, one_line, reasoning
from evoctx_torch.operations import RETRIEVE, THINK, Decide, NoveltyRule
from evoctx_torch.options import option
from evoctx_torch.trajectory import Round

SIGNALS = {
    "hybrid": ("near", "centroid", "tail"),
    **{"+".join(names): names for names in (("near",), ("centroid",), ("tail",), ("near", "centroid"), ("near", "tail"), ("centroid", "tail"))},
}


@dataclass(frozen=True, slots=True)
class EvoCtxOptions:
    """Options of EvoCtx. What the paper leaves open is an option, with the default that PAPERS section 1 names."""

    rounds: int = option(8, "decisions before the answer, T", unit="rounds", paper="8", low=0)
    top_k: int = option(5, "passages a retrieval brings, k", unit="passages", paper="5", low=1)
    tau_near: float = option(0.3, "threshold of the nearest distance", unit="distance", paper="0.3", above=0)
    tau_centroid: float = option(0.2, "threshold of the distance to the boundary's mean", unit="distance", paper="0.2", above=0)
    tau_tail: float = option(0.4, "threshold of the tail distance", unit="distance", paper="0.4", above=0)
    tail_quantile: float = option(0.9, "quantile of the distances that is the tail", paper="0.9", low=0, high=1)
    interpolation: str = option("linear", "how the quantile interpolates", paper="open", choices=("linear", "lower", "higher", "nearest", "midpoint"))
    distance: str = option("cosine", "cosine: 1 - cos; half-cosine: half of that", paper="open", choices=("cosine", "half-cosine"))
    signals: str = option("hybrid", "signals that decide (ablation)", paper="hybrid", choices=tuple(SIGNALS))
    cap_passages: int = option(32, "most recent passages in the boundary", unit="passages", paper="open", low=0)
    cap_subqueries: int = option(8, "most recent sub-queries in the boundary", unit="sub-queries", paper="open", low=0)
    boundary_dedup: str = option("normalized", "which texts of a boundary are the same", paper="open", choices=("normalized", "exact", "none"))
    passage_text: str = option("contents", "what of a passage is measured", paper="open", choices=("contents", "text", "title"))
    trace_window: str = option("head", "what of a long trace is embedded", paper="open", choices=("head", "tail", "mean"))
    refill: bool = option(True, "a RETRIEVE goes deeper until it has k new passages", paper="open")
    trace: bool = option(True, "ask for a trace; without it the newest sub-query is measured (ablation)", paper="on")
    actions: str = option("signals", "who chooses: the signals, the model's own action word, or always the same (ablations)", paper="signals",
                          choices=("signals", "model", "retrieve-only", "think-only"))

    def check(self) -> None:
        """Without a trace there is no reply, and so no action word to obey."""
        if self.actions == "model" and not self.trace:
            raise UsageError("--actions model obeys the word in the decider's reply, and --no-trace asks for none: leave one of them out")

    def rule(self) -> NoveltyRule:
        """How distances become an action."""
        return NoveltyRule(self.tau_near, self.tau_centroid, self.tau_tail, self.tail_quantile, self.interpolation, self.distance,
                           SIGNALS[self.signals], self.trace_window)

    def caps(self) -> BoundaryCaps:
        """What the boundary holds."""
        return BoundaryCaps(self.cap_passages, self.cap_subqueries, self.boundary_dedup, self.passage_text)


def evoctx(episode: Episode, options: EvoCtxOptions) -> Steps:
    """Retrieve with Q; T times: trace, boundary, signals, RETRIEVE or THINK; answer from Q, all passages, all sub-queries."""
    evidence, record, rule, caps = episode.evidence, episode.record, options.rule(), options.caps()
    yield from episode.bootstrap(evidence.question, options.top_k)
    for _ in range(options.rounds):
        reply = (yield episode.generate("decider", "decide")).text if options.trace else ""
        trace, boundary = reasoning(reply), evidence.boundary(caps)
        decision = yield Decide(trace or evidence.newest_subquery(), boundary, rule)
        step = Round(trace, decision.probe, boundary, decision, chosen(options.actions, decision.action, reply))
        if options.trace:
            step.notes["model_action"] = action_word(reply)
        record.rounds.append(step)
        if step.action == RETRIEVE:
            step.query = evidence.search_query()
            step.passages = yield from episode.gather(step.query, options.top_k, evidence.doc_ids, options.refill)
        else:
            step.subquery = one_line((yield episode.generate("generator", "ask")).text, "sub-question")
            evidence.add_subquery(step.subquery)
    return (yield episode.generate("generator", "answer"))


def chosen(actions: str, measured: str, reply: str) -> str:
    """The action of a round. A model whose word is obeyed but cannot be read retrieves, as undecided votes do in ACE."""
    if actions == "model":
        word = action_word(reply)
        return RETRIEVE if word == UNPARSABLE else word
    return {"signals": measured, "retrieve-only": RETRIEVE, "think-only": THINK}[actions]


EVOCTX = Method("evoctx", "novelty against the evidence boundary decides retrieve or think", "arXiv 2601.08747 (later version)",
                EvoCtxOptions, evoctx, roles=("decider", "generator"), instructions=("decide", "ask", "answer"), decides=True)
