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
    Generate,
    Operation,
    Pending,
    Result,
    Retrieved,
    Scored,
)
from evoctx_torch.trajectory import Call

log = logging.getLogger(__name__)


class Place:
    """Runs one method on one question up to the operations it waits for (`waiting`, by number), result after result.

    A number identifies an operation of the episode: together with the question's id it keys all randomness. A tuple of
    operations is answered as a whole: its results are accounted for and sent in its order, whoever answered first.
    """

    __slots__ = ("_alone", "_count", "_results", "position", "record", "steps", "waiting")

    def __init__(self, position: int, episode: Episode, steps: Any) -> None:
        self.position, self.record, self.steps = position, episode.record, steps
        self.waiting: dict[int, Operation] = {}
        self._results: dict[int, Result] = {}
        self._count, self._alone = 0, True
        self._advance(None)

    @property
    def finished(self) -> bool:
        return not self.waiting

    def pending(self, number: int) -> Pending:
        """The waiting operation of that number, as executors see it."""
        return Pending(self.record.question.id, number, self.waiting[number])

    def receive(self, number: int, result: Result) -> None:
        """Take one result; with the last of those asked for together, account for them and run the method on."""
        self._results[number] = checked(self.waiting[number], result)
        if len(self._results) < len(self.waiting):
            return
        answered = [(operation, self._results[number]) for number, operation in self.waiting.items()]
        self.waiting, self._results = {}, {}
        for operation, got in answered:
            match got:
                case Completion():
                    self.record.calls.append(Call(operation.role, got))
                case Scored():
                    self.record.calls.append(Call(operation.role, got.completion))
                case Retrieved():
                    self.record.retrievals.append(got)
        results = tuple(got for _, got in answered)
        failure = next((got for got in results if isinstance(got, Failure)), None)
        if failure is not None:
            self._end(failure.reason, None if failure.reason == "over_length" else failure.message, failure.dropped)
        else:
            self._advance(results[0] if self._alone else results)

    def _advance(self, results: Any) -> None:
        try:
            asked = self.steps.send(results)
            self._alone = not isinstance(asked, tuple)
            for operation in (asked,) if self._alone else asked:
                if type(operation) not in RESULTS:
                    raise TypeError(f"the method yielded {operation!r}; expected an operation or a tuple of operations")
                self.waiting[self._count] = operation
                self._count += 1
            if not self.waiting:
                raise TypeError("the method yielded an empty tuple of operations")
        except StopIteration as end:
            self._answer(end.value)
        except Exception as error:  # a method's own fault on this question: recorded there, the others go on
            log.exception("question %s: the method failed", self.record.question.id)
            self.waiting = {}
            self._end("error", f"{type(error).__name__}: {error}")

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
    if not isinstance(result, (expected, Failure)):
        return Failure("error", f"{type(operation).__name__} was answered with {result!r}; expected a {expected.__name__} or a Failure")
    if isinstance(operation, Generate) and operation.pieces and isinstance(result, Completion) and None in (result.pieces, result.logprobs):
        return Failure("error", f"this method needs the text and the log-probability of every generated token, and the backend of the role "
                                f"{operation.role} gave none: use --backend hf, or a server that sends logprobs")
    if isinstance(result, Decision) and result.action not in (RETRIEVE, THINK):
        return Failure("error", f"the controller chose {result.action!r}; expected {RETRIEVE} or {THINK}")
    return result
