"""A circuit breaker: a server that keeps failing is left alone for a while, then asked once."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Opens after `threshold` requests in a row that failed with all their tries.

    While it is open nothing is sent for `first_s` seconds; then one request shows whether the server is back. If not, the pause
    doubles, up to `longest_s` seconds.
    """

    def __init__(self, threshold: int = 3, first_s: float = 1.0, longest_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.threshold, self.first_s, self.longest_s, self.clock = threshold, first_s, longest_s, clock
        self.reason = ""
        self._failed, self._pause_s, self._until = 0, first_s, 0.0

    @property
    def open(self) -> bool:
        """Whether the server counts as gone."""
        return self._failed >= self.threshold

    @property
    def wait_s(self) -> float:
        """Seconds until the next request may be sent; 0 unless it is open."""
        return max(0.0, self._until - self.clock()) if self.open else 0.0

    def failed(self, reason: str) -> None:
        """A request failed with all its tries."""
        if self.open and self.wait_s:  # it was under way when the breaker opened
            return
        self._pause_s = min(2 * self._pause_s, self.longest_s) if self.open else self.first_s
        self._failed += 1
        self._until, self.reason = self.clock() + self._pause_s, reason

    def succeeded(self) -> None:
        """The server answered."""
        self._failed = 0
