"""The progress line of a run: questions done, rounds, tokens a second, time left, the action mix."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from evoctx_torch.engine import Engine
from evoctx_torch.operations import RETRIEVE, THINK
from evoctx_torch.trajectory import Trajectory

EVERY = 0.25  # seconds between two looks at the records of the active rows


class RunProgress:
    """Watches an engine (`on_tick`) and draws one line on stderr, if `shown`. `elsewhere()`: how many questions other processes have finished."""

    def __init__(self, total: int, done: int, label: str, elsewhere: Callable[[], int] | None = None, shown: bool = True) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=12), MofNCompleteColumn(), TextColumn("{task.fields[now]}"),
            TimeRemainingColumn(compact=True), TextColumn("left"), console=Console(stderr=True, quiet=not shown),
        )
        self.label, self.total, self.done, self.elsewhere = label, total, done, elsewhere or (lambda: 0)
        self.preparation: TaskID | None = None
        self.tokens, self.rounds, self.actions = 0, 0, Counter[str]()

    def preparing(self, what: str, done: int, total: int) -> None:
        """Show how far a preparation is (embedding a corpus); the questions' own line follows it."""
        if self.preparation is None:
            self.progress.start()
            self.preparation = self.progress.add_task(what, now="")
        self.progress.update(self.preparation, completed=done, total=total)

    def __enter__(self) -> RunProgress:
        self.task = self.progress.add_task(self.label, total=self.total, completed=self.done, now="")
        self.began = self.looked = time.monotonic()
        self.progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.progress.update(self.task, completed=self.done + self.elsewhere())
        self.progress.stop()

    def finished(self, record: Trajectory) -> None:
        """Count a finished question."""
        tokens, rounds, actions = tally([record])
        self.tokens, self.rounds = self.tokens + tokens, self.rounds + rounds
        self.actions += actions
        self.done += 1
        self.progress.update(self.task, completed=self.done + self.elsewhere())

    def on_tick(self, engine: Engine) -> None:
        """Look at the active rows now and then; counting them at every tick would cost more than it tells."""
        now = time.monotonic()
        if now - self.looked < EVERY:
            return
        self.looked = now
        tokens, rounds, actions = tally([place.record for place in engine.places])
        mix = self.actions + actions
        words = f"{self.rounds + rounds} rounds, {(self.tokens + tokens) / (now - self.began):.0f} tokens/s"
        if mix:
            words += f", R {mix[RETRIEVE] / mix.total():.0%} T {mix[THINK] / mix.total():.0%}"
        self.progress.update(self.task, now=words)


def tally(records: list[Trajectory]) -> tuple[int, int, Counter[str]]:
    """Generated tokens, rounds and actions in these records."""
    tokens = sum(call.completion.completion_tokens for record in records for call in record.calls)
    return tokens, sum(len(record.rounds) for record in records), Counter(a for record in records for a in record.actions)
