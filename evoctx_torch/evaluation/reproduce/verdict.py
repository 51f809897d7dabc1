"""Whether what was measured points where the paper's claim points, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

from evoctx_torch.evaluation.reproduce.run import Cells
from evoctx_torch.evaluation.reproduce.tables import Claim, PaperTable
from evoctx_torch.metrics.paired import compare_paired


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim on one data set. `holds` is None where a value is missing; `difference` is that of the closest pair of rows, in
    the metric's unit, positive where the claim's better row is ahead; `p` that of the paired test of the two (None for means)."""

    claim: Claim
    data: str
    holds: bool | None = None
    difference: float | None = None
    pair: tuple[str, str] | None = None
    p: float | None = None


def verdicts(table: PaperTable, cells: list[Cells]) -> list[Verdict]:
    """Every claim on every data set that it is about; on one that the table does not name (the user's own) every claim."""
    return [judge(table, claim, found) for found in cells for claim in table.claims
            if not claim.data or found.data in claim.data or found.data not in table.data]


def judge(table: PaperTable, claim: Claim, found: Cells) -> Verdict:
    """A claim holds when its better rows are at least as good as its worse ones, the closest pair included."""
    margins = []
    for better in claim.better:
        for worse in claim.worse:
            a, b = value(table, found, better, claim.metric), value(table, found, worse, claim.metric)
            if a is None or b is None:
                return Verdict(claim, found.data)
            margins.append(((b - a) if claim.lower else (a - b), (better, worse)))
    difference, pair = min(margins)
    columns = [found.column(label, claim.metric) for label in pair]
    p = None if None in columns else compare_paired(*columns).p
    return Verdict(claim, found.data, difference >= 0, difference, pair, p)


def value(table: PaperTable, found: Cells, label: str, metric: str) -> float | None:
    """The measured value of a row, or the mean over the rows of a `Mean`."""
    for mean in table.means:
        if mean.label == label:
            values = [found.value(row, metric) for row in mean.rows]
            return None if None in values else sum(values) / len(values)
    return found.value(label, metric)
