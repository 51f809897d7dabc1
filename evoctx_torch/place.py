"""One active episode: its generator, the operations it waits for, and what their results become."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from evoctx_torch.methods import Episode
from evoctx_torch.operations import (
    RESULTS,
    RETRIEVE,
    THINK,
    Completion,
    Decision,
    Failure,
    Operation,
    Pending,
    Result,
    Retrieved,
    Scored,
)
from evoctx_torch.trajectory import Call

log = logging.getLogger(__name__)


class Place:
    """Runs one method on one question up to the operations it waits for (`waiting`), result after result.

    A number identifies an operation of the episode: together with the question's id it keys all randomness. A tuple of
    operations is answered as a whole: its results are accounted for and sent in its order, whoever answered first.
    """

    __slots__ = ("_asked", "_count", "_results", "position", "record", "steps", "waiting")

    def __init__(self, position: int, episode: Episode, steps: Any) -> None:
        self.position, self.record, self.steps = position, episode.record, steps
        self.waiting: Sequence[Pending] = ()
        self._asked: Sequence[Pending] | None = None  # those that were asked for together; None for one alone
        self._results: dict[int, Result] = {}
        self._count = 0
        self._advance(None)

    @property
    def finished(self) -> bool:
        """Whether the episode has ended."""
        return not self.waiting

    def receive(self, pending: Pending, result: Result) -> None:
        """Take the result of one that waited; with the last of those asked for together, account for them and run the method on."""
        result = checked(pending.operation, result)
        if self._asked is None:
            self.waiting = ()
            self._account(pending.operation, result)
            self._send(result, result if type(result) is Failure else None)
            return
        self._results[pending.number] = result
        self.waiting = [other for other in self.waiting if other.number != pending.number]
        if not self.waiting:
            results = tuple(self._results.pop(asked.number) for asked in self._asked)
            for asked, got in zip(self._asked, results, strict=True):
                self._account(asked.operation, got)
            self._send(results, next((got for got in results if type(got) is Failure), None))

    def _account(self, operation: Operation, result: Result) -> None:
        if type(result) is Completion:
            self.record.calls.append(Call(operation.role, result))
        elif type(result) is Retrieved:
            self.record.retrievals.append(result)
        elif type(result) is Scored:
            self.record.calls.append(Call(operation.role, result.completion))

    def _send(self, results: Any, failure: Failure | None) -> None:
        if failure is None:
            self._advance(results)
        else:
            self._end(failure.reason, None if failure.reason == "over_length" else failure.message, failure.dropped)

    def _advance(self, results: Any) -> None:
        try:
            asked = self.steps.send(results)
            together = type(asked) is tuple
            waiting = [self._pending(operation) for operation in (asked if together else (asked,))]
            if not waiting:
                raise TypeError("the method yielded an empty tuple of operations")
            self.waiting, self._asked = waiting, waiting if together else None
        except StopIteration as end:
            self._answer(end.value)
        except Exception as error:  # a method's own fault on this question: recorded there, the others go on
            log.exception("question %s: the method failed", self.record.question.id)
            self._end("error", f"{type(error).__name__}: {error}")

    def _pending(self, operation: Any) -> Pending:
        if type(operation) not in RESULTS:
            raise TypeError(f"the method yielded {operation!r}; expected an operation or a tuple of operations")
        self._count += 1
        return Pending(self.record.question.id, self._count - 1, operation)

    def _answer(self, answer: Any) -> None:
        if isinstance(answer, Completion):
            self.record.answer = answer
            self._end(self.record.finish_reason or answer.finish_reason)
        else:
            self._end("error", f"the method returned {answer!r}; expected the Completion that holds the answer")

    def _end(self, reason: str, error: str | None = None, dropped: Sequence[str] = ()) -> None:
        self.record.finish_reason, self.record.error, self.record.dropped = reason, error, tuple(dropped)
        self.steps.close()


def checked(operation: Operation, result: Result) -> Result:
    """The result, or the `Failure` that an executor's answer of the wrong kind is."""
    expected = RESULTS[type(operation)]
    if type(result) is Failure:
        return result
    if type(result) is not expected:
        return Failure("error", f"{type(operation).__name__} was answered with {result!r}; expected a {expected.__name__} or a Failure")
    if expected is Completion and operation.pieces and None in (result.pieces, result.logprobs):
        return Failure("error", f"this method needs the text and the log-probability of every generated token, and the backend of the role "
                                f"{operation.role} gave none: use --backend hf, or a server that sends logprobs")
    if expected is Decision and result.action not in (RETRIEVE, THINK):
        return Failure("error", f"the controller chose {result.action!r}; expected {RETRIEVE} or {THINK}")
    return result
