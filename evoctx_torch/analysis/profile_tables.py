"""The terminal's tables of a profile: phases and operators, from what phases.json holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

UNKNOWN = "–"
PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}


def phase_table(profile: Mapping[str, Any]) -> Table:
    """Time, share, calls, rows of a call (median, least and most), tokens, bytes of every phase; on CUDA also kernel launches and the device's own time."""
    cuda = profile["device"].startswith("cuda")
    title = f"{profile['method']}: {profile['ticks']} ticks, {profile['batch_size']} questions at once, {profile['device_name']}"
    table = table_of(title, "phase", ["time", "share", "calls", "rows", "tokens in", "new", "bytes", *(["launches", "on device"] if cuda else [])])
    for row in profile["phases"]:
        table.add_row(
            escape(row["phase"]), quantity(row["seconds"], "s"), f"{row['share']:.1%}", f"{row['calls']:,}", rows_a_call(row["rows_a_call"]),
            count(row["prompt_tokens"]), count(row["completion_tokens"]), quantity(row["bytes"], "B"),
            *([count(row["launches"]), quantity(row["device_seconds"], "s")] if cuda else []),
        )
    table.add_section()
    launches, on_device = (sum(row[name] for row in profile["phases"]) for name in ("launches", "device_seconds"))
    table.add_row("all", quantity(profile["seconds"], "s"), "100.0%", *[""] * 5, *([count(launches), quantity(on_device, "s")] if cuda else []))
    return table


def operator_table(profile: Mapping[str, Any]) -> Table:
    """The controller's operators: time a call, rows, and what they reach of this device's bounds."""
    bounds = profile["bounds"]
    copy, peak = bounds["copy_bytes_per_s"], bounds["matmul_flops_per_s"]
    title = f"Operators; this device copies {quantity(copy, 'B/s')} and multiplies {quantity(peak, 'FLOP/s')} (float32)"
    table = table_of(title, "operator", ["calls", "rows", "a call", "bytes", "rate", "of copy", "FLOP/s"])
    for row in profile["operators"]:
        rate = row["bytes_per_s"]
        table.add_row(
            escape(row["operator"]), f"{row['calls']:,}", count(row["rows"]), quantity(row["seconds"] / row["calls"], "s"),
            quantity(row["bytes"], "B"), quantity(rate, "B/s"),
            UNKNOWN if rate is None else f"{rate / copy:.1%}", quantity(row["flops_per_s"], ""),
        )
    if not profile["operators"]:
        table.add_row("none ran", *[""] * 7)
    return table


def table_of(title: str, first: str, headings: list[str]) -> Table:
    """A table with a left-hand column of names and right-hand columns of numbers; it fits into 80 columns."""
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for number, heading in enumerate([first, *headings]):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    return table


def rows_a_call(rows: Mapping[str, float] | None) -> str:
    """The median, with the range where calls differ."""
    if rows is None:
        return UNKNOWN
    return f"{rows['median']:g}" + ("" if rows["least"] == rows["most"] else f" ({rows['least']}–{rows['most']})")


def count(number: int | None) -> str:
    """A number with thousands apart, a dash where it is not known."""
    return UNKNOWN if number is None else f"{number:,}"


def quantity(number: float | None, unit: str) -> str:
    """Three digits and a decimal prefix: 1.23 GB/s, 45.6 ms."""
    if number is None:
        return UNKNOWN
    power = 0
    while number >= 999.5 and power < 15:
        number, power = number / 1000, power + 3
    while unit == "s" and 0 < number < 0.9995 and power > -9:
        number, power = number * 1000, power - 3
    return f"{number:#.3g}".rstrip(".") + f" {PREFIXES[power]}{unit}".rstrip()
