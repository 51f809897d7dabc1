"""A run shared by several processes: each answers its share, then what others have not begun or have left behind.

Nothing is exchanged but files (`claims.py`) and locks (a journal has one writer). The share of a process is every N-th question.
When its own share is claimed it claims others' from their ends, so that one slow process does not hold the rest. A process whose
journal is free without having said that it is idle has died: whoever notices first takes its seat, and goes on with its questions
in their middle. When all seats are idle everything is finished, and the holder of the first journal writes the run's files.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.claims import BEAT, Claims, SignsOfLife
from evoctx_torch.evaluation.folder import Lines, RunFolder, lines_of
from evoctx_torch.evaluation.processes import Processes
from evoctx_torch.journal import Journal, JournalInUse
from evoctx_torch.operations import Question

POLL = 0.5  # seconds between two looks at what others do, when there is nothing else to do
GRACE = 60.0  # seconds in which a process that has not come yet keeps its share to itself
SILENT = 120.0  # seconds without a sign of life, after which a journal that is still locked is said to be stuck
PATIENCE = 1800.0  # seconds that a process waits for the first one to begin


class Part:
    """One process's part in a run."""

    def __init__(self, folder: RunFolder, processes: Processes, questions: Sequence[Question]) -> None:
        self.folder, self.processes, self.questions = folder, processes, questions
        self.claims = Claims(folder.claims)
        self.signs: SignsOfLife | None = None
        self.journal: Journal | None = None
        self.seats: list[int] = []  # those that this process holds
        self.todo: list[Question] = []  # what was not finished when this launch began
        self._looked, self._elsewhere = -BEAT, 0

    # Beginning

    def begin(self, config: Mapping[str, Any], done: Mapping[str, Lines]) -> bool:
        """Take this process's seat, the first process after announcing the launch, the others once it has.

        False where this process comes too late: the run is complete, or another has taken its seat over. Raises `UsageError`
        when another run works in the folder.
        """
        rank, count = self.processes.rank, self.processes.count
        if self.processes.first:
            finished = self._announce(config, done)
        else:
            launch = self._launch()
            if launch is None:
                return False
            if launch["memory_at_start"] != memory_seen(config):
                raise UsageError("the memory has changed while the processes of this run began: start it again")
            finished = set(launch["finished"])
            try:
                self.journal = self.folder.open(rank, count)
            except JournalInUse:
                return False
            if self.claims.launch() is None:  # the run has been completed since
                return False
        self.began = time.monotonic()
        self.signs = SignsOfLife(self.claims)
        self.seats = self.folder.seats_of(rank, count)
        for seat in self.seats:
            self.signs.sign(seat, here=seat != rank)
        todo = [position for position, question in enumerate(self.questions) if question.id not in finished]
        self.todo = [self.questions[position] for position in todo]
        self._estate = deque(position for seat in self.seats for position in self.claims.of(seat))
        self._shares = {other: deque(todo[other::count]) for other in [*range(rank, count), *range(rank)]}
        return True

    def _announce(self, config: Mapping[str, Any], done: Mapping[str, Lines]) -> set[str]:
        count = self.processes.count
        todo = {question.id: position for position, question in enumerate(self.questions) if question.id not in done}
        started = {todo[name]: seat for name, seat in self.folder.started(todo).items()}
        self.claims.withdraw()
        self.journal = self.folder.start(config, count)
        seats = {*range(count), *self.folder.seats()}
        self.claims.announce({"token": self.processes.token, "processes": count, "finished": list(done), "memory_at_start": memory_seen(config)},
                             seats, started)
        return set(done)

    def _launch(self) -> dict[str, Any] | None:
        """What the first process has announced; None where the run is complete."""
        began, foreign, seen = time.monotonic(), None, None
        while True:
            changed = modified(self.folder.metrics)
            if changed is not None and changed != seen and self.folder.complete([question.id for question in self.questions]):
                return None
            seen, now = changed, time.monotonic()
            launch, working = self.claims.launch(), self.folder.in_use(0)
            if launch and working:
                if (launch["token"], launch["processes"]) == (self.processes.token, self.processes.count):
                    return launch
                foreign = foreign or now  # a moment of it is the first process, which is about to announce
                if now - foreign > 2 * BEAT:
                    raise UsageError(f"another run is working in {self.folder.path}: wait for it, or stop it")
            if now - began > PATIENCE:
                raise UsageError(f"process 0 of this run has not begun within {PATIENCE:.0f} s: see what it says, and start again")
            time.sleep(POLL)

    # Working

    def turns(self) -> Iterator[Iterator[Question]]:
        """Questions to answer, claimed as they are taken; another turn for each time there is something left. Ends when everything is finished."""
        while True:
            yield self._claimed()
            for seat in self.seats:
                self._sign(seat, here=True, idle=True)
            while not (self._inherit() or self._may_steal()):
                if not any(self._shares.values()) and all(self.claims.state(seat)["idle"] for seat in self.claims.seats()):
                    self._looked = -BEAT  # the others' last numbers have been told
                    return
                time.sleep(POLL)

    def finished(self) -> None:
        """Another question is finished here."""
        self.signs.count(self.processes.rank)

    def elsewhere(self) -> int:
        """How many questions of this launch other processes say that they have finished."""
        if time.monotonic() - self._looked > BEAT:
            self._looked = time.monotonic()
            self._elsewhere = sum(self.claims.state(seat)["finished"] for seat in self.claims.seats() if seat != self.processes.rank)
        return self._elsewhere

    def _claimed(self) -> Iterator[Question]:
        while self._estate:
            yield self.questions[self._estate.popleft()]
        for other in self._shares:
            while self._shares[other] and self._open(other):
                self._sign(self.processes.rank, idle=False)  # before the claim: who sees the claim sees that it is not finished
                position = self._shares[other].popleft() if other == self.processes.rank else self._shares[other].pop()
                if self.claims.take(position, self.processes.rank):
                    self._sign(self.processes.rank, here=True)  # after the first claim: nobody is here before having begun
                    yield self.questions[position]

    def _open(self, other: int) -> bool:
        """Whether questions of a process's share may be claimed: it has begun, or does not come."""
        return other == self.processes.rank or self.claims.state(other)["here"] or self._late()

    def _late(self) -> bool:
        return time.monotonic() - self.began > GRACE

    def _may_steal(self) -> bool:
        return any(share and self._open(other) for other, share in self._shares.items())

    def _inherit(self) -> bool:
        """Take the seats of processes that have died; whether there were any."""
        taken = []
        for seat in self.claims.seats():
            state = self.claims.state(seat)
            if seat in self.seats or state["idle"] or not (state["here"] or self._late()):
                continue
            try:
                journal = Journal(self.folder.journal_of(seat), wait=0.0)
            except JournalInUse:
                self._check_life(seat, state)
                continue
            if self.claims.state(seat)["idle"]:  # it became idle and left in between
                journal.close()
                continue
            self.journal.inherit(journal)
            self.signs.sign(seat, here=True, finished=state["finished"])
            taken.append(seat)
        if taken:
            self.seats += taken
            finished = self.journal.finished_ids()
            self._estate.extend(p for seat in taken for p in self.claims.of(seat) if self.questions[p].id not in finished)
        return bool(taken)

    def _check_life(self, seat: int, state: Mapping[str, Any]) -> None:
        if self.claims.silent(seat) > SILENT:
            raise UsageError(f"process {seat} (number {state['pid']} on {state['host']}) has given no sign of life for {SILENT:.0f} s, and "
                             f"{self.folder.journal_of(seat)} is locked: stop it; the same command then continues")

    def _sign(self, seat: int, **change: Any) -> None:
        if not change.items() <= self.signs.states[seat].items():
            self.signs.sign(seat, **change)

    # Ending

    def writes(self) -> bool:
        """Whether it falls to this process to write the run's files; else they are there when this returns. Everything is finished before."""
        if 0 in self.seats:
            return True
        joined, free = self.journal is not None, None
        self.close()
        while not self.folder.metrics.exists():
            if not self.folder.in_use(0):
                if joined and self._take_first():
                    return not self.folder.metrics.exists()
                free = free or time.monotonic()
                if time.monotonic() - free > 2 * BEAT:
                    raise UsageError(f"the run in {self.folder.path} ended unfinished: the same command continues")
            time.sleep(POLL)
        return False

    def _take_first(self) -> bool:
        """The first journal, whose holder has left or died; one of those who try gets it."""
        try:
            self.journal, self.seats = Journal(self.folder.journal), [0]
        except JournalInUse:
            return False
        return True

    def gather(self) -> dict[str, Lines]:
        """The lines of all finished questions; waits until the others have closed their journals."""
        done = lines_of(self.journal)
        for seat in self.folder.seats():
            while seat not in self.seats:
                try:
                    with Journal(self.folder.journal_of(seat), read_only=True) as journal:
                        done |= lines_of(journal)
                    break
                except JournalInUse:
                    if seat in self.claims.seats():
                        self._check_life(seat, self.claims.state(seat))
                    time.sleep(POLL)
        return done

    def clear(self) -> None:
        """The run is complete: leave no claims behind."""
        self._stop_signs()
        self.claims.remove()

    def close(self) -> None:
        """Leave: no more signs of life, the journals closed."""
        self._stop_signs()
        if self.journal is not None:
            self.journal.close()
        self.journal, self.seats = None, []

    def _stop_signs(self) -> None:
        if self.signs is not None:
            self.signs.stop()
            self.signs = None


def modified(path: Path) -> int | None:
    """When a file was written last, None where there is none."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def memory_seen(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """What all processes must see alike of a frozen memory."""
    began = config.get("memory_at_start")
    return began and {name: began[name] for name in ("thoughts", "digest")}
