"""What a method is: a generator for ONE question that yields operations and is sent their results.

    def naive_rag(episode: Episode, options: NaiveRagOptions) -> Steps:
        yield from episode.gather(episode.question.text, options.top_k)
        return (yield episode.generate("generator", "answer"))

It returns the completion that holds the answer, and fills in `episode.record` from what it received. It imports no
torch and knows no batch, device or model; a failed operation never reaches it (the engine ends the row).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from evoctx_torch.evidence import Evidence, Extract
from evoctx_torch.methods.modules import NO_MODULES, Modules
from evoctx_torch.metrics.extract import split_thinking
from evoctx_torch.operations import Completion, Generate, Operation, Passage, Question, Retrieve, Score
from evoctx_torch.prompts.family import PromptBook
from evoctx_torch.trajectory import Trajectory

T = TypeVar("T")
Asking = Generator[Operation | tuple[Operation, ...], Any, T]  # yields operations, is sent their results, returns a T
Steps = Asking[Completion]


@dataclass(slots=True)
class Episode:
    """One question being answered by one method."""

    question: Question
    prompts: PromptBook
    record: Trajectory
    modules: Modules = NO_MODULES
    head: str = "head"  # the template that the method's prompts begin with
    evidence: Evidence = field(init=False)
    extracts: list[str] = field(default_factory=list)  # what the contextualizer found, for the whole episode
    shown: frozenset[str] = frozenset()  # documents retrieved so far

    def __post_init__(self) -> None:
        self.evidence = Evidence(self.question.text)

    @property
    def within(self) -> frozenset[str] | None:
        """The question's own documents (`metadata.doc_ids`), to which its retrieval is restricted; None: the whole corpus."""
        own = self.question.metadata.get("doc_ids")
        return None if own is None else frozenset(own)

    def generate(self, role: str, instruction: str, evidence: Evidence | None = None, **variables: object) -> Generate:
        """The call that asks `role` for `instruction` on `evidence`, by default everything this episode knows."""
        return self.prompts.generate(role, instruction, evidence or self.evidence, head=self.head, **variables)

    def retrieve(self, query: str, k: int, exclude: frozenset[str] = frozenset(), refill: bool = True) -> Asking[tuple[Passage, ...]]:
        """Search the question's documents; the modules that are on do their part. Returns the passages."""
        if self.modules.dedup:
            exclude, refill = exclude | self.shown, True
        found = (yield Retrieve(query, k, exclude, refill, self.within)).passages
        yield from self.observe(found)
        return found

    def observe(self, found: tuple[Passage, ...]) -> Asking[None]:
        """Take note of what was retrieved; with contextualization its extract joins `extracts` (arXiv 2603.12396)."""
        self.shown |= {passage.doc_id for passage in found}
        if self.modules.contextualize and found:
            asked = self.prompts.generate("contextualizer", "contextualize", Evidence(self.question.text, list(found)))
            _, extract = split_thinking((yield asked).text)
            if extract.strip():
                self.extracts.append(extract.strip())

    def gather(
        self, query: str, k: int, exclude: frozenset[str] = frozenset(), refill: bool = True, cap: int | None = None,
    ) -> Asking[tuple[Passage, ...]]:
        """`retrieve`, and add what came, with a new extract after it, to the evidence. Returns the passages.

        With `cap` those that stand in the evidence already are not added again, nor any beyond `cap` passages in all.
        """
        before = len(self.extracts)
        found = yield from self.retrieve(query, k, exclude, refill)
        self.evidence.add_passages(found if cap is None else self.evidence.unseen(found)[:max(cap - len(self.evidence.passages), 0)])
        self.evidence.items += map(Extract, self.extracts[before:])
        return found

    def newest(self, found: tuple[Passage, ...]) -> Evidence:
        """Evidence of one round's own: its passages, and the contextualizer's extracts, which are kept for the episode."""
        return Evidence(self.question.text, [*found, *map(Extract, self.extracts)])

    def hand_over(self, method: Method, options: Any) -> Steps:
        """Another method goes on with this episode, in its own format; it must be one of the `delegates`."""
        self.head = method.head
        return (yield from method.start(self, options))

    def bootstrap(self, query: str, k: int) -> Asking[tuple[Passage, ...]]:
        """The retrieval before the first round, recorded as such."""
        found = yield from self.gather(query, k)
        self.record.bootstrap_query, self.record.bootstrap = query, found
        return found


@dataclass(frozen=True, slots=True)
class Method:
    """A method with what the command line, the engine and the docs need to know of it.

    `roles`: who is asked; all but the generator may have a model of their own, those in `required` must. `defaults`: settings
    of a role that differ from the general ones (`{"decider": {"temperature": 0.7}}`). `instructions`: the templates that it
    renders after `head`. `delegates`: methods that it may hand an episode over to. `unasked`: the roles that a run with
    these options never asks. `check` raises `UsageError` for a question that these options cannot answer, `check_roles` for
    settings of the roles (temperature, backend …) that do not go with them; all three are called before a model is loaded.
    `rehearse`: calls as an episode that knows nothing yet would make them; a model that cannot take them is refused before the
    run. `folder`: the method's own templates, in the sub-folders chat and completion, for methods of other packages.
    """

    name: str
    summary: str
    source: str
    options: type
    run: Callable[[Episode, Any], Steps]
    roles: tuple[str, ...] = ("generator",)
    required: tuple[str, ...] = ()
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    instructions: tuple[str, ...] = ("answer",)
    head: str = "head"
    retrieves: bool = True
    decides: bool = False
    remembers: bool = False
    delegates: tuple[Method, ...] = ()
    unasked: Callable[[Any], tuple[str, ...]] = lambda options: ()
    check: Callable[[Any, Question], None] = lambda options, question: None
    check_roles: Callable[[Any, Mapping[str, Any]], None] = lambda options, roles: None
    rehearse: Callable[[Episode, Any], Iterable[Generate | Score]] = lambda episode, options: ()
    folder: Path | None = None

    @property
    def templates(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What its prompts are made of: each head with the instructions that follow it."""
        return ((self.head, self.instructions), *(pair for method in self.delegates for pair in method.templates))

    def start(self, episode: Episode, options: Any) -> Steps:
        """A fresh generator for one question. Raises `TypeError` when `run` is no generator function."""
        steps = self.run(episode, options)
        if not isinstance(steps, Generator):
            raise TypeError(f"the method {self.name} gave {steps!r}; expected a generator: a function that yields operations")
        return steps
