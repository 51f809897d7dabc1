"""The plots of benchmarks/gpu.py, from the JSON files that its steps left."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from evoctx_torch.analysis.roofline import Bounds, draw

STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True}


def save(figure: Figure, path: Path) -> None:
    """A PNG without the name of its maker, so that equal numbers give equal files."""
    FigureCanvasAgg(figure).print_png(str(path), metadata={"Software": None})


def plot_operators(found: Mapping[str, Any], folder: Path) -> None:
    """`operators.png`: share of the measured copy, and times as long as eager and compiled PyTorch need; `roofline.png`."""
    rows = [row for row in found["cases"] if "error" not in row]
    bounds = Bounds(**found["bounds"])
    names = [f"{row['operator']}\nB = {row['rows']:,}" for row in rows]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 1.5 + 0.42 * len(rows)), layout="constrained")
        share, speed = figure.subplots(1, 2, sharey=True)
        bars = share.barh(names, [100 * row["share_of_copy"] for row in rows], color="0.6")
        share.bar_label(bars, fmt="%.0f", padding=3)
        share.axvline(100, color="black", linestyle=(0, (4, 3)), linewidth=1)
        share.set(xlabel="% of the measured copy", title=f"Bytes a second (copy: {bounds.copy_bytes_per_s / 1e9:,.0f} GB/s)")
        for offset, (key, label) in zip((-0.2, 0.2), (("eager_ratio", "eager"), ("compiled_ratio", "torch.compile")), strict=True):
            there = [(number, row[key]) for number, row in enumerate(rows) if key in row]
            bars = speed.barh([n + offset for n, _ in there], [ratio for _, ratio in there], height=0.38, label=label)
            speed.bar_label(bars, fmt="%.3g", padding=3)
        speed.axvline(1, color="black", linestyle=(0, (4, 3)), linewidth=1)
        speed.set(xscale="log", xlabel="times as long as the operator", title="PyTorch instead")
        figure.legend(*speed.get_legend_handles_labels(), loc="outside lower right", frameon=False, ncols=2)
        share.invert_yaxis()
        save(figure, folder / "operators.png")
    draw([row | {"operator": f"{row['operator']} B={row['rows']}"} for row in rows], bounds, folder / "roofline.png")


def plot_phases(profile: Mapping[str, Any], folder: Path) -> None:
    """`phases.png`: the share of every phase."""
    rows: Sequence[Mapping[str, Any]] = profile["phases"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 0.8 + 0.35 * len(rows)), layout="constrained")
        axes = figure.subplots()
        bars = axes.barh([row["phase"] for row in rows], [100 * row["share"] for row in rows], color="0.6")
        axes.bar_label(bars, fmt="%.2f", padding=3)
        axes.set(xlabel="share of the time of a tick, %", title=f"{profile['method']}, {profile['batch_size']} questions at once, {profile['device_name']}")
        axes.invert_yaxis()
        save(figure, folder / "phases.png")


def main(folder: Path) -> None:
    """All plots that the files in `folder` allow; at least one."""
    drawn = 0
    if (path := folder / "operators.json").exists():
        plot_operators(json.loads(path.read_text(encoding="utf-8")), folder)
        drawn += 2
    if (path := folder / "engine.json").exists() and (profile := json.loads(path.read_text(encoding="utf-8")).get("profile")):
        plot_phases(profile, folder)
        drawn += 1
    if not drawn:
        raise SystemExit(f"{folder} holds neither operators.json nor engine.json: there is nothing to draw")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
