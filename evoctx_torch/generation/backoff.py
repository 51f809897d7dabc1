"""When a failed request is sent again: how often, and after how long."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from evoctx_torch.keys import row_seed


class Trouble(Exception):
    """A request that brought no usable reply.

    `tries` bounds how often such a request is sent in all (None: as often as the `Backoff` allows);
    `wait_s` is the pause that the server asked for.
    """

    def __init__(self, message: str, tries: int | None = None, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.tries, self.wait_s = tries, wait_s


@dataclass(frozen=True, slots=True)
class Backoff:
    """At most `tries` requests; pauses double from `first_s` seconds and never exceed `longest_s`.

    The jitter is keyed by who asks, like all randomness of a run: rows that failed together come back at
    different moments, and the same run waits the same pauses.
    """

    tries: int = 4
    first_s: float = 0.25
    longest_s: float = 30.0

    def pause(self, failed: int, wait_s: float, seed: int, question_id: str, number: int) -> float:
        """Seconds to wait after the `failed`-th failure (from 1): between half and the whole of the doubled pause,
        or what the server asked for if that is longer."""
        share = 0.5 + row_seed(seed, question_id, number, failed) / 2**64
        return min(self.longest_s, max(wait_s, share * self.first_s * 2 ** (failed - 1)))


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds that a `Retry-After` header asks for, given as a number or as a date (RFC 9110, 10.2.3); else 0."""
    value = headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return 0.0
