"""Writes what pytest-benchmark measured in this folder into the table of all kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from common import Line, device_name, record, versions


def pytest_sessionfinish(session: pytest.Session) -> None:
    benchmarks = getattr(getattr(session.config, "_benchmarksession", None), "benchmarks", [])
    device, libraries = device_name(), versions()
    lines = []
    for benchmark in benchmarks:
        times = sorted(benchmark.stats.data)
        if times and not benchmark.has_error:
            case = benchmark.name.removeprefix("test_").replace("[", " ").rstrip("]")
            p20, p50, p80 = (1e6 * times[round(q * (len(times) - 1))] for q in (0.2, 0.5, 0.8))
            lines.append(Line(Path(benchmark.fullname.split("::")[0]).stem.removeprefix("bench_"), case, device, libraries, p20, p50, p80))
    if lines:
        record(lines)
