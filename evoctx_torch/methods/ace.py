"""ACE, Agentic Context Evolution (arXiv 2601.08747, earlier version): k agents vote in each round to retrieve or to think.

The state M begins as {Q}. RETRIEVE adds passages to it, THINK one sub-query with its answer; after N rounds the answer is
given from M and Q. PAPERS section 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from evoctx_torch.errors import UsageError
from evoctx_torch.evidence import Evidence
from evoctx_torch.methods.base import Asking, Episode, Method, Steps
from evoctx_torch.methods.personas import assign, speaking
from evoctx_torch.methods.replies import action_word, one_line, subquery_pair
from evoctx_torch.operations import RETRIEVE, THINK, Generate, Score
from evoctx_torch.options import option
from evoctx_torch.trajectory import Round

ACTIONS = RETRIEVE, THINK


@dataclass(frozen=True)  # without slots: the personas are read once, where the options are checked
class AceOptions:
    """Options of ACE. What the paper leaves open is an option, with the default that PAPERS section 2 names."""

    rounds: int = option(3, "rounds before the answer, N; 1 is naive RAG", unit="rounds", paper="3 on HotpotQA and 2Wiki, 5 on MultiHop-RAG", low=0)
    agents: int = option(5, "agents that vote in a round, k", unit="agents", paper="5", low=1, high=64)
    top_k: int = option(5, "passages a retrieval brings", unit="passages", paper="5", low=1)
    vote: str = option("sample", "sample: every agent writes its vote; score: one forward pass scores both words, and votes are drawn",
                       paper="open", choices=("sample", "score"))
    first_action: str = option("retrieve", "the first round retrieves without a vote, or votes like the others", paper="open", choices=("retrieve", "vote"))
    search_query: str = option("newest", "query of a RETRIEVE: question and newest sub-query, or written by the generator", paper="open",
                               choices=("newest", "generated"))
    personas: str | None = option(None, "file with the agents' system prompts, one a line or a JSON list, from the first again if fewer", paper="open", file=True)
    calibrate: bool = option(False, "scored votes: take off what the model prefers without content", paper="open")

    @cached_property
    def systems(self) -> Counter[str | None]:
        """System prompt -> how many agents have it; None is the role's own."""
        return assign(self.agents, self.personas)

    def check(self) -> None:
        """Personas must be readable, and only scores can be calibrated."""
        if self.calibrate and self.vote != "score":
            raise UsageError("--calibrate is for --vote score: add that, or leave it out")
        _ = self.systems


def ace(episode: Episode, options: AceOptions) -> Steps:
    """N times: vote (but for the first round), then retrieve or think; answer from Q and M."""
    evidence, record = episode.evidence, episode.record
    record.columns |= {"invalid_votes": 0, "unparsable_thinking": 0}
    for number in range(options.rounds):
        step = Round()
        record.rounds.append(step)
        step.action = (yield from vote(episode, options, step)) if number or options.first_action == "vote" else RETRIEVE
        if step.action == RETRIEVE:
            step.query = yield from query(episode, options)
            # M is a set: a passage that is in it already is not added again. The cap itself is never reached.
            step.passages = yield from episode.gather(step.query, options.top_k, cap=options.rounds * options.top_k)
        else:
            step.subquery, step.notes["subanswer"] = subquery_pair((yield episode.generate("generator", "ace_think")).text)
            evidence.add_subquery(step.subquery, step.notes["subanswer"])
            record.columns["unparsable_thinking"] += not step.subquery
    return (yield episode.generate("generator", "answer"))


def vote(episode: Episode, options: AceOptions, step: Round) -> Asking[str]:
    """The agents' votes, all asked for together, and their majority: RETRIEVE at a tie and where no vote is valid."""
    asked = episode.generate("decider", "ace_vote")
    if options.vote == "sample":
        replies = yield tuple(replace(asked, prompt=speaking(asked.prompt, system)) for system in options.systems.elements())
        counts = Counter(action_word(reply.text) for reply in replies)
    else:
        free = episode.generate("decider", "ace_vote", Evidence("N/A")).prompt if options.calibrate else None
        scored = yield tuple(
            Score("decider", speaking(asked.prompt, system), ACTIONS, agents, free and speaking(free, system))
            for system, agents in options.systems.items()
        )
        counts = Counter({action: sum(s.counts[i] for s in scored) for i, action in enumerate(ACTIONS)})
        step.notes["scores"] = [{"agents": sum(s.counts), "probabilities": dict(zip(ACTIONS, s.probabilities, strict=True)),
                                 "majority": dict(zip(ACTIONS, s.majority, strict=False))} for s in scored]
    retrieve, think = (counts[action] for action in ACTIONS)
    step.notes["votes"] = {RETRIEVE: retrieve, THINK: think, "invalid": options.agents - retrieve - think}
    episode.record.columns["invalid_votes"] += options.agents - retrieve - think
    return THINK if think > retrieve else RETRIEVE


def query(episode: Episode, options: AceOptions) -> Asking[str]:
    """What a RETRIEVE searches for. Where M holds nothing yet, or the generator writes nothing, it is question and newest sub-query."""
    written = ""
    if options.search_query == "generated" and episode.evidence.items:
        written = one_line((yield episode.generate("generator", "ace_query")).text, "query")
    return written or " ".join(dict.fromkeys((episode.question.text, episode.evidence.newest_subquery())))


def check_roles(options: AceOptions, roles: Mapping[str, Any]) -> None:
    """Votes must be able to differ, and scores need the logits."""
    decider = roles["decider"]
    if options.vote == "score" and decider.backend == "openai":
        raise UsageError("--vote score needs the model's logits, which --backend openai does not give: use --vote sample, or --decider-backend hf")
    if decider.temperature == 0 and options.agents > len(options.systems) == 1:
        raise UsageError(f"--decider-temperature is 0: {options.agents} agents with one prompt cast the same vote; raise it, give them --personas, or set --agents 1")


def rehearse(episode: Episode, options: AceOptions) -> tuple[Generate | Score, ...]:
    """The votes of a first round: the model must take every persona, and its tokens tell the two words apart."""
    return next(vote(episode, options, Round()))


ACE = Method("ace", "agents vote to retrieve or to think", "arXiv 2601.08747 (earlier version)", AceOptions, ace,
             roles=("decider", "generator"), defaults={"decider": {"temperature": 0.7}},
             instructions=("ace_vote", "ace_think", "ace_query", "answer"), check_roles=check_roles, rehearse=rehearse)
