"""Answers `Decide` for many episodes at once: embed, measure in one operator call, decide."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Protocol, TypeVar

import torch
from evoctx_kernels.boundary_signals import boundary_signals
from torch import Tensor

from evoctx_torch.boundary import rule as rules
from evoctx_torch.boundary.pool import Known, VectorPool
from evoctx_torch.errors import UsageError
from evoctx_torch.operations import RETRIEVE, THINK, Decide, Decision, Failure, NoveltyRule, Pending

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)


class Encoder(Protocol):
    """What turns texts into unit vectors."""

    dimension: int

    def encode(self, texts: Sequence[str], window: str = "head") -> Tensor:
        """`[n, dimension]` float32 of unit norm; `window` (head, tail, mean) says what of a long text counts."""
        ...

    def probe(self, text: str, window: str) -> str:
        """The exact text that `encode(…, window)` embeds."""
        ...


class BoundaryExecutor:
    """Measures traces against their boundaries on `device`; vectors of boundary texts stay in a pool of `capacity`.

    One call embeds all traces of a window at once and all boundary texts not seen before at once, runs the operator
    once per distinct rule, and waits for the device once. `known` supplies boundary vectors that exist already.
    """

    def __init__(
        self, encoder: Encoder, device: torch.device | str = "cpu", capacity: int = 65536, known: Known | None = None
    ) -> None:
        self.encoder, self.device = encoder, torch.device(device)
        self.pool = VectorPool(encoder.encode, encoder.dimension, self.device, capacity, known)
        # The operator's first call loads and compiles what it needs (seconds); the first question shall not wait for it.
        self._measure(NoveltyRule(), torch.zeros((1, encoder.dimension), device=self.device), [[]])

    @torch.no_grad()
    def answer(self, pending: Sequence[Pending]) -> list[Decision | Failure]:
        """One `Decision` a row of `Decide`, in order; a `Failure` where a text could not be embedded.

        Raises `UsageError` for a rule that cannot be applied.
        """
        decides = [row.operation for row in pending]
        for rule in dict.fromkeys(decide.rule for decide in decides):
            rules.check(rule)
        traces, failures = self._traces(decides)
        slots = self._boundaries(decides, failures)
        return self._decide(decides, traces, slots, failures)

    def _traces(self, decides: Sequence[Decide]) -> tuple[Tensor, dict[int, Failure]]:
        """Trace vectors `[B, D]` on the device, and the rows that have none."""
        vectors = torch.zeros((len(decides), self.encoder.dimension), device=self.device)
        failures: dict[int, Failure] = {}
        for window, rows in grouped(range(len(decides)), lambda row: decides[row].rule.window).items():

            def embed(rows: list[int], window: str = window) -> None:
                vectors[rows] = self.encoder.encode([decides[row].trace for row in rows], window).to(vectors)

            failures |= alone_on_error(embed, rows, "the trace") or {}
        return vectors, failures

    def _boundaries(self, decides: Sequence[Decide], failures: dict[int, Failure]) -> dict[int, list[int]]:
        """Pool slots of each row that can be measured; rows whose boundary cannot be embedded join `failures`."""
        slots: dict[int, list[int]] = {}

        def intern(rows: list[int]) -> None:
            flat = iter(self.pool.slots(list(chain.from_iterable(decides[row].boundary for row in rows))))
            slots.update((row, [next(flat) for _ in decides[row].boundary]) for row in rows)

        failed = alone_on_error(intern, [row for row in range(len(decides)) if row not in failures], "the boundary")
        if failed is not None:
            failures |= failed
            intern(list(slots))  # rows interned one by one may have evicted each other's texts
        return slots

    def _decide(
        self, decides: Sequence[Decide], traces: Tensor, slots: dict[int, list[int]], failures: dict[int, Failure]
    ) -> list[Decision | Failure]:
        by_rule = grouped(slots, lambda row: decides[row].rule)
        measured = [self._measure(rule, traces[rows], [slots[row] for row in rows]) for rule, rows in by_rule.items()]
        numbers = torch.cat(measured).tolist() if measured else []  # the one wait for the device
        results: dict[int, Decision | Failure] = dict(failures)
        for row, (near, centroid, tail, score, retrieve, nearest) in zip(chain(*by_rule.values()), numbers, strict=True):
            probe = self.encoder.probe(decides[row].trace, decides[row].rule.window)
            results[row] = Decision(near, centroid, tail, score, RETRIEVE if retrieve else THINK, probe, int(nearest))
        return [results[row] for row in range(len(decides))]

    def _measure(self, rule: NoveltyRule, traces: Tensor, slots: list[list[int]]) -> Tensor:
        """near, centroid, tail (on the rule's scale), score, action (1 RETRIEVE), argmin as float32 `[B, 6]`."""
        indptr = torch.tensor([0, *accumulate(map(len, slots))], device=self.device)
        columns = torch.tensor(list(chain.from_iterable(slots)), dtype=torch.int64, device=self.device)
        taus = torch.tensor(rules.thresholds(rule), dtype=torch.float32, device=self.device)
        got = boundary_signals(
            traces, self.pool.vectors, indptr, columns, taus, quantile=rule.quantile, interpolation=rule.interpolation
        )
        signals = torch.stack((got.near, got.centroid, got.tail), dim=1)
        score, action = got.score, got.action
        if set(rule.signals) != set(rules.SIGNALS):
            score, action = rules.ablated(signals, taus, rule.signals)
        rest = torch.stack((score, action.to(score), got.argmin.to(score)), dim=1)  # argmin < 2^24 is exact
        return torch.cat((signals * rules.SCALES[rule.distance], rest), dim=1)


def grouped(rows: Iterable[int], key: Callable[[int], Key]) -> dict[Key, list[int]]:
    """Rows by key, in order of first appearance."""
    groups: dict[Key, list[int]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def alone_on_error(do: Callable[[list[int]], object], rows: list[int], what: str) -> dict[int, Failure] | None:
    """Do `rows` together: None. If that fails, each alone: a `Failure` for every row that fails alone as well."""
    try:
        do(rows)
        return None
    except UsageError:
        raise
    except Exception as error:
        log.warning("embedding %s of %d rows failed (%s): trying one by one", what, len(rows), error)
    failures: dict[int, Failure] = {}
    for row in rows:
        try:
            do([row])
        except UsageError:
            raise
        except Exception as error:
            failures[row] = Failure("error", f"embedding {what} failed: {type(error).__name__}: {error}")
    return failures
