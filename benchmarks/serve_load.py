"""A retrieval server under load: errors, latency, batch sizes, growth of memory and descriptors, as JSON.

    python benchmarks/serve_load.py [--clients 64] [--seconds 60] [--index DIR] [--out FILE]

Starts `evoctx serve` on loopback (over an index of the packaged demo corpus, unless --index names another) and lets every client
send one request after the other, each with a query that nobody asked before, so that every query is embedded. The figures are
of the time after a warm-up. Exit code 1 if a request failed, or the server ended with more descriptors than it began with. A
server remembers the vectors of the last 65,536 queries (about 4 bytes x dimension + 0.5 KB each): memory grows by that much, and
no further, while it meets new queries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from evoctx_torch.operations import Passage
from evoctx_torch.retrieval.folder import read_corpus, read_index

EVOCTX = [sys.executable, "-m", "evoctx_torch"]


def sample(pid: int) -> dict[str, float]:
    """Resident memory in MB and open descriptors of a process (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return {"rss_mb": int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024, "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def searches(metrics: str) -> dict[str, float]:
    """Cumulated counts of the batch sizes, their sum and number, and the seconds of all searches, from GET /metrics."""
    found = re.findall(r'^evoctx_batch_queries_(bucket\{le="[^"]+"\}|sum|count) (\S+)$', metrics, re.M)
    found += re.findall(r"^evoctx_search_(seconds)_sum (\S+)$", metrics, re.M)
    return {name: float(value) for name, value in found}


def batches(before: dict[str, float], after: dict[str, float]) -> dict[str, Any]:
    """Searches, their mean size, and how many had each size, between two readings."""
    found = {name: after[name] - before[name] for name in after}
    sizes, below = {}, 0.0
    for name in (name for name in found if name.startswith("bucket")):
        if (count := found[name] - below) > 0:
            sizes[f"<= {re.search(chr(34) + '(.+)' + chr(34), name)[1]}"] = int(count)
        below = found[name]
    return {"searches": int(found["count"]), "mean_queries": found["sum"] / max(found["count"], 1),
            "mean_seconds": found["seconds"] / max(found["count"], 1), "sizes": sizes}


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds below which a share of the requests lies."""
    ranked = sorted(seconds)
    return {name: 1000 * ranked[min(int(share * len(ranked)), len(ranked) - 1)] for name, share in
            (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))} if ranked else {}


class Load:
    """`clients` clients that ask until told to stop."""

    def __init__(self, url: str, passages: Sequence[Passage], topk: int) -> None:
        self.url, self.passages, self.topk = url, passages, topk
        self.answered: list[tuple[float, float]] = []  # when it was sent, seconds until the answer
        self.errors: list[str] = []
        self.asked = 0
        self.stopped = False

    async def client(self) -> None:
        """One client with one connection: the next request when the last is answered. Plain streams, since a library would
        need more of the processor than the server."""
        place = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        while not self.stopped:
            self.asked += 1
            words = self.passages[self.asked % len(self.passages)].contents.split()
            body = json.dumps({"queries": [f"{' '.join(words[:12])} {self.asked}"], "topk": self.topk, "return_scores": True}).encode()
            began = time.perf_counter()
            writer.write(b"POST /retrieve HTTP/1.1\r\nHost: load\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            content = await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
            self.answered.append((began, time.perf_counter() - began))
            if b" 200 " not in head.partition(b"\r\n")[0] or [len(row) for row in json.loads(content)["result"]] != [self.topk]:
                self.errors.append(f"{head[:40]!r}: {content[:200]!r}")
        writer.close()
        await writer.wait_closed()

    async def run(self, clients: int, seconds: float, warm_up: float, pid: int) -> dict[str, Any]:
        """The figures of `seconds` seconds after the warm-up."""
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http, asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(self.client())  # a client whose connection breaks ends the test
            await asyncio.sleep(warm_up)
            before, began, samples = searches((await http.get(f"{self.url}/metrics")).text), time.perf_counter(), [sample(pid)]
            for _ in range(2):
                await asyncio.sleep(seconds / 2)
                samples.append(sample(pid))
            spent, latencies = time.perf_counter() - began, [seconds for sent, seconds in self.answered if sent >= began]
            count = sum(sent + seconds >= began for sent, seconds in self.answered)
            after = searches((await http.get(f"{self.url}/metrics")).text)
            self.stopped = True
        return {
            "requests": count, "errors": len(self.errors), "first_errors": self.errors[:3], "requests_per_s": count / spent,
            "latency_ms": percentiles(latencies), "batches": batches(before, after),
            **{name: dict(zip(("start", "half", "end"), (s[name] for s in samples), strict=True)) for name in samples[0]},
        }


def measure(index: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Serve the index, load it, stop it."""
    passages = list(read_corpus(read_index(index)))
    server = subprocess.Popen([*EVOCTX, "serve", "--index", str(index), "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        line = server.stderr.readline()
        found = re.search(r"(http://\S+)/retrieve", line)
        if found is None:
            raise SystemExit(f"the server did not start: {line}{server.stderr.read()}")
        while True:
            try:
                httpx.get(f"{found[1]}/health", trust_env=False)
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        load = Load(found[1], passages, options.topk)
        figures = asyncio.run(load.run(options.clients, options.seconds, options.warm_up, server.pid))
        server.send_signal(signal.SIGTERM)
        return {"clients": options.clients, "seconds": options.seconds, "passages": len(passages), "topk": options.topk, **figures,
                "exit_code": server.wait(30), "cpus": os.cpu_count(), "load_average": os.getloadavg()}
    finally:
        server.kill()
        server.stderr.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm-up", type=float, default=5)
    parser.add_argument("--topk", type=int, default=3)
    parser.add_argument("--index", type=Path, help="an index folder (default: the demo corpus, embedded now)")
    parser.add_argument("--out", type=Path, help="a file for the JSON besides")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        index = options.index
        if index is None:
            index = Path(folder) / "index"
            subprocess.run([*EVOCTX, "index", "demo", "--out", str(index)], check=True)
        figures = measure(index, options)
    text = json.dumps(figures, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
    grown = figures["descriptors"]["end"] > figures["descriptors"]["start"]
    return 1 if figures["errors"] or grown or figures["exit_code"] else 0


if __name__ == "__main__":
    sys.exit(main())
