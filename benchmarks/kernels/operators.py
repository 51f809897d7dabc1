"""Every operator against plain PyTorch, eager and compiled, and against the bytes that this device can copy.

    python benchmarks/kernels/operators.py --out operators.json [--device cuda] [--tiny] [--only NAME]

On CUDA calls are timed under graph replay where they can be captured (`how` says so). `--tiny` uses small shapes, on the
CPU through the operators' CPU path, or with TRITON_INTERPRET=1 through the Triton kernels themselves; its times say nothing.
The file is written anew after every case, so that what was measured survives whatever comes later.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from cases import CASES, FULL, TINY, Case, Timed
from timing import measure
from torch import Tensor

from evoctx_torch.analysis.roofline import measure_bounds

TINY_ROWS = 3
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; exit code 1 if a case failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", choices=sorted(CASES), action="append")
    options = parser.parse_args(argv)
    bounds = measure_bounds(options.device, *((1 << 20, 64) if options.tiny else ()))
    found: dict[str, Any] = {
        "device": options.device, "torch": torch.__version__, "tiny": options.tiny, "interpreted": INTERPRETED, "bounds": asdict(bounds),
        "cases": [],
    }  # fmt: skip
    for name in options.only or CASES:
        for rows in (TINY_ROWS,) if options.tiny else CASES[name].rows:
            began = time.perf_counter()
            try:
                row = measure_case(name, CASES[name], rows, options.device, options.tiny)
                row["share_of_copy"] = row["bytes_per_s"] / bounds.copy_bytes_per_s
            except Exception as error:
                traceback.print_exc()
                row = {"operator": name, "rows": rows, "error": f"{type(error).__name__}: {error}".splitlines()[0]}
            found["cases"].append(row)
            torch.cuda.empty_cache()  # does nothing without CUDA
            options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
            print(line(row), f"({time.perf_counter() - began:.1f} s)", flush=True)
    return int(any("error" in row for row in found["cases"]))


def measure_case(name: str, timed: Timed, rows: int, device: str, tiny: bool) -> dict[str, Any]:
    """Times of one operator on one size; raises where the contenders disagree. torch.compile may fail: `compile_error` says why."""
    case = timed.build(device, rows, TINY if tiny else FULL)
    ours = case.launch if INTERPRETED else case.run
    outputs, samples = ours(), {"samples": 1} if tiny else {}
    agree(case, outputs, case.eager(), "eager")
    contenders: dict[str, Any] = {"ours": measure(ours, device, **samples)._asdict(), "eager": measure(case.eager, device, **samples)._asdict()}
    row: dict[str, Any] = {"operator": name, "rows": rows}
    if tiny or rows == timed.compiled:
        try:
            compiled = compile_whole(case.eager, tiny)
            agree(case, outputs, compiled(), "compiled")
            contenders["compiled"] = measure(compiled, device, **samples)._asdict()
        except Exception as error:
            row["compile_error"] = f"{type(error).__name__}: {error}".splitlines()[0]
    cost, seconds = case.cost, contenders["ours"]["p50"] * 1e-6
    return {
        **row, "bytes": cost.bytes, "flops": cost.flops, "seconds": seconds, "bytes_per_s": cost.bytes / seconds, "flops_per_s": cost.flops / seconds,
        "microseconds": contenders, **{f"{other}_ratio": t["p50"] / contenders["ours"]["p50"] for other, t in contenders.items() if other != "ours"},
    }


def compile_whole(call: Callable[[], tuple[Tensor, ...]], tiny: bool) -> Callable[[], tuple[Tensor, ...]]:
    """Compiled for these shapes and without a graph break. Tiny runs capture without generating code, which takes too long."""
    torch.compiler.reset()
    return torch.compile(call, fullgraph=True, dynamic=False, backend="eager" if tiny else "inductor")


def agree(case: Case, ours: Sequence[Any], theirs: Sequence[Any], who: str) -> None:
    """Raise unless the outputs are the same up to the last bits that a decision may hang on."""
    for number, (a, b) in enumerate(zip(ours[: case.compared], theirs, strict=False)):
        if a.is_floating_point():
            torch.testing.assert_close(a.float(), b.float(), atol=5e-3, rtol=5e-3, msg=lambda m, n=number: f"{case.name}: {who} output {n}: {m}")
        elif (share := (a != b).float().mean().item()) > 1e-2:
            raise AssertionError(f"{case.name}: {share:.1%} of {who} output {number} differ")


def line(row: dict[str, Any]) -> str:
    """A case in words."""
    head = f"{row['operator']:<26} B = {row['rows']:<6}"
    if "error" in row:
        return f"{head} FAILED: {row['error']}"
    ours = row["microseconds"]["ours"]
    ratios = ", ".join(f"{row[key]:.1f}x {key.removesuffix('_ratio')}" for key in ("eager_ratio", "compiled_ratio") if key in row)
    return f"{head} {ours['p50']:10.1f} us ({ours['how']}), {row['bytes_per_s'] / 1e9:8.1f} GB/s = {row['share_of_copy']:.0%} of copy, {ratios}"


if __name__ == "__main__":
    sys.exit(main())
