"""A row fails alone: when a batched call raises, its rows are answered in smaller and smaller groups."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from evoctx_torch.errors import UsageError
from evoctx_torch.operations import Executor, Failure, Pending, Result

log = logging.getLogger(__name__)


def answer_each(executor: Executor, pending: Sequence[Pending]) -> list[Result]:
    """`executor.answer(pending)`; if it raises, the halves are tried, and a row that raises alone becomes a `Failure`.

    Executors turn the trouble they know into failures themselves; this is for what nobody foresaw, so the exception
    is logged with its traceback and kept in the row's `error`.
    """
    try:
        results = executor.answer(pending)
        if len(results) != len(pending):
            raise RuntimeError(f"{type(executor).__name__} gave {len(results)} results for {len(pending)} operations")
        return results
    except UsageError:  # the configuration's fault, not a row's: it ends the run
        raise
    except Exception as error:
        if len(pending) == 1:
            log.exception("question %s: %s failed", pending[0].question_id, type(executor).__name__)
            return [Failure("error", f"{type(error).__name__}: {error}")]
        log.warning("a batch of %d failed in %s (%s); trying its halves", len(pending), type(executor).__name__, error)
        half = len(pending) // 2
        return answer_each(executor, pending[:half]) + answer_each(executor, pending[half:])
