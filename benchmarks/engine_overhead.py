"""What the engine costs around models that cost nothing: CPU microseconds a question-round, by phase.

    python benchmarks/engine_overhead.py [--questions 2000] [--rounds 8] [--batch-size 256]

EvoCtx with a scripted generator, a retriever that cuts slices out of a list and an encoder that hashes words. Phases:
executors (what stands in for the models), boundary (vector pool and signals operator), prompt assembly (templates and
segments), method (its own evidence bookkeeping), accounting (the prediction and trajectory of a question), and
scheduling, which is all the rest: grouping, sending results, refilling places.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from evoctx_torch.boundary.controller import BoundaryExecutor
from evoctx_torch.engine import Engine
from evoctx_torch.evaluation.results import prediction_row
from evoctx_torch.evidence import Evidence
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.methods.evoctx import EvoCtxOptions
from evoctx_torch.operations import Completion, Executor, Passage, Pending, Question, Result, Retrieved
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.retrieval.hashing import HashEncoder

WORDS = ["river", "tower", "bridge", "painter", "harbour", "school", "lake", "inn", "mason", "county", "archive", "glass"]
CORPUS = [Passage(f"p{i}", f"d{i}", f"Title {i}", f"Title {i}\nThe {WORDS[i % 12]} of {WORDS[i // 12 % 12]} number {i}.") for i in range(2000)]


class Clock:
    """Adds up time by phase; a phase inside another is taken out of it.

    Reading the CPU clock can cost hundreds of microseconds in a sandbox, so phases are told apart by the wall clock and
    scaled to the CPU time of the whole.
    """

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.inner = 0

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, its own time counted under `phase`."""
        def run(*args: Any, **how: Any) -> Any:
            outside, self.inner = self.inner, 0
            began = time.perf_counter_ns()
            try:
                return function(*args, **how)
            finally:
                spent = time.perf_counter_ns() - began
                self.spent[phase] += spent - self.inner
                self.inner = outside + spent
        return run


class SliceRetriever:
    """The next k passages of a list that are not excluded."""

    def answer(self, pending: Sequence[Pending]) -> list[Result]:
        found = []
        for p in pending:
            start = len(p.operation.query) * 31 + len(p.operation.exclude)
            window = (CORPUS[(start + i) % len(CORPUS)] for i in range(len(CORPUS)))
            fresh = (passage for passage in window if passage.doc_id not in p.operation.exclude)
            found.append(Retrieved(tuple(next(fresh) for _ in range(p.operation.k))))
        return found


def reply(pending: Pending) -> Completion:
    """A short text that depends on who asks."""
    text = f"The {WORDS[pending.number % 12]} of question {pending.question_id} may matter."
    return Completion(text, "eos", 100, 100, 10)


class Timed:
    """An executor whose time counts under `phase`."""

    def __init__(self, executor: Executor, clock: Clock, phase: str) -> None:
        self.answer = clock.timed(phase, executor.answer)


def measure(questions: int, rounds: int, batch_size: int) -> tuple[dict[str, float], Engine]:
    """Microseconds a question-round by phase."""
    clock = Clock()
    book = PromptBook(Family("chat"))
    engine = Engine(
        "evoctx", EvoCtxOptions(rounds=rounds), prompts=book, batch_size=batch_size,
        generator=Timed(ScriptedGenerator(reply), clock, "executors"), retriever=Timed(SliceRetriever(), clock, "executors"),
        controller=Timed(BoundaryExecutor(HashEncoder(64)), clock, "boundary"),
    )

    def run() -> None:
        for _, record in engine.stream(Question(f"q{i}", f"What is the {WORDS[i % 12]} number {i}?", (str(i),)) for i in range(questions)):
            account(record)

    account = clock.timed("accounting", lambda record: (prediction_row(record, "first-line"), record.to_json()))
    with ExitStack() as patches:
        patches.enter_context(patch.object(book, "generate", clock.timed("prompt assembly", book.generate)))
        for name in ("boundary", "search_query", "add_passages", "add_subquery"):
            patches.enter_context(patch.object(Evidence, name, clock.timed("method", getattr(Evidence, name))))
        began = time.thread_time()
        clock.timed("scheduling", run)()
        cpu = time.thread_time() - began
    scale = cpu * 1e6 / questions / rounds / sum(clock.spent.values())
    return {phase: spent * scale for phase, spent in clock.spent.items()}, engine


def test_engine_overhead(benchmark: Any) -> None:
    """For pytest-benchmark: `pytest benchmarks/engine_overhead.py`."""
    phases, _ = benchmark.pedantic(measure, (500, 8, 256), rounds=3)
    benchmark.extra_info.update({f"{phase}_us": spent for phase, spent in phases.items()})


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, profile, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=256)
    options = parser.parse_args(argv)
    profile = cProfile.Profile()
    phases, engine = measure(options.questions, options.rounds, options.batch_size)
    print(f"{options.questions} questions x {options.rounds} rounds, batch {options.batch_size}, {engine.ticks} ticks; CPU us a question-round")
    for phase, spent in sorted(phases.items(), key=lambda item: -item[1]):
        print(f"  {phase:<16} {spent:8.1f}")
    print("Five functions with the most own time, of a quarter of the questions (the profiler slows what it measures):")
    profile.runcall(measure, max(options.questions // 4, 1), options.rounds, options.batch_size)
    stats = pstats.Stats(profile, stream=sys.stdout)
    ranked = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:5]
    for (path, line, name), (_, calls, own, _, _) in ranked:
        print(f"  {own:7.3f} s  {calls:8d} calls  {name} ({path.rsplit('/', 1)[-1]}:{line})")


if __name__ == "__main__":
    main()
