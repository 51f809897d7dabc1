"""The engine: many questions' loops in lockstep. It knows which operations wait, who answers, who is finished.

A tick takes the operations that are due, groups them by who answers, has every group answered in one batched call,
sends the results back and refills the places of finished episodes. Cheap operations (retrieve, decide) go first, until
every place waits for a model; so the models always see the whole batch.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import Any, TypeVar

from evoctx_torch.isolation import answer_each
from evoctx_torch.methods import NO_MODULES, Episode, Method, Modules, get_method
from evoctx_torch.operations import (
    Decide,
    Executor,
    Generate,
    Memory,
    Operation,
    Pending,
    Question,
    Recall,
    Remember,
    Retrieve,
    Score,
)
from evoctx_torch.options import check
from evoctx_torch.place import Place
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.trajectory import Trajectory

MODEL_CALLS, MEMORY_CALLS = frozenset((Generate, Score)), frozenset((Recall, Remember))
T = TypeVar("T")
atexit.register(gc.unfreeze)  # a run that was abandoned leaves it frozen, and libraries then complain of leaks


class Engine:
    """Runs a method on many questions at once.

    `generator` answers `Generate` and `Score`: one executor, or a mapping from role to executor (a role not named goes to
    "generator"). `retriever` answers `Retrieve`, `controller` answers `Decide` (by default the boundary signals over
    `encoder`), `memory` answers `Recall` and `Remember`. `batch_size` is the number of episodes under way; it never
    changes an answer. With a memory the questions run in waves of `wave`, which does.
    """

    def __init__(
        self,
        method: str | Method,
        options: Any = None,
        *,
        generator: Executor | Mapping[str, Executor],
        retriever: Executor | None = None,
        controller: Executor | None = None,
        encoder: Any = None,
        memory: Memory | None = None,
        prompts: PromptBook | None = None,
        modules: Modules = NO_MODULES,
        batch_size: int = 32,
        wave: int = 32,
        on_tick: Callable[[Engine], None] | None = None,
    ) -> None:
        for name, value in (("batch_size", batch_size), ("wave", wave)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}; expected a whole number of at least 1")
        self.method = get_method(method) if isinstance(method, str) else method
        self.options = self.method.options() if options is None else options
        if not isinstance(self.options, self.method.options):
            raise TypeError(f"options are {self.options!r}; {self.method.name} takes {self.method.options.__name__}")
        check(self.options)
        self.generators = dict(generator) if isinstance(generator, Mapping) else {"generator": generator}
        if controller is None and encoder is not None:
            from evoctx_torch.boundary.controller import BoundaryExecutor
            controller = BoundaryExecutor(encoder)
        self.retriever, self.controller, self.memory = retriever, controller, memory
        self.prompts, self.modules = prompts or PromptBook(Family("chat", more=self.method.folder)), modules
        self.batch_size, self.wave, self.on_tick = batch_size, wave, on_tick
        self.places: list[Place] = []
        self.ticks = 0
        self._check_roles()

    def run(self, questions: Iterable[Question]) -> list[Trajectory]:
        """All trajectories, in the order of the questions."""
        with closing(self.stream(questions)) as stream:
            return [record for _, record in sorted(stream, key=lambda pair: pair[0])]

    def stream(self, questions: Iterable[Question], skip: Collection[str] = ()) -> Iterator[tuple[int, Trajectory]]:
        """(position, trajectory) of every question as it finishes, but for those whose ids are in `skip`."""
        numbered = enumerate(questions)
        if self.memory is None:
            yield from self._lockstep(entry for entry in numbered if entry[1].id not in skip)
            return
        for number, wave in enumerate(batches(numbered, self.wave)):
            self.memory.begin_wave(number, [question.id for _, question in wave])
            yield from self._lockstep(entry for entry in wave if entry[1].id not in skip)
            self.memory.end_wave()

    def _lockstep(self, queue: Iterator[tuple[int, Question]]) -> Iterator[tuple[int, Trajectory]]:
        if self.places:
            raise RuntimeError("this engine is already running: finish or close its other stream first")
        # The garbage collector goes through models, modules and indexes again and again otherwise, which costs ten times the scheduling.
        frozen = gc.get_freeze_count() > 0
        gc.freeze()
        try:
            while True:
                self.places += [self._start(*entry) for entry in islice(queue, self.batch_size - len(self.places))]
                if not self.places:
                    return
                self._tick()
                for place in self.places:
                    if place.finished:
                        yield place.position, place.record
                self.places = [place for place in self.places if not place.finished]
                if self.on_tick:
                    self.on_tick(self)
        finally:
            for place in self.places:
                place.steps.close()
            self.places = []
            if not frozen:
                gc.unfreeze()

    def _tick(self) -> None:
        waiting = [(place, pending) for place in self.places for pending in place.waiting]
        due = [row for row in waiting if type(row[1].operation) not in MODEL_CALLS] or waiting
        groups: dict[int, tuple[Executor, list[Place], list[Pending]]] = {}
        for place, pending in due:
            executor = self._executor(pending.operation)
            group = groups.setdefault(id(executor), (executor, [], []))
            group[1].append(place)
            group[2].append(pending)
        for executor, places, asked in groups.values():
            for place, pending, result in zip(places, asked, answer_each(executor, asked), strict=True):
                place.receive(pending, result)
        self.ticks += 1

    def _start(self, position: int, question: Question) -> Place:
        episode = Episode(question, self.prompts, Trajectory(question, self.method.name), self.modules, self.method.head)
        return Place(position, episode, self.method.start(episode, self.options))

    def _executor(self, operation: Operation) -> Executor:
        kind, executor = type(operation), None
        if kind in MODEL_CALLS:
            executor = self.generators.get(operation.role) or self.generators.get("generator")
        elif kind is Retrieve:
            executor = self.retriever
        elif kind is Decide:
            executor = self.controller
        elif kind in MEMORY_CALLS:
            executor = self.memory
        if executor is None:
            raise TypeError(f"{self.method.name} yields {type(operation).__name__}, and this engine has nobody who answers it")
        return executor

    def _check_roles(self) -> None:
        known = {"generator", "contextualizer", *self.method.roles}
        if unknown := set(self.generators) - known:
            raise ValueError(f"{self.method.name} has no role {sorted(unknown)[0]!r}; expected some of {', '.join(sorted(known))}")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, in order; the last may be shorter."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
