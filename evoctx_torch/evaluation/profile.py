"""`evoctx profile`: a few ticks of a method under torch.profiler. Imports torch only once it runs."""

from __future__ import annotations

import dataclasses
import json
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from evoctx_torch.errors import MissingExtra, UsageError
from evoctx_torch.evaluation.config import RunConfig
from evoctx_torch.operations import Question
from evoctx_torch.options import option
from evoctx_torch.paths import check_writable, replace

if TYPE_CHECKING:
    import torch

    from evoctx_torch.analysis.trace import OperatorSpent, Spent
    from evoctx_torch.engine import Engine
    from evoctx_torch.evaluation.ranges import Ranges, Work

FILES = ("trace.json", "phases.json", "roofline.png")
ORDER = ("generate", "tokenize", "embed", "search", "decide", "bookkeeping")
TOKENS = ("prompt_tokens", "computed_prompt_tokens", "completion_tokens")
Report = Callable[[str, int, int], None]  # what is being done, how much of it is done, how much there is


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """How much is profiled."""

    ticks: int = option(12, "ticks that are recorded", unit="ticks", low=1)
    warmup: int = option(2, "ticks before the recording: first calls load, compile and allocate", unit="ticks", low=0)


def profile(config: RunConfig, options: ProfileOptions, out: Path, report: Report) -> dict[str, Any]:
    """Run a method's first ticks and write `trace.json`, `phases.json` and `roofline.png` to `out`.

    Questions come again when they run out, at most as many at once as there are. Returns what phases.json holds. Raises
    `UsageError` before a model is loaded and before anything is written.
    """
    check_folder(out)
    if find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "report", "the roofline plot")
    from evoctx_torch.evaluation.inputs import check_inputs, record
    inputs = check_inputs(config)
    from evoctx_torch.analysis.roofline import draw, measure_bounds
    from evoctx_torch.evaluation.assemble import build_engine
    from evoctx_torch.generation.models import resolve_device
    device = resolve_device(config.common.device)
    with ExitStack() as stack:
        engine = build_engine(config, inputs, stack, report, lambda _: None)
        out.mkdir(parents=True, exist_ok=True)
        measured = profile_engine(engine, inputs.questions, device, options, out / "trace.json", report)
    report("measuring the device", 0, 1)
    bounds = measure_bounds(device)
    report("measuring the device", 1, 1)
    found = {**measured, "bounds": dataclasses.asdict(bounds), "config": record(config, inputs)}
    draw(measured["operators"], bounds, out / "roofline.png")
    replace(out / "phases.json", json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    return found


def check_folder(out: Path) -> None:
    """Raise `UsageError` unless `out` is new, empty, or holds an earlier profile, which is then replaced."""
    check_writable(out)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; expected a folder")
    if out.is_dir() and (others := sorted({p.name for p in out.iterdir()} - set(FILES))):
        raise UsageError(f"--out {out} holds {others[0]}, which is no part of a profile: choose a new folder")


def profile_engine(
    engine: Engine, questions: Sequence[Question], device: str, options: ProfileOptions, trace: Path, report: Report
) -> dict[str, Any]:
    """Record `options.ticks` ticks of `engine` into `trace`; the profile as phases.json holds it."""
    from evoctx_torch.analysis.trace import read_trace
    from evoctx_torch.evaluation.ranges import Ranges, put_on
    ranges, batch_size = Ranges(device), min(engine.batch_size, len(questions))
    with ExitStack() as stack:
        put_on(engine, ranges, stack)
        recorder = stack.enter_context(profiler(device, options, trace))
        for name, value in (("batch_size", batch_size), ("on_tick", stepping(recorder, ranges, engine.ticks, options, report))):
            stack.callback(setattr, engine, name, getattr(engine, name))
            setattr(engine, name, value)
        stream = stack.enter_context(closing(engine.stream(cycle(questions))))
        with suppress(Enough):
            for _ in stream:
                pass
    found = read_trace(trace)
    return {
        "method": engine.method.name, "device": device, "device_name": device_name(device), "batch_size": batch_size,
        "ticks": options.ticks, "warmup": options.warmup, "seconds": sum(spent.seconds for spent in found.phases.values()),
        "phases": phase_rows(found.phases, ranges.work), "operators": operator_rows(found.operators, device),
    }


def profiler(device: str, options: ProfileOptions, trace: Path) -> torch.profiler.profile:
    """Skips the warm-up ticks, records the others and writes them to `trace`; shapes are recorded for the operators' bytes."""
    from torch.profiler import ProfilerActivity, profile, schedule
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.startswith("cuda") else [])]
    with warnings.catch_warnings():  # none is what was asked for
        warnings.filterwarnings("ignore", message="Profiler won't be using warmup")
        steps = schedule(wait=max(options.warmup - 1, 0), warmup=min(options.warmup, 1), active=options.ticks, repeat=1)
    return profile(activities=activities, schedule=steps, record_shapes=True, on_trace_ready=lambda p: p.export_chrome_trace(str(trace)))


