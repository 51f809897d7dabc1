"""Who answers which question, as files in RUN/claims that all processes of a run see.

A seat is a journal and a sign of life, `process-<seat>`; a process has the seat of its own rank, and may take that of a process
that has died. A question is claimed for a seat by a symbolic link to the seat's sign of life: making one is atomic on local and
network file systems, it names the holder in the same step, and of two processes that try one fails. A claim is never changed: who
holds the seat's journal, which the operating system allows one process at a time, answers the seat's questions.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from evoctx_torch.paths import replace

BEAT = 5.0  # seconds between two signs of life


class Claims:
    """The folder of claims. `launch.json`, written last, says which launch it is for and what was finished before it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.announcement = folder, folder / "launch.json"
        self._seen: dict[int, tuple[int, float]] = {}

    def withdraw(self) -> None:
        """From here on nobody takes an earlier announcement for this launch's."""
        self.announcement.unlink(missing_ok=True)

    def announce(self, launch: Mapping[str, Any], seats: Collection[int], started: Mapping[int, int]) -> None:
        """Begin a launch with these seats. `started`: questions (positions) of which a seat's journal holds results, and that seat."""
        self.remove()
        self.folder.mkdir()
        for seat in seats:
            self.sign(seat, here=False, idle=False, finished=0)
        for position, seat in started.items():
            self.take(position, seat)
        # Never into a folder that has been removed.
        replace(self.announcement, json.dumps(launch), make_folder=False)

    def launch(self) -> dict[str, Any] | None:
        """What was announced, None where nothing is."""
        try:
            return json.loads(self.announcement.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def take(self, position: int, seat: int) -> bool:
        """Claim a question for a seat; whether it is the seat's now."""
        try:
            os.symlink(f"process-{seat}", self.folder / f"question-{position}")
        except FileExistsError:
            return False
        return True

    def of(self, seat: int) -> list[int]:
        """The questions claimed for a seat, in order."""
        links = (entry for entry in self.folder.iterdir() if entry.name.startswith("question-"))
        return sorted(int(link.name.removeprefix("question-")) for link in links if os.readlink(link) == f"process-{seat}")

    def sign(self, seat: int, **state: Any) -> None:
        """Say how a seat stands: `here` (taken by a process), `idle` (all its questions are finished), `finished` (how many)."""
        replace(self._process(seat), json.dumps({"host": socket.gethostname(), "pid": os.getpid(), **state}), make_folder=False)

    def state(self, seat: int) -> dict[str, Any]:
        """What was signed for a seat last."""
        return json.loads(self._process(seat).read_text(encoding="utf-8"))

    def seats(self) -> list[int]:
        """All seats of the launch."""
        return sorted(int(file.name.removeprefix("process-")) for file in self.folder.glob("process-*") if file.suffix != ".draft")

    def beat(self, seat: int) -> None:
        """A sign of life."""
        os.utime(self._process(seat))

    def silent(self, seat: int) -> float:
        """Seconds since a sign of life came from a seat, by this process's clock alone: hosts' clocks differ."""
        with self._process(seat).open() as file:  # opening asks a network file system for what is new
            beat = os.fstat(file.fileno()).st_mtime_ns
        last, since = self._seen.get(seat, (None, 0.0))
        if beat != last:
            since = time.monotonic()
            self._seen[seat] = beat, since
        return time.monotonic() - since

    def remove(self) -> None:
        """Leave nothing of the claims behind."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _process(self, seat: int) -> Path:
        return self.folder / f"process-{seat}"


class SignsOfLife:
    """Keeps up the signs of life of the seats that this process holds, from a thread of its own: a model call may take long."""

    def __init__(self, claims: Claims) -> None:
        self.claims, self.states = claims, dict[int, dict[str, Any]]()
        self._lock, self._end = Lock(), Event()
        self._thread = Thread(target=self._run, name="signs of life", daemon=True)
        self._thread.start()

    def sign(self, seat: int, **change: Any) -> None:
        """Change a seat's state for all to see, at once."""
        with self._lock:
            state = self.states.setdefault(seat, {"here": True, "idle": False, "finished": 0})
            self.claims.sign(seat, **(state | change))
            state.update(change)

    def count(self, seat: int) -> None:
        """One more question of a seat is finished; others learn it with the next sign of life."""
        with self._lock:
            self.states[seat]["finished"] += 1

    def _run(self) -> None:
        told: dict[int, dict[str, Any]] = {}
        while not self._end.wait(BEAT):
            with self._lock:
                for seat, state in self.states.items():
                    if told.get(seat) == state:
                        self.claims.beat(seat)
                    else:
                        self.claims.sign(seat, **state)
                        told[seat] = dict(state)

    def stop(self) -> None:
        """The last sign of life has been given."""
        self._end.set()
        self._thread.join()
