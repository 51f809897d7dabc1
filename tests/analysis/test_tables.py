"""The terminal's tables and the papers' cells beside them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from synthetic_run import QUESTIONS, write_run

from evoctx_torch.analysis.paper import paper_cell, paper_variant
from evoctx_torch.analysis.rows import figure, metric_rows
from evoctx_torch.analysis.runs import read_run
from evoctx_torch.analysis.tables import action_table, comparison_table, run_table


def printed(table: Table) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("method", "data", "metric", "value"), [
    ("evoctx", "2WikiMultihopQA", "f1", 50.7), ("evoctx", "hotpotqa", "acc", 65.4), ("evoctx", "MultiHop-RAG", "em", 74.6),
    ("evoctx", "multihoprag", "tokens", 27_500), ("iterdrag", "multihoprag", "retrieval_calls", 8.0), ("naive-rag", "multihoprag", "multihoprag_acc", 45.6),
    ("closed-book", "hotpotqa", "em", 0.0), ("evoctx without trace", "multihoprag", "f1", 64.1), ("evoctx", "multihoprag", "acc", None),
    ("evoctx", "musique", "em", None), ("nothing", "hotpotqa", "em", None),
])
def test_cells_of_the_papers(method: str, data: str, metric: str, value: float | None) -> None:
    cell = paper_cell(method, data, metric)
    assert (cell.value if cell else None) == value
    assert cell is None or "arXiv 2601.08747" in cell.source


def test_multihoprag_acc_of_the_paper_follows_from_its_em() -> None:
    em, acc = (paper_cell("evoctx", "multihoprag", m) for m in ("em", "multihoprag_acc"))
    assert em is not None
    assert acc is not None
    assert acc.value == pytest.approx(100 / (3 - 2 * em.value / 100), abs=0.05)


@pytest.mark.parametrize(("options", "variant"), [
    ({"actions": "signals", "trace": True, "signals": "hybrid"}, "evoctx"), ({"actions": "think-only"}, "evoctx without retrieve"),
    ({"trace": False}, "evoctx without trace"), ({"signals": "near+tail"}, "evoctx near+tail"),
])
def test_an_ablation_is_never_set_beside_the_main_row(options: dict, variant: str) -> None:
    assert paper_variant({"method": "evoctx", **options}) == variant


def test_two_ablations_at_once_have_no_cell() -> None:
    variant = paper_variant({"method": "evoctx", "actions": "model", "signals": "near"})
    assert paper_cell(variant, "multihoprag", "em") is None


def test_run_table_has_means_intervals_and_the_papers_values(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, data_name="multihoprag"))
    run.metrics["em"] = {"mean": 0.4567, "ci95": [0.4, 0.5123]}
    run.metrics["triviaqa_em"] = {"mean": 0.1, "ci95": [0.0, 0.2]}
    text = printed(run_table(run.metrics, run.config))
    line = next(line for line in text.split("\n") if "EM, %" in line)
    assert [cell.strip() for cell in line.strip("│").split("│")] == ["EM, %", "45.7", "40.0 – 51.2", "74.6"]
    assert "27,500" in text
    assert "TriviaQA" not in text, "other data sets' own metrics stay in metrics.json"


def test_tables_take_any_text_as_text(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, data_name="[/] [bold]x"))
    assert "on [/] [bold]x, 4 questions" in printed(run_table(run.metrics, run.config))
    assert "[/] [red]" in printed(comparison_table({"[/] [red]": run.metrics}, "[/]"))
    run.metrics["action_share_by_round"] = [{"round": 1, "[/]": 1.0, "count": 3}]
    assert "[/], %" in printed(action_table(run.metrics))


def test_a_run_without_rounds_and_without_a_paper(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, QUESTIONS[:1], method="closed-book", data_name="mine"))
    text = printed(run_table(run.metrics, run.config))
    assert "paper" not in text
    assert "Evidence recall" in text
    assert action_table(run.metrics).row_count == 0


def test_comparison_has_a_column_for_each_method(tmp_path: Path) -> None:
    closed = read_run(write_run(tmp_path / "c", method="closed-book")).metrics
    ours = read_run(write_run(tmp_path / "e")).metrics
    del closed["evidence_recall"]
    text = printed(comparison_table({"closed-book": closed, "evoctx": ours}))
    line = next(line for line in text.split("\n") if "Evidence recall" in line)
    assert line.strip("│").split("│")[1].strip() == "–"
    assert all(name in text for name in ("closed-book", "evoctx", "Model calls", "Tokens, all"))


def test_action_table_is_in_percent(tmp_path: Path) -> None:
    metrics = {"action_share_by_round": [{"round": 1, "RETRIEVE": 0.75, "THINK": 0.25, "count": 60}]}
    assert [cell.strip() for cell in printed(action_table(metrics)).split("\n")[4].strip("│").split("│")] == ["1", "75.0", "25.0", "60"]


def test_figures() -> None:
    assert [figure("em", v) for v in (0.5, None, "nan")] == ["50.0", "", ""]
    assert [figure("prompt_tokens", v) for v in (12345.6, 45.67, 3)] == ["12,346", "45.7", "3.00"]


def test_unknown_metrics_keep_their_names() -> None:
    rows = metric_rows({"questions": 1, "judge": {"mean": 0.5, "ci95": [0.1, 0.9]}}, {"method": "evoctx", "data_name": None})
    assert [(row.label, row.mean, row.interval) for row in rows] == [("judge", "0.50", "0.10 – 0.90")]
