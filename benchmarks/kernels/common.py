"""One table of all kernel benchmarks, `benchmarks/results/kernels.csv`: a line for each operator, case and device.

`bench_*.py` fill it whenever pytest runs them (`conftest.py`); a line measured again replaces the old one, so the file
holds the newest figures of every machine that it was taken to.
"""

from __future__ import annotations

import csv
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch

TABLE = Path(__file__).parents[1] / "results" / "kernels.csv"


class Line(NamedTuple):
    """Times are of one call, in microseconds; on a CPU they are CPU time."""

    operator: str
    case: str
    device: str
    versions: str
    p20: float
    p50: float
    p80: float


def record(lines: Iterable[Line], table: Path = TABLE) -> None:
    """Put `lines` into the table, in place of those of the same operator, case and device."""
    known = {(line.operator, line.case, line.device): line for line in [*read(table), *lines]}
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Line._fields)
        writer.writerows((*line[:4], *(f"{float(x):.1f}" for x in line[4:])) for _, line in sorted(known.items()))


def read(table: Path = TABLE) -> list[Line]:
    """All lines of the table; none where there is no table yet."""
    if not table.exists():
        return []
    with table.open(newline="", encoding="utf-8") as file:
        return [Line(*row[:4], *map(float, row[4:])) for row in list(csv.reader(file))[1:]]


def device_name(device: str = "cpu") -> str:
    """The model of a GPU, or of the processor and the threads that torch uses of it."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    models = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    threads = torch.get_num_threads()
    return f"{models[0] if models else platform.processor()}, {threads} thread{'s' * (threads > 1)}"


def versions() -> str:
    """Of what the times depend on."""
    return " ".join(f"{name}-{version(name)}" for name in ("torch", "triton", "numpy"))
