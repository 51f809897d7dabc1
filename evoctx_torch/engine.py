"""The engine: many questions' loops in lockstep. It knows which operations wait, who answers, who is finished.

A tick takes the operations that are due, groups them by who answers, has every group answered in one batched call,
sends the results back and refills the places of finished episodes. Cheap operations (retrieve, decide) go first, until
every place waits for a model; so the models always see the whole batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from evoctx_torch.isolation import answer_each
from evoctx_torch.methods import Episode, Method, get_method
from evoctx_torch.operations import (
    Completion,
    Decide,
    Executor,
    Failure,
    Generate,
    Operation,
    Pending,
    Question,
    Result,
    Retrieve,
    Retrieved,
)
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.trajectory import Call, Trajectory

log = logging.getLogger(__name__)


class Place:
    """One active episode: its generator, the operation it waits for, and how many it has asked."""

    __slots__ = ("number", "operation", "position", "record", "steps")

    def __init__(self, position: int, episode: Episode, steps: Any) -> None:
        self.position, self.record, self.steps = position, episode.record, steps
        self.number = -1
        self.operation: Operation | None = None
        self._advance(None)

    def pending(self) -> Pending:
        return Pending(self.record.question.id, self.number, self.operation)

    def receive(self, result: Result) -> None:
        """Account for a result and run the method up to its next operation, or end it."""
        match result:
            case Failure(reason, message, dropped):
                self._end(reason, None if reason == "over_length" else message, dropped)
                return
            case Completion():
                self.record.calls.append(Call(self.operation.role, result))
            case Retrieved():
                self.record.retrievals.append(result)
        self._advance(result)

    def _advance(self, result: Result | None) -> None:
        try:
            self.operation = self.steps.send(result)
            self.number += 1
        except StopIteration as end:
            self.record.answer = end.value
            self._end(self.record.finish_reason or end.value.finish_reason)
        except Exception as error:  # a method's own fault on this question: recorded there, the others go on
            log.exception("question %s: the method failed", self.record.question.id)
            self._end("error", f"{type(error).__name__}: {error}")

    def _end(self, reason: str, error: str | None = None, dropped: Sequence[str] = ()) -> None:
        self.record.finish_reason, self.record.error, self.record.dropped = reason, error, tuple(dropped)
        self.steps.close()
        self.operation = None


class Engine:
    """Runs a method on many questions at once.

    `generator` answers `Generate`: one executor, or a mapping from role to executor (a role not named goes to
    "generator"). `retriever` answers `Retrieve`, `controller` answers `Decide` (by default the boundary signals over
    `encoder`). `batch_size` is the number of episodes under way; it never changes an answer.
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
        prompts: PromptBook | None = None,
        batch_size: int = 32,
        on_tick: Callable[[Engine], None] | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; expected at least 1")
        self.method = get_method(method) if isinstance(method, str) else method
        self.options = self.method.options() if options is None else options
        self.generators = generator if isinstance(generator, Mapping) else {"generator": generator}
        self.retriever, self.controller = retriever, controller
        if controller is None and encoder is not None:
            from evoctx_torch.boundary.controller import BoundaryExecutor
            self.controller = BoundaryExecutor(encoder)
        self.prompts = prompts or PromptBook(Family("chat"))
        self.batch_size, self.on_tick = batch_size, on_tick
        self.places: list[Place] = []
        self.finished = 0
        self.ticks = 0

    def run(self, questions: Iterable[Question]) -> list[Trajectory]:
        """All trajectories, in the order of the questions."""
        with closing(self.stream(questions)) as stream:
            return [record for _, record in sorted(stream, key=lambda pair: pair[0])]

    def stream(self, questions: Iterable[Question]) -> Iterator[tuple[int, Trajectory]]:
        """(position, trajectory) of every question as it finishes."""
        queue = enumerate(questions)
        self.places = []
        try:
            while True:
                while len(self.places) < self.batch_size and (entry := next(queue, None)):
                    self.places.append(self._start(*entry))
                if not self.places:
                    return
                self._tick()
                for place in self.places:
                    if place.operation is None:
                        self.finished += 1
                        yield place.position, place.record
                self.places = [place for place in self.places if place.operation is not None]
                if self.on_tick:
                    self.on_tick(self)
        finally:
            for place in self.places:
                place.steps.close()

    def _tick(self) -> None:
        waiting = [place for place in self.places if place.operation is not None]
        due = [place for place in waiting if not isinstance(place.operation, Generate)] or waiting
        groups: dict[int, tuple[Executor, list[Place]]] = {}
        for place in due:
            executor = self._executor(place.operation)
            groups.setdefault(id(executor), (executor, []))[1].append(place)
        for executor, places in groups.values():
            results = answer_each(executor, [place.pending() for place in places])
            for place, result in zip(places, results, strict=True):
                place.receive(result)
        self.ticks += 1

    def _start(self, position: int, question: Question) -> Place:
        episode = Episode(question, self.prompts, Trajectory(question, self.method.name))
        return Place(position, episode, self.method.start(episode, self.options))

    def _executor(self, operation: Operation) -> Executor:
        match operation:
            case Generate(role):
                executor = self.generators.get(role) or self.generators.get("generator")
            case Retrieve():
                executor = self.retriever
            case Decide():
                executor = self.controller
        if executor is None:
            raise TypeError(f"{self.method.name} yields {type(operation).__name__}, and this engine has nobody who answers it")
        return executor
