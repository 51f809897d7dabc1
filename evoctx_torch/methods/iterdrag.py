"""IterDRAG (arXiv 2410.04343, section 3.3): the model asks follow-up questions, each of which retrieves, and answers them.

Retrieve with Q; then a step a call: "Follow up: q" retrieves with q, "Intermediate answer: a" is noted, "So the final
answer is: …" ends. Decoding is constrained to these three starts in the paper; here a reply that begins none of them
ends the loop, since the same prompt would bring it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from evoctx_torch.methods.base import Episode, Method, Steps
from evoctx_torch.methods.replies import UNPARSABLE
from evoctx_torch.methods.steps import FINAL, FOLLOW_UP, answered, first_step, forced
from evoctx_torch.operations import RETRIEVE
from evoctx_torch.options import option
from evoctx_torch.trajectory import Round


@dataclass(frozen=True, slots=True)
class IterDragOptions:
    """Options of IterDRAG."""

    rounds: int = option(5, "follow-ups before the answer is forced, T", unit="follow-ups", paper="5; 8 in EvoCtx's comparison", low=0)
    top_k: int = option(5, "passages a retrieval brings", unit="passages", paper="1 to 100, by budget", low=1)


def iterdrag(episode: Episode, options: IterDragOptions) -> Steps:
    """At most T follow-ups and 2T steps, then the forced answer: 2T + 1 calls and T + 1 retrievals at most."""
    evidence, rounds = episode.evidence, episode.record.rounds
    yield from episode.bootstrap(evidence.question, options.top_k)
    for _ in range(2 * options.rounds):
        completion = yield episode.generate("generator", "iterdrag")
        step = first_step(completion.text)
        if step.kind == FINAL:
            return answered(episode, completion)
        if step.kind == UNPARSABLE:
            return (yield from forced(episode, "no_answer"))
        if step.kind == FOLLOW_UP:
            if len(rounds) == options.rounds:
                break
            rounds.append(Round(completion.text, action=RETRIEVE, query=step.text, subquery=step.text))
            evidence.add_line(f"Follow up: {step.text}")
            rounds[-1].passages = yield from episode.gather(step.text, options.top_k)
        else:
            evidence.add_line(f"Intermediate answer: {step.text}")
            if rounds:
                rounds[-1].notes["intermediate_answer"] = step.text
    return (yield from forced(episode, "max_turns"))


ITERDRAG = Method("iterdrag", "follow-up questions that retrieve, intermediate answers, a final one", "arXiv 2410.04343",
                  IterDragOptions, iterdrag, instructions=("iterdrag", "final"), head="iterdrag_head")
