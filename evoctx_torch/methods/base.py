"""What a method is: a generator for ONE question that yields operations and is sent their results.

    def naive_rag(episode: Episode, options: NaiveRagOptions) -> Steps:
        found = yield Retrieve(episode.question.text, options.top_k)
        ...
        return (yield episode.generate("generator", "answer"))

It returns the completion that holds the answer, and fills in `episode.record` from what it received. It imports no
torch and knows no batch, device or model; a failed operation never reaches it (the engine ends the row).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from evoctx_torch.evidence import Evidence
from evoctx_torch.operations import Completion, Generate, Operation, Question, Result
from evoctx_torch.prompts.family import PromptBook
from evoctx_torch.trajectory import Trajectory

Steps = Generator[Operation, Any, Completion]


@dataclass(slots=True)
class Episode:
    """One question being answered by one method."""

    question: Question
    prompts: PromptBook
    record: Trajectory
    evidence: Evidence = field(init=False)

    def __post_init__(self) -> None:
        self.evidence = Evidence(self.question.text)

    def generate(self, role: str, instruction: str, **variables: object) -> Generate:
        """The call that asks `role` for `instruction`, on everything this episode knows."""
        return self.prompts.generate(role, instruction, self.evidence, **variables)


@dataclass(frozen=True, slots=True)
class Method:
    """A method with what the command line, the engine and the docs need to know of it."""

    name: str
    summary: str
    source: str
    options: type
    run: Callable[[Episode, Any], Steps]
    roles: tuple[str, ...] = ("generator",)
    instructions: tuple[str, ...] = ("answer",)
    retrieves: bool = True
    decides: bool = False

    def start(self, episode: Episode, options: Any) -> Generator[Operation, Result, Completion]:
        """A fresh generator for one question."""
        return self.run(episode, options)
