"""The roofline of a device, measured on it, and where the controller's operators lie under it.

Williams, Waterman & Patterson 2009, "Roofline: an insightful visual performance model": an operator of I FLOPs a byte can
reach at most min(peak FLOP/s, I x bandwidth). Both bounds here are what this device did a moment ago, not its data sheet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPEATS = 7


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the device reached: bytes read and written by a large copy, float32 FLOPs of a large matrix product, a second."""

    copy_bytes_per_s: float
    matmul_flops_per_s: float


def measure_bounds(device: str, copied: int | None = None, size: int | None = None) -> Bounds:
    """Best of several copies and matrix products: `copied` bytes and `size` x `size` (by default as large as the device needs).

    The precision of float32 products is torch's setting at this moment (without TensorFloat-32 unless it was allowed).
    """
    cuda = device.startswith("cuda")
    copied, size = copied or (1 << 30 if cuda else 1 << 27), size or (8192 if cuda else 1024)
    return Bounds(copy_rate(device, copied), matmul_rate(device, size))


def copy_rate(device: str, copied: int) -> float:
    """Bytes read and written a second by a copy of `copied` bytes."""
    import torch
    source = torch.ones(copied // 4, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds(lambda: target.copy_(source), device)


def matmul_rate(device: str, size: int) -> float:
    """FLOPs a second of a product of two float32 matrices, `size` x `size`."""
    import torch
    left, product = torch.ones(size, size, device=device), torch.empty(size, size, device=device)
    return 2 * size**3 / seconds(lambda: torch.mm(left, left, out=product), device)


def seconds(work: Callable[[], object], device: str) -> float:
    """The least of several timings, after one that is not counted; on CUDA between two events."""
    work()
    if device.startswith("cuda"):
        import torch
        spent = []
        for _ in range(REPEATS):
            before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            before.record()
            work()
            after.record()
            after.synchronize()
            spent.append(before.elapsed_time(after) * 1e-3)
        return min(spent)
    spent = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return min(spent)


def draw(operators: Sequence[Mapping[str, Any]], bounds: Bounds, path: Path) -> None:
    """Write the plot (PNG): the roofline with a point an operator, and the GB/s of each beside the measured copy.

    `operators` have `operator`, `bytes`, `flops`, `seconds`; those without bytes or time are left out.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    known = [o for o in operators if o["bytes"] and o["seconds"]]
    computing = [o for o in known if o["flops"]]
    copy, peak = bounds.copy_bytes_per_s, bounds.matmul_flops_per_s
    ridge = peak / copy
    reach = [min([0.1, *(o["flops"] / o["bytes"] / 2 for o in computing)]), ridge, 30 * ridge]
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True}):
        figure = Figure(figsize=(9.6, 4), layout="constrained")
        roof, bars = figure.subplots(1, 2, width_ratios=(3, 2))
        roof.loglog(reach, [min(copy * x, peak) for x in reach], color="black", linewidth=1.2, label=f"copy {copy / 1e9:.4g} GB/s, "
                    f"float32 matmul {peak / 1e9:.4g} GFLOP/s")
        for number, o in enumerate(computing):
            roof.scatter(o["flops"] / o["bytes"], o["flops"] / o["seconds"], s=28, color=f"C{number % 10}", label=label(o), zorder=3)
        roof.set(xlabel="arithmetic intensity, FLOP/byte", ylabel="FLOP/s", title="Roofline, its bounds measured on this device")
        roof.grid(which="major", linewidth=0.4, color="0.85")
        figure.legend(*roof.get_legend_handles_labels(), loc="outside lower left", frameon=False, ncols=2)
        rates = bars.barh([o["operator"] for o in known], [o["bytes"] / o["seconds"] / 1e9 for o in known], color="0.6", height=0.6)
        bars.bar_label(rates, fmt="%.3g", padding=3)
        bars.axvline(copy / 1e9, color="black", linestyle=(0, (4, 3)), linewidth=1)
        bars.set(xlabel="GB/s (dashed: the copy)", title="Bandwidth" if known else "No operator of known cost ran")
        bars.set_xlim(0, 1.15 * max([copy / 1e9, *(o["bytes"] / o["seconds"] / 1e9 for o in known)]))
        bars.invert_yaxis()
        FigureCanvasAgg(figure).print_png(str(path), metadata={"Software": None})


def label(operator: Mapping[str, Any]) -> str:
    """The operator with what it achieved."""
    name, spent = operator["operator"], operator["seconds"]
    return f"{name}: {operator['bytes'] / spent / 1e9:.3g} GB/s, {operator['flops'] / spent / 1e9:.3g} GFLOP/s"
