"""What a retrieval server allows, as options of `evoctx serve`."""

from __future__ import annotations

from dataclasses import dataclass

from evoctx_torch.errors import UsageError
from evoctx_torch.options import option


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where the server listens, how it batches, and what is too much."""

    host: str = option("127.0.0.1", "address to listen on; others than loopback let other machines in")
    port: int = option(8000, "port to listen on; 0 takes a free one", low=0, high=65535)
    token_env: str | None = option(None, "name of the environment variable with the token that requests must carry (default: none is asked for)")
    batch_ms: float = option(3.0, "how long a search waits for the requests of other clients", unit="milliseconds", low=0, high=10_000)
    max_batch: int = option(256, "most queries of one search", unit="queries", low=1)
    max_waiting: int = option(16384, "most queries that may wait; more are told to come back (503)", unit="queries", low=1)
    max_queries: int = option(4096, "most queries of one request", unit="queries", low=1)
    max_topk: int = option(1000, "largest topk of a request", unit="passages", low=1)
    max_passages: int = option(65536, "most passages of one reply, queries times topk", unit="passages", low=1)
    max_query_chars: int = option(32768, "longest query", unit="characters", low=1)
    max_body: int = option(8 << 20, "largest body of a request", unit="bytes", low=1)
    body_timeout: float = option(30.0, "how long a client may take to send its body", unit="seconds", above=0)
    drain: float = option(15.0, "how long a server that is told to stop goes on answering what it has begun", unit="seconds", low=0)

    def check(self) -> None:
        """A request that is allowed must find room in the queue."""
        if self.max_waiting < self.max_queries:
            raise UsageError(f"--max-waiting is {self.max_waiting}, less than --max-queries {self.max_queries}: a full request would never fit; "
                             "give a larger --max-waiting or a smaller --max-queries")
