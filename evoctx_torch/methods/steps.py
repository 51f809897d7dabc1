"""Replies in steps: `Follow up: …`, `Intermediate answer: …`, `So the final answer is: …` (IterDRAG, Self-Ask; design, section 5)."""

from __future__ import annotations

import re
from typing import NamedTuple

from evoctx_torch.methods.base import Episode, Steps
from evoctx_torch.methods.replies import UNPARSABLE
from evoctx_torch.metrics.extract import split_thinking
from evoctx_torch.operations import Completion

FOLLOW_UP, INTERMEDIATE, FINAL = "follow up", "intermediate answer", "final answer"
LABELS = {FOLLOW_UP: r"follow[ -]?up(?:\s+question)?", INTERMEDIATE: r"intermediate\s+answer", FINAL: r"so\s+the\s+final\s+answer\s+is"}
LABEL = re.compile("|".join(rf"(?P<{name.replace(' ', '_')}>\b{words}[\s*_]*:)" for name, words in LABELS.items()), re.IGNORECASE)
DOTTED = re.compile(r"(?:[^\W\d_]+\.){2,}$")  # ends like D.C. and Ph.D.
WRAPPING = " \t\r\n*_"  # white space and the marks of bold print


class Step(NamedTuple):
    """One step of a reply: which of the three it is, and what it says; `unparsable` with a blank text where it is none."""

    kind: str
    text: str


def steps_of(reply: str) -> tuple[str, list[Step]]:
    """(what stands before the first label, the steps in order) of a reply, its thinking left out.

    A step says what follows its label, white space aside, up to the end of that line or to the next label.
    """
    _, text = split_thinking(reply)
    found = list(LABEL.finditer(text))
    begins = [*(match.start() for match in found), len(text)]
    steps = []
    for match, end in zip(found, begins[1:], strict=True):
        said = text[match.end():end].strip(WRAPPING)
        steps.append(Step(str(match.lastgroup).replace("_", " "), (said.splitlines() or [""])[0].strip(WRAPPING)))
    return text[: begins[0]].strip(WRAPPING), steps


def first_step(reply: str) -> Step:
    """The first step of a reply: models run on, and what they invent after it is dropped."""
    _, steps = steps_of(reply)
    return steps[0] if steps and steps[0].text else Step(UNPARSABLE, "")


def without_period(answer: str) -> str:
    """An answer that ended a sentence, without that sentence's period; the one of an abbreviation stays (`Washington, D.C.`)."""
    return answer[:-1].rstrip() if answer.endswith(".") and not DOTTED.search(answer) else answer


def answered(episode: Episode, completion: Completion) -> Completion:
    """Take the prediction from the reply that holds the final answer. Without its label the general rule of extraction takes it."""
    said = next((step.text for step in steps_of(completion.text)[1] if step.kind == FINAL), None)
    if said is not None:
        episode.record.prediction = without_period(said)
    return completion


def forced(episode: Episode, why: str) -> Steps:
    """Ask for the final answer of a model that has not given it; `why` becomes the finish reason (`max_turns`, `no_answer`)."""
    episode.record.finish_reason = why
    return answered(episode, (yield episode.generate("generator", "final")))
