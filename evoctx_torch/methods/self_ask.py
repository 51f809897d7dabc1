"""Self-Ask (arXiv 2210.03350, sections 3 and 3.1) with retrieval: each follow-up question is looked up before it is answered.

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


@dataclass(frozen=True, slots=True)
class SelfAskOptions:
    """Options of Self-Ask."""

    rounds: int = option(5, "follow-ups before the answer is forced, T", unit="follow-ups", paper="open", low=0)
    top_k: int = option(5, "passages a follow-up brings", unit="passages", paper="1 answer of a search engine", low=1)


def self_ask(episode: Episode, options: SelfAskOptions) -> Steps:
    """At most T follow-ups, a retrieval each and none before; T + 2 calls at most."""
    evidence, rounds = episode.evidence, episode.record.rounds
    for number in range(options.rounds + 1):
        completion = yield episode.generate("generator", "self_ask", started=number > 0)
        before, steps = steps_of(completion.text)
        if number:
            answer = steps[0].text if steps and steps[0].kind == INTERMEDIATE else (before.splitlines() or [""])[0].strip()
            rounds[-1].notes["intermediate_answer"] = answer
            evidence.add_line(answer and f"Intermediate answer: {answer}")
        step = next((step for step in steps if step.kind != INTERMEDIATE and step.text), None)
        if step is None:
            return (yield from forced(episode, "no_answer"))
        if step.kind == FINAL:
            return answered(episode, completion)
        if number == options.rounds:
            break
        if not number:
            evidence.add_line("Are follow up questions needed here: Yes.")
        evidence.add_line(f"Follow up: {step.text}")
        rounds.append(Round(completion.text, action=RETRIEVE, query=step.text, subquery=step.text))
        rounds[-1].passages = yield from episode.gather(step.text, options.top_k)
    return (yield from forced(episode, "max_turns"))


SELF_ASK = Method("self-ask", "asks itself whether and what to follow up; each follow-up retrieves", "arXiv 2210.03350",
                  SelfAskOptions, self_ask, instructions=("self_ask", "final"), head="self_ask_head")
