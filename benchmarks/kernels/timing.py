"""How long a call takes: on CUDA under the replay of a graph, so that launching from Python costs nothing; on the CPU as it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

GRAPH_SECONDS, MOST_CALLS = 2e-3, 64  # what one graph should last: then its launch weighs nothing
SAMPLES = 30


class Timing(NamedTuple):
    """Microseconds a call, and how they were taken: graph | launches (where a call cannot be captured) | cpu."""

    p20: float
    p50: float
    p80: float
    how: str


def measure(call: Callable[[], object], device: str, samples: int = SAMPLES) -> Timing:
    """Time `call`, after calls that are not counted. Caches stay warm: what fits into them is read from there."""
    if not device.startswith("cuda"):
        call()
        return percentiles([wall(call) for _ in range(samples)], "cpu")
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    calls = max(1, min(MOST_CALLS, round(GRAPH_SECONDS / max(events(call), 1e-7))))
    try:
        graph = captured(call, calls)
    except RuntimeError:  # it waits for the device
        torch.cuda.synchronize()
        return percentiles([events(call) for _ in range(samples)], "launches")
    graph.replay()
    return percentiles([events(graph.replay) / calls for _ in range(samples)], "graph")


def captured(call: Callable[[], object], calls: int) -> torch.cuda.CUDAGraph:
    """A graph of `calls` calls one after the other, warmed up on the stream of its own that capturing needs."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return graph


def events(call: Callable[[], object]) -> float:
    """Seconds on the device between two events around a call."""
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before.record()
    call()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) * 1e-3


def wall(call: Callable[[], object]) -> float:
    """Seconds of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def percentiles(seconds: list[float], how: str) -> Timing:
    """In microseconds."""
    p20, p50, p80 = torch.tensor(seconds, dtype=torch.float64).quantile(torch.tensor([0.2, 0.5, 0.8], dtype=torch.float64)).mul(1e6).tolist()
    return Timing(p20, p50, p80, how)
