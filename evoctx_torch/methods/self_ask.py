"""Self-Ask (arXiv 2210.03350, section 3) with retrieval: each follow-up question is looked up before it is answered.

"Are follow up questions needed here:" the model says yes and asks, is shown passages, answers and goes on in one call.
A call ends before the next intermediate answer, which needs its passages first.
"""

from __future__ import annotations

from dataclasses import dataclass

from evoctx_torch.methods.base import Episode, Method, Steps
from evoctx_torch.methods.steps import FINAL, INTERMEDIATE, answered, forced, steps_of
from evoctx_torch.operations import RETRIEVE
from evoctx_torch.options import option
from evoctx_torch.trajectory import Round

YES = "Are follow up questions needed here: Yes.\n"


@dataclass(frozen=True, slots=True)
class SelfAskOptions:
    """Options of Self-Ask."""

    rounds: int = option(5, "follow-ups before the answer is forced, T", unit="follow-ups", paper="open", low=0)
    top_k: int = option(5, "passages a follow-up brings", unit="passages", paper="1 answer of a search engine", low=1)


def self_ask(episode: Episode, options: SelfAskOptions) -> Steps:
    """At most T follow-ups, a retrieval each and none before; T + 2 calls at most."""
    evidence, rounds, before = episode.evidence, episode.record.rounds, ""
    while True:
        completion = yield episode.generate("generator", "self_ask", started=bool(rounds))
        lead, steps = steps_of(completion.text)
        if rounds:
            answer = steps[0].text if steps and steps[0].kind == INTERMEDIATE else (lead.splitlines() or [""])[0].strip()
            rounds[-1].notes["intermediate_answer"] = answer
            before = answer and f"Intermediate answer: {answer}\n"
        step = next((step for step in steps if step.kind != INTERMEDIATE and step.text), None)
        if step is not None and step.kind == FINAL:
            return answered(episode, completion)
        if step is None or len(rounds) == options.rounds:
            evidence.add_line(before)
            return (yield from forced(episode, "no_answer" if step is None else "max_turns"))
        evidence.add_line(f"{before if rounds else YES}Follow up: {step.text}")
        rounds.append(Round(completion.text, action=RETRIEVE, query=step.text, subquery=step.text))
        rounds[-1].passages = yield from episode.gather(step.text, options.top_k)


SELF_ASK = Method("self-ask", "asks itself whether and what to follow up; each follow-up retrieves", "arXiv 2210.03350",
                  SelfAskOptions, self_ask, instructions=("self_ask", "final"), head="self_ask_head")
