"""What a server counts, in Prometheus's text format (version 0.0.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Histogram:
    """Counts of values up to each of `bounds`, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str) -> list[str]:
        """The samples: cumulated buckets, sum and count."""
        below, found = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            below += count
            found.append(f'{name}_bucket{{le="{bound}"}} {below}')
        return [*found, f"{name}_sum {self.sum:.9g}", f"{name}_count {below}"]


class Metrics:
    """Requests and errors of `/retrieve`, searches, and how long both take. Used from one event loop only."""

    def __init__(self, waiting: Callable[[], int] = lambda: 0) -> None:
        self.requests: Counter[int] = Counter()  # by status
        self.queries = 0
        self.latency, self.batches, self.searches = Histogram(SECONDS), Histogram(SIZES), Histogram(SECONDS)
        self.waiting = waiting

    def request(self, status: int, seconds: float) -> None:
        """A request was answered with `status` after `seconds`."""
        self.requests[status] += 1
        self.latency.add(seconds)

    def search(self, queries: int, seconds: float) -> None:
        """One search answered `queries` together."""
        self.queries += queries
        self.batches.add(queries)
        self.searches.add(seconds)

    def text(self) -> str:
        """All of it, as `GET /metrics` gives it."""
        errors = sum(count for status, count in self.requests.items() if status >= 400)
        families = [
            ("requests_total", "counter", "Requests to /retrieve by status.",
             [f'evoctx_requests_total{{status="{status}"}} {count}' for status, count in sorted(self.requests.items())]),
            ("errors_total", "counter", "Requests that got no passages.", [f"evoctx_errors_total {errors}"]),
            ("queries_total", "counter", "Queries searched for.", [f"evoctx_queries_total {self.queries}"]),
            ("queries_waiting", "gauge", "Queries that wait for a search.", [f"evoctx_queries_waiting {self.waiting()}"]),
            ("request_seconds", "histogram", "From a request's arrival to its reply.", self.latency.lines("evoctx_request_seconds")),
            ("batch_queries", "histogram", "Queries answered by one search.", self.batches.lines("evoctx_batch_queries")),
            ("search_seconds", "histogram", "Time of one search.", self.searches.lines("evoctx_search_seconds")),
        ]
        lines = [line for name, kind, words, samples in families for line in (f"# HELP evoctx_{name} {words}", f"# TYPE evoctx_{name} {kind}", *samples)]
        return "\n".join(lines) + "\n"
