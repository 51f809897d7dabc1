"""`score_file`: files in, files out, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.long_answers import LongAnswers
from evoctx_torch.evaluation.score import score_file
from evoctx_torch.metrics.answers import ANSWER_METRICS, score_answers
from evoctx_torch.metrics.rouge import ROUGE_METRICS


def write(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_scores_of_every_official_row_arrive_in_the_file(shared: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (shared / "oracles" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    source = write(tmp_path / "p.jsonl", [{"id": r["id"], "prediction": r["prediction"], "golden_answers": r["golds"]} for r in rows])
    means = score_file(source, tmp_path / "new" / "s.jsonl")
    scored = read(tmp_path / "new" / "s.jsonl")
    assert [list(row) for row in scored] == [["id", *ANSWER_METRICS]] * len(rows)
    for row, theirs in zip(scored, rows, strict=True):
        assert (row["id"], row["em"], row["f1"], row["acc"]) == (theirs["id"], theirs["flashrag_em"], theirs["flashrag_f1"], theirs["flashrag_acc"])
        assert (row["triviaqa_f1"], row["musique_f1"]) == (theirs["triviaqa_f1"], theirs["musique_f1"])
    assert means["questions"] == 505
    assert all(means[name] == sum(row[name] for row in scored) / 505 for name in ANSWER_METRICS)
    assert means["multihoprag_acc"] == pytest.approx(1 / (3 - 2 * means["multihoprag_hit"]))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["s.jsonl"]


def test_an_empty_prediction_of_a_run_is_no_answer(tmp_path: Path) -> None:
    bare = {"id": "a", "prediction": "", "golden_answers": ["A"]}
    source = write(tmp_path / "p.jsonl", [bare, {**bare, "id": "b", "finish_reason": "over_length"}])
    score_file(source, tmp_path / "s.jsonl")
    official, run = read(tmp_path / "s.jsonl")
    assert official == {"id": "a", **score_answers("", ["A"])}
    assert {value for name, value in run.items() if name != "id"} == {0.0}
    assert official["em"] == 1


def test_metrics_of_long_answers_follow_the_others(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [{"id": "a", "prediction": "the river rises", "golden_answers": ["x", "The river"]},
                                          {"id": "b", "prediction": "", "golden_answers": ["y"]}])
    means = score_file(source, tmp_path / "s.jsonl", LongAnswers(["rouge"]))
    rows = read(tmp_path / "s.jsonl")
    assert [list(row) for row in rows] == [["id", *ANSWER_METRICS, *ROUGE_METRICS]] * 2
    assert rows[0]["rouge1"] == pytest.approx(0.8) and rows[1]["rouge1"] == 0
    assert means["rouge1"] == pytest.approx(0.4)


@pytest.mark.parametrize(("rows", "words"), [
    ([{"id": "a", "prediction": "y"}], ["p.jsonl line 1", "golden_answers"]),
    ([{"id": "a", "prediction": "y", "golden_answers": []}], ["line 1", "golden_answers"]),
    ([{"id": "a", "prediction": None, "golden_answers": ["x"]}], ["line 1", "prediction", "null"]),
    ([{"id": "a", "prediction": "y", "golden_answers": ["x"]}] * 2, ["line 2", "'a'"]),
    ([], ["p.jsonl", "empty"]),
])
def test_a_refused_file_leaves_no_output(tmp_path: Path, rows: list[dict], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        score_file(write(tmp_path / "p.jsonl", rows), tmp_path / "s.jsonl")
    assert all(word in str(caught.value) for word in words), caught.value
    assert not (tmp_path / "s.jsonl").exists()


def test_the_output_may_not_be_the_input_or_a_folder(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [{"id": "a", "prediction": "y", "golden_answers": ["y"]}])
    before = source.read_bytes()
    for out in (source, tmp_path, tmp_path / "x" / ".." / "p.jsonl"):
        with pytest.raises(UsageError, match="expected another file"):
            score_file(source, out)
    assert source.read_bytes() == before
    with pytest.raises(UsageError, match=r"none\.jsonl"):
        score_file(tmp_path / "none.jsonl", tmp_path / "s.jsonl")


def test_an_interrupted_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "p.jsonl", [{"id": "a", "prediction": "y", "golden_answers": ["y"]}])
    out = tmp_path / "s.jsonl"
    out.write_text("old")

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space"):
        score_file(source, out)
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.jsonl", "s.jsonl"]
