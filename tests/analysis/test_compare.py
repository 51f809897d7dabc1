"""`evoctx compare`: which questions are compared, what is said of them, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoctx_torch.analysis.compare import Comparison, compare_runs, cost_table, score_table
from evoctx_torch.cli import main
from evoctx_torch.errors import UsageError

F1 = {"q0": 0.0, "q1": 0.5, "q2": 1.0, "q3": 0.25}


def write(folder: Path, scores: dict[str, float], *, calls: int = 2, config: dict | None = None, **columns: object) -> Path:
    folder.mkdir(parents=True)
    rows = [{"id": i, "question": f"What is {i}?", "golden_answers": [i], "prediction": i, "em": float(f1 == 1), "f1": f1, "acc": float(f1 > 0.3),
             "evidence_recall": None, "actions": [], "llm_calls": calls, "prompt_tokens": 100 * calls, **columns} for i, f1 in scores.items()]
    (folder / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "config.json").write_text(json.dumps({"method": folder.name, "top_k": 5, "versions": {"torch": folder.name}} | (config or {})))
    (folder / "metrics.json").write_text("{}")
    return folder


def text(found: Comparison) -> str:
    from rich.console import Console
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 (closed with the test)
    console.print(score_table(found), cost_table(found))
    return console.export_text()


def test_differences_are_second_minus_first(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", F1), write(tmp_path / "b", {"q3": 0.0, "q0": 1.0, "q1": 0.5, "q2": 1.0}, calls=5)  # another order
    found = compare_runs(a, b)
    assert list(found.metrics) == ["em", "f1", "acc"] and found.questions == 4
    f1 = found.metrics["f1"]
    assert (f1["first"], f1["second"], f1["difference"]) == (1.75 / 4, 2.5 / 4, pytest.approx(0.75 / 4))
    assert (f1["won"], f1["lost"], f1["tied"], f1["questions"]) == (1, 1, 2, 4)
    assert f1["ci95"][0] <= f1["difference"] <= f1["ci95"][1] and f1["p"] == 1  # exact: of ±1 ± .25 none is smaller than .75
    assert found.efficiency["llm_calls"] == {"first": 2, "second": 5, "difference": 3, "ci95": [3, 3], "questions": 4}
    assert found.options == {"method": ["a", "b"]}
    shown = text(found)
    assert "F1, %" in shown and "+18.8" in shown and "Model calls" in shown and "+3.00" in shown


def test_a_run_against_itself_differs_in_nothing(tmp_path: Path) -> None:
    a = write(tmp_path / "a", F1)
    found = compare_runs(a, a)
    for entry in found.metrics.values():
        assert (entry["difference"], entry["ci95"], entry["p"], entry["won"], entry["lost"]) == (0, [0, 0], 1, 0, 0)
    assert not found.options and all(entry["difference"] == 0 for entry in found.efficiency.values())


def test_swapping_the_runs_negates_every_difference(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", F1), write(tmp_path / "b", {i: 1 - f1 for i, f1 in F1.items()}, calls=3)
    there, back = compare_runs(a, b), compare_runs(b, a)
    for name in there.metrics:
        one, other = there.metrics[name], back.metrics[name]
        assert one["difference"] == pytest.approx(-other["difference"]) and one["p"] == other["p"] and one["won"] == other["lost"]
        assert one["ci95"] == pytest.approx([-x for x in other["ci95"][::-1]])
    assert there.efficiency["llm_calls"]["difference"] == -back.efficiency["llm_calls"]["difference"]


def test_other_questions_are_refused_unless_the_common_ones_are_asked_for(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", F1), write(tmp_path / "b", {"q1": 1.0, "q2": 1.0, "new": 0.0})
    with pytest.raises(UsageError, match=r"2 only in .*a: q0, q3; 1 only in .*b: new\).*--common"):
        compare_runs(a, b)
    found = compare_runs(a, b, common=True)
    assert found.questions == 2 and found.left_out == 3 and found.metrics["f1"]["first"] == 0.75
    with pytest.raises(UsageError, match="no question in common"):
        compare_runs(a, write(tmp_path / "c", {"x": 1.0}), common=True)


def test_the_same_id_with_another_question_is_other_data(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", F1), write(tmp_path / "b", F1, golden_answers=["other"])
    with pytest.raises(UsageError, match="'q0' has another golden_answers"):
        compare_runs(a, b)


def test_metrics_are_any_column_of_numbers_that_both_have(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", F1, turns=2), write(tmp_path / "b", F1, turns=3, rouge1=0.5)
    assert list(compare_runs(a, b, ["turns", "em", "turns"]).metrics) == ["turns", "em"]
    for name in ("rouge1", "evidence_recall", "prediction", "nonsense"):
        with pytest.raises(UsageError, match=f"--metric is '{name}'; expected some of em, f1, acc, llm_calls"):
            compare_runs(a, b, [name])


def test_a_question_without_the_metric_in_either_run_is_left_out_of_it(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", F1, evidence_recall=1.0), write(tmp_path / "b", F1, evidence_recall=0.5)
    lines = (a / "predictions.jsonl").read_text().splitlines(keepends=True)
    (a / "predictions.jsonl").write_text(lines[0].replace('"evidence_recall": 1.0', '"evidence_recall": null') + "".join(lines[1:]))
    entry = compare_runs(a, b).metrics["evidence_recall"]
    assert (entry["questions"], entry["lost"], entry["difference"]) == (3, 3, -0.5)


def test_a_judges_verdicts_are_a_metric(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", F1), write(tmp_path / "b", F1)
    for folder, match in ((a, [1.0, 0.0, None, 1.0]), (b, [1.0, 1.0, 1.0, 1.0])):
        (folder / "judge.jsonl").write_text("".join(json.dumps({"id": i, "llm_match": value}) + "\n" for i, value in zip(F1, match, strict=True)))
    entry = compare_runs(a, b).metrics["llm_match"]
    assert (entry["won"], entry["lost"], entry["tied"], entry["questions"]) == (1, 0, 2, 3)


def test_the_command_prints_a_table_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write(tmp_path / "a", F1), write(tmp_path / "[b]", dict.fromkeys(F1, 1.0))
    assert main(["compare", str(a), str(b), "--metric", "f1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["metrics"]["f1"]["won"] == 3 and printed["questions"] == 4
    assert main(["compare", str(a), str(b)]) == 0
    out = capsys.readouterr().out
    assert "F1, %" in out and "method: a in the first, [b] in the second" in out
    assert main(["compare", str(a), str(tmp_path / "none")]) == 2
    assert "none has no config.json" in capsys.readouterr().err
