"""Named ranges around the phases of an engine, put on from outside: an engine that is not profiled never meets them.

Executors are replaced by wrappers; what happens inside them (tokenizing, embedding) is reached through the few methods
named in `HOOKS`. A range on CUDA ends when the device has finished its work, so that no phase pays for another's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.profiler import record_function

from evoctx_torch.analysis.trace import PREFIX
from evoctx_torch.engine import Engine
from evoctx_torch.operations import Completion, Executor, Failure, Pending, Result, Scored


@dataclass(slots=True)
class Work:
    """What was done under a phase's name: rows of each call, tokens, bytes where they are known."""

    rows: list[int] = field(default_factory=list)
    failed: int = 0
    prompt_tokens: int = 0
    computed_prompt_tokens: int = 0
    completion_tokens: int = 0
    bytes: int = 0


class Ranges:
    """Opens ranges and keeps what was done in them."""

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.work: dict[str, Work] = {}

    @contextmanager
    def open(self, phase: str) -> Iterator[Work]:
        """A range named `phase/…` around the block; what the block did goes into the `Work` that it gets."""
        work = self.work.setdefault(phase, Work())
        with record_function(PREFIX + phase):
            yield work
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)


class Ranged:
    """An executor whose calls are the phase that `phase` names from the operations asked for."""

    def __init__(self, inner: Executor, ranges: Ranges, phase: Callable[[Sequence[Pending]], str]) -> None:
        self.inner, self.ranges, self.phase = inner, ranges, phase
        # An exact search reads every stored vector at least once a call.
        self._bytes_a_call = getattr(getattr(getattr(inner, "index", None), "vectors", None), "nbytes", 0)

    def answer(self, pending: Sequence[Pending]) -> list[Result]:
        """The inner executor's results."""
        with self.ranges.open(self.phase(pending)) as work:
            results = self.inner.answer(pending)
        work.rows.append(len(pending))
        work.bytes += self._bytes_a_call
        for result in results:
            call = result.completion if isinstance(result, Scored) else result
            if isinstance(call, Completion):
                work.prompt_tokens += call.prompt_tokens
                work.computed_prompt_tokens += call.computed_prompt_tokens
                work.completion_tokens += call.completion_tokens
            work.failed += isinstance(result, Failure)
        return results


def tokenized(work: Work, arguments: Sequence[Any], result: Any) -> None:
    """One prompt: (ids, dropped passages)."""
    work.rows.append(1)
    work.prompt_tokens += len(result[0])


def embedded(work: Work, arguments: Sequence[Any], result: Any) -> None:
    """Texts to vectors `[n, D]`, whose bytes are counted."""
    work.rows.append(len(arguments[0]))
    work.bytes += result.nbytes


# Part of an executor, method of that part, phase, what to count. The pool keeps its encoder's method from its construction on.
HOOKS = (
    ("tokens", "encode", "tokenize", tokenized), ("encoder", "encode", "embed", embedded), ("pool", "_encode", "embed", embedded),
)  # fmt: skip


def put_on(engine: Engine, ranges: Ranges, stack: ExitStack) -> None:
    """Give every executor of `engine` its range, until `stack` closes; roles that share an executor go on sharing it."""
    wrapped = {id(g): Ranged(g, ranges, generating) for g in engine.generators.values()}
    inner = [*engine.generators.values(), engine.retriever, engine.controller, engine.memory]
    replaced = {
        "generators": {role: wrapped[id(g)] for role, g in engine.generators.items()},
        "retriever": engine.retriever and Ranged(engine.retriever, ranges, lambda _: "search"),
        "controller": engine.controller and Ranged(engine.controller, ranges, lambda _: "decide"),
    }
    for name, value in replaced.items():
        stack.callback(setattr, engine, name, getattr(engine, name))
        setattr(engine, name, value)
    if engine.memory is not None:  # not wrapped: it is asked for more than answers
        hook(engine.memory, "answer", "search", lambda work, arguments, result: work.rows.append(len(result)), ranges, stack)
    seen: set[tuple[int, str]] = set()
    for executor in inner:
        for part, method, phase, count in HOOKS:
            owner = getattr(executor, part, None)
            if hasattr(owner, method) and (id(owner), method) not in seen:
                seen.add((id(owner), method))
                hook(owner, method, phase, count, ranges, stack)


def hook(
    owner: Any, method: str, phase: str, count: Callable[[Work, Sequence[Any], Any], None], ranges: Ranges, stack: ExitStack
) -> None:
    """Put a range around one object's method until `stack` closes."""
    inner, own = getattr(owner, method), method in vars(owner)

    def ranged(*arguments: Any, **how: Any) -> Any:
        with ranges.open(phase) as work:
            result = inner(*arguments, **how)
        count(work, arguments, result)
        return result

    setattr(owner, method, ranged)
    stack.callback(setattr, owner, method, inner) if own else stack.callback(delattr, owner, method)


def generating(pending: Sequence[Pending]) -> str:
    """`generate decider`; roles that are answered in one batch are one phase: `generate decider+generator`."""
    return "generate " + "+".join(sorted({p.operation.role for p in pending}))