class Enough(Exception):
    """The last tick is recorded."""


def stepping(
    recorder: torch.profiler.profile, ranges: Ranges, before: int, options: ProfileOptions, report: Report
) -> Callable[[Engine], None]:
    """What an engine with `before` ticks behind it calls after each: a step of the profiler, `Enough` after the last."""
    last = options.warmup + options.ticks

    def on_tick(engine: Engine) -> None:
        ticks = engine.ticks - before
        report("ticks", ticks, last)
        if ticks == options.warmup:
            ranges.work.clear()
        recorder.step()
        if ticks == last:
            raise Enough

    return on_tick


def phase_rows(spent: Mapping[str, Spent], work: Mapping[str, Work]) -> list[dict[str, Any]]:
    """A dictionary a phase, in the order of `ORDER`; numbers that are not known are None."""
    whole = sum(s.seconds for s in spent.values())
    rows = []
    for phase in sorted(spent, key=lambda name: (ORDER.index(name.split()[0]), name)):
        s, w = spent[phase], work.get(phase)
        row = {"phase": phase, "seconds": s.seconds, "share": s.seconds / whole, "calls": s.calls, "rows": None, "rows_a_call": None, "failed": None}
        row |= dict.fromkeys(TOKENS) | {"bytes": s.bytes or None, "launches": s.launches, "device_seconds": s.device_seconds}
        if w is not None:
            row |= {"rows": sum(w.rows), "failed": w.failed, "bytes": s.bytes + w.bytes or None} | {name: getattr(w, name) or None for name in TOKENS}
        if w is not None and w.rows:
            row["rows_a_call"] = {"least": min(w.rows), "median": median(w.rows), "most": max(w.rows)}
        if phase.startswith("generate"):
            row["bytes"] = None  # of a model's own traffic nothing is known, and what its sampling moves would pass for it
        rows.append(row)
    return rows


def operator_rows(spent: Mapping[str, OperatorSpent], device: str) -> list[dict[str, Any]]:
    """A dictionary an operator, most time first. `seconds` are the kernels' on CUDA, the call's own on the CPU."""
    rows = []
    for name, s in spent.items():
        seconds, known = s.device_seconds if device.startswith("cuda") else s.seconds, s.costed == s.calls
        rows.append({
            "operator": name, "seconds": seconds, "calls": s.calls, "launches": s.launches, "rows": s.rows if known else None,
            "bytes": s.bytes if known else None, "flops": s.flops if known else None,
            "bytes_per_s": s.bytes / seconds if known and seconds else None, "flops_per_s": s.flops / seconds if known and seconds else None,
        })
    return sorted(rows, key=lambda row: (-row["seconds"], row["operator"]))


def device_name(device: str) -> str:
    """The name of the GPU, or of the processor's architecture."""
    import torch
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else f"{platform.processor() or platform.machine()} CPU"
