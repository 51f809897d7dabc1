"""One more layer around an executor: what is recorded is given back, the rest is asked and recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evoctx_torch.isolation import answer_each
from evoctx_torch.journal.store import Journal
from evoctx_torch.operations import Executor, Memory, Pending, Result


class Journaled:
    """`executor` with a memory of what it has answered: a continued run is sent the recorded results and asks only for the rest.

    A row that fails is recorded like any other, so that a continued run ends as an undisturbed one.
    """

    def __init__(self, executor: Executor, journal: Journal) -> None:
        self.executor, self.journal = executor, journal

    def answer(self, pending: Sequence[Pending]) -> list[Result]:
        """One result a row, in order; new ones are durable at the journal's next commit."""
        results = [self.journal.recorded(row) for row in pending]
        missing = [i for i, result in enumerate(results) if result is None]
        if missing:
            asked = [pending[i] for i in missing]
            answers = answer_each(self.executor, asked)
            self.journal.record(asked, answers)
            for i, answer in zip(missing, answers, strict=True):
                results[i] = answer
        return results


def record_in(journal: Journal, engine: Any) -> None:
    """Put the journal around everybody who answers an engine's operations; its ticks commit."""
    wrapped = {id(executor): Journaled(executor, journal) for executor in engine.generators.values()}  # roles that share one still do
    engine.generators = {role: wrapped[id(executor)] for role, executor in engine.generators.items()}
    engine.retriever = engine.retriever and Journaled(engine.retriever, journal)
    engine.controller = engine.controller and Journaled(engine.controller, journal)
    engine.memory = engine.memory and JournaledMemory(engine.memory, journal)
    on_tick = engine.on_tick

    def commit(engine: Any) -> None:
        journal.commit()
        if on_tick:
            on_tick(engine)
    engine.on_tick = commit


class JournaledMemory(Journaled):
    """A thought memory (`operations.Memory`) with a journal around it; the memory keeps its own file."""

    executor: Memory

    def begin_wave(self, number: int, question_ids: Sequence[str]) -> None:
        """As the memory's."""
        self.executor.begin_wave(number, question_ids)

    def end_wave(self) -> None:
        """As the memory's; what its questions remembered is durable first."""
        self.journal.commit()
        self.executor.end_wave()
