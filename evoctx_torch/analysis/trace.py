"""From a Chrome trace of torch.profiler to the time of phases and of the controller's operators.

A phase is a range named `phase/NAME`; a tick is a step of the profiler, and what no phase claims of it is bookkeeping. Each
phase has its own time, without the phases inside it, so that all add up to the ticks. Kernels belong to the innermost phase
(and operator) that launched them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evoctx_kernels.costs import NAMESPACE, Cost, Operand, cost

PREFIX, STEP, BOOKKEEPING = "phase/", "ProfilerStep#", "bookkeeping"
RUNTIME, ON_DEVICE = {"cuda_runtime", "cuda_driver"}, {"kernel", "gpu_memcpy", "gpu_memset"}
ITEMSIZE = {
    "double": 8, "long int": 8, "long": 8, "float": 4, "int": 4, "c10::Half": 2, "c10::BFloat16": 2, "signed char": 1, "unsigned char": 1, "bool": 1,
}  # fmt: skip


@dataclass(slots=True)
class Spent:
    """What a phase or an operator took. Times in seconds; `device_seconds` of its kernels and copies on CUDA."""

    seconds: float = 0.0
    calls: int = 0
    launches: int = 0
    device_seconds: float = 0.0
    bytes: int = 0  # of operators of known cost


@dataclass(slots=True)
class OperatorSpent(Spent):
    """Of one operator: rows of all calls, FLOPs, and how many calls have a known cost."""

    rows: int = 0
    flops: int = 0
    costed: int = 0


@dataclass(slots=True)
class Times:
    """By phase name and by operator name (without `phase/` and `evoctx::`)."""

    phases: dict[str, Spent] = field(default_factory=dict)
    operators: dict[str, OperatorSpent] = field(default_factory=dict)


@dataclass(slots=True)
class Open:
    """A range that encloses the events at hand."""

    end: float
    spent: Spent
    is_phase: bool


def read_trace(path: Path) -> Times:
    """The times in a file that `torch.profiler` wrote."""
    return times(json.loads(path.read_text(encoding="utf-8"))["traceEvents"])


def times(events: Sequence[Mapping[str, Any]]) -> Times:
    """Sweep over the thread that runs the ticks, in the order of time, with the stack of ranges that are open."""
    found, device = Times(), device_seconds(events)
    threads = {(e["pid"], e["tid"]) for e in events if e["name"].startswith(STEP) and e.get("cat") == "user_annotation"}
    mine = [e for e in events if e.get("ph") == "X" and (e["pid"], e["tid"]) in threads and kind(e)]
    stack: list[Open] = []
    for event in sorted(mine, key=lambda e: (e["ts"], -e["dur"])):
        while stack and stack[-1].end <= event["ts"]:
            stack.pop()
        phase = next((o.spent for o in reversed(stack) if o.is_phase), None)
        seconds, what = event["dur"] * 1e-6, kind(event)
        if what == "phase":
            spent = found.phases.setdefault(phase_name(event["name"]), Spent())
            if phase is not None:
                phase.seconds -= seconds
            spent.seconds, spent.calls = spent.seconds + seconds, spent.calls + 1
            stack.append(Open(event["ts"] + event["dur"], spent, True))
        elif what == "operator":
            spent = found.operators.setdefault(event["name"].removeprefix(NAMESPACE), OperatorSpent())
            spent.seconds, spent.calls = spent.seconds + seconds, spent.calls + 1
            if known := operator_cost(event):
                spent.rows, spent.bytes, spent.flops = spent.rows + known.rows, spent.bytes + known.bytes, spent.flops + known.flops
                spent.costed += 1
                if phase is not None:
                    phase.bytes += known.bytes
            stack.append(Open(event["ts"] + event["dur"], spent, False))
        else:
            operator = next((o.spent for o in reversed(stack) if not o.is_phase), None)
            for spent in filter(None, (phase, operator)):
                spent.launches += "Launch" in event["name"]
                spent.device_seconds += device.get(event.get("args", {}).get("correlation"), 0.0)
    return found


def kind(event: Mapping[str, Any]) -> str | None:
    """phase | operator | runtime (a call of CUDA's that may start work on the device), None for all else."""
    category, name = event.get("cat"), event["name"]
    if category == "user_annotation" and name.startswith((PREFIX, STEP)):
        return "phase"
    if category == "cpu_op" and name.startswith(NAMESPACE):
        return "operator"
    return "runtime" if category in RUNTIME else None


def phase_name(name: str) -> str:
    """The phase of a range: a step's own time is bookkeeping."""
    return BOOKKEEPING if name.startswith(STEP) else name.removeprefix(PREFIX)


def device_seconds(events: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """Seconds on the device by the correlation id of the runtime call that started the work; a graph's kernels share one."""
    spent: dict[int, float] = {}
    for event in events:
        if event.get("cat") in ON_DEVICE:
            correlation = event["args"]["correlation"]
            spent[correlation] = spent.get(correlation, 0.0) + event["dur"] * 1e-6
    return spent


def operator_cost(event: Mapping[str, Any]) -> Cost | None:
    """The modelled cost of an operator's call, from the shapes that the profiler recorded."""
    args = event["args"]
    if "Input Dims" not in args:
        return None
    operands = [
        Operand(tuple(shape), ITEMSIZE.get(kind, 0), number(value) if kind == "Scalar" else None)
        for shape, kind, value in zip(args["Input Dims"], args["Input type"], args["Concrete Inputs"], strict=True)
    ]
    return cost(event["name"], operands)


def number(text: str) -> float | None:
    """A scalar argument as the profiler writes it."""
    try:
        return float({"True": 1, "False": 0}.get(text, text))
    except ValueError:  # None, a list
        return None
