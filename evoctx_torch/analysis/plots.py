"""The report's plots as inline SVG, drawn by matplotlib (extra `report`); colours follow the page's light or dark theme."""

from __future__ import annotations

import io
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from evoctx_torch.analysis.reason import SIGNALS, signal_name, thresholds
from evoctx_torch.analysis.rows import action_shares
from evoctx_torch.operations import NoveltyRule

# Colours that matplotlib writes and that the page then replaces by its own variables.
INK, FAINT = "#010203", "#010204"
COLOURS = {"near": "#020301", "centroid": "#020302", "tail": "#020303", "RETRIEVE": "#030401", "THINK": "#030402", "other": "#030403"}
_VARIABLES = {INK: "currentColor", FAINT: "var(--line)", **{colour: f"var(--{name.lower()})" for name, colour in COLOURS.items()}}
_STYLE = {
    "svg.hashsalt": "evoctx", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT, "xtick.color": INK, "ytick.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.grid.axis": "y", "grid.color": FAINT,
    "axes.axisbelow": True, "legend.frameon": False, "figure.facecolor": "none", "axes.facecolor": "none",
}


@dataclass(frozen=True, slots=True)
class Plot:
    """An `<svg>` element (no prolog, ids unique on the page) and the sentence that says what it shows."""

    title: str
    caption: str
    svg: str


def plots(trajectories: list[dict[str, Any]], predictions: list[dict[str, Any]], metrics: Mapping[str, Any], rule: NoveltyRule | None) -> list[Plot]:
    """The plots this run has data for; the same run gives the same bytes."""
    measured = [
        (entry["round"], entry["action"], entry["signals"], float(entry["score"]))
        for trajectory in trajectories for entry in trajectory["rounds"] if entry["signals"]
    ]
    actions, rounds = action_shares(metrics)
    made = []
    if measured:
        made.append(_signals_by_round(measured, rule))
    if rounds:
        made.append(_actions_by_round(actions, rounds))
    if any(math.isfinite(score) for *_, score in measured):
        made.append(_score_distribution(measured))
    made.append(_retrievals(predictions))
    return [Plot(title, caption, _own_ids(svg, f"plot{i}-")) for i, (title, caption, svg) in enumerate(made, 1)]


def _signals_by_round(measured: list[tuple], rule: NoveltyRule | None) -> tuple[str, str, str]:
    last = max(round for round, *_ in measured)

    def draw(axes: Axes) -> None:
        for signal in SIGNALS:
            values: dict[int, list[float]] = defaultdict(list)
            for number, _, signals, _ in measured:
                if math.isfinite(value := float(signals[signal])):
                    values[number].append(value)
            if not values:
                continue
            xs = sorted(values)
            low, middle, high = np.array([np.percentile(values[number], [25, 50, 75]) for number in xs]).T
            axes.plot(xs, middle, marker="o", markersize=4, color=COLOURS[signal], label=signal_name(signal, rule))
            axes.fill_between(xs, low, high, color=COLOURS[signal], alpha=0.15, linewidth=0)
            if rule is not None:
                axes.axhline(thresholds(rule)[signal], color=COLOURS[signal], linestyle=(0, (4, 3)), linewidth=1)
        axes.set(xlabel="round", ylabel="distance", ylim=(0, None), xlim=(0.7, last + 0.3))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))

    dashed = "; dashed lines are the thresholds" if rule else ""
    return "Signals by round", f"Median distance of the trace to its boundary, with the middle half of the questions shaded{dashed}.", _svg(draw)


def _actions_by_round(actions: list[str], rounds: list[Mapping[str, Any]]) -> tuple[str, str, str]:
    def draw(axes: Axes) -> None:
        numbers = [entry["round"] for entry in rounds]
        bottom = np.zeros(len(rounds))
        for action in actions:
            shares = np.array([100 * entry.get(action, 0) for entry in rounds])
            axes.bar(numbers, shares, bottom=bottom, width=0.7, color=_colour(action), label=action)
            bottom += shares
        axes.set(xlabel="round", ylabel="share of questions, %", ylim=(0, 100))
        axes.set_xlim(min(numbers) - 0.9, max(numbers) + 0.9)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))

    return "Actions by round", "Which share of the questions still under way took which action in each round.", _svg(draw)


def _score_distribution(measured: list[tuple]) -> tuple[str, str, str]:
    def draw(axes: Axes) -> None:
        actions = sorted({action for _, action, *_ in measured})
        series = [[score for _, taken, _, score in measured if taken == action and math.isfinite(score)] for action in actions]
        low, high = min(map(min, filter(None, series))), max(map(max, filter(None, series)))
        width = max((high - low) / 30, 1e-3)
        edges = 1 + width * np.arange(np.floor((low - 1) / width), np.floor((high - 1) / width) + 2)  # 1 is an edge: no bar mixes the sides
        axes.hist(series, bins=edges, stacked=True, color=[_colour(a) for a in actions], label=[a or "unfinished" for a in actions])
        axes.axvline(1, color=INK, linestyle=(0, (4, 3)), linewidth=1)
        axes.set(xlabel="novelty score", ylabel="rounds")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))

    return "Novelty scores", "Scores of all rounds; from 1 on (dashed) the rule retrieves.", _svg(draw)


def _retrievals(predictions: list[dict[str, Any]]) -> tuple[str, str, str]:
    def draw(axes: Axes) -> None:
        counts = Counter(row["retrieval_calls"] for row in predictions)
        axes.bar(list(counts), list(counts.values()), width=0.7, color=COLOURS["other"])
        axes.set(xlabel="retrieval calls", ylabel="questions", xlim=(min(counts, default=0) - 0.9, max(counts, default=0) + 0.9))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))

    return "Retrieval calls", "How many questions made how many retrieval calls.", _svg(draw)


def _colour(action: str) -> str:
    return COLOURS.get(action, COLOURS["other"])


def _svg(draw: Callable[[Axes], None]) -> str:
    """Draw on a fresh figure, without pyplot's global state, and return its `<svg>` element."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(5.6, 3.4), layout="constrained")
        draw(figure.add_subplot())
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    svg = buffer.getvalue()
    svg = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r"<svg \1>", svg[svg.index("<svg"):], count=1)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)  # matplotlib's sheet would style every plot of the page
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    return svg


def _own_ids(svg: str, prefix: str) -> str:
    """Prefix the ids, so that several plots can stand on one page."""
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", svg)
