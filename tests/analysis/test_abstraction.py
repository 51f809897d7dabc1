"""The abstraction of what was recalled, by a field of the questions."""

from __future__ import annotations

import json

import pytest

from evoctx_torch.analysis.abstraction import abstraction_by
from evoctx_torch.cli import main
from evoctx_torch.errors import UsageError

LEVELS = [1.0, 1.5, 2.0, 2.5, None]


@pytest.fixture
def run(tmp_path):
    queries = tmp_path / "queries.jsonl"
    queries.write_text("".join(json.dumps({
        "id": f"q{i}", "question": f"Question {i}?", "golden_answers": ["x"],
        "metadata": {"type": "ab"[i % 2], "scope": i, "flag": True}}) + "\n" for i in range(5)))
    (tmp_path / "config.json").write_text(json.dumps({"method": "thought-retriever", "queries_path": str(queries)}))
    (tmp_path / "metrics.json").write_text("{}")
    (tmp_path / "predictions.jsonl").write_text("".join(json.dumps(
        {"id": f"q{i}", "question": f"Question {i}?", "golden_answers": ["x"], "prediction": "x", "abstraction": level}) + "\n"
        for i, level in enumerate(LEVELS)))
    return tmp_path


def test_means_by_value_and_the_rank_correlation_of_numbers(run):
    found = abstraction_by(run, "type")
    assert found["values"] == {"a": {"abstraction": 1.5, "questions": 2}, "b": {"abstraction": 2.0, "questions": 2}}
    assert found["questions"] == 4 and found["left_out"] == 1 and found["spearman"] is None
    assert abstraction_by(run, "scope")["spearman"] == {"rho": pytest.approx(1), "p": pytest.approx(0, abs=1e-9)}
    assert abstraction_by(run, "flag")["spearman"] is None, "true is no number, and does not vary"


def test_what_cannot_be_compared_is_refused(run, capsys):
    with pytest.raises(UsageError, match=r"no question has 'size' in its metadata; they have flag, scope, type"):
        abstraction_by(run, "size")
    assert main(["memory", "abstraction", str(run), "--by", "type"]) == 0
    assert "a" in (out := capsys.readouterr().out) and "1.500" in out and "4 questions" in out
    (run / "predictions.jsonl").write_text(
        json.dumps({"id": "q0", "question": "Question 0?", "golden_answers": ["x"], "prediction": "x"}) + "\n")
    assert main(["memory", "abstraction", str(run), "--by", "type"]) == 2
    assert "recalls no thoughts" in capsys.readouterr().err
