"""A run's folder: complete, in order, continued, never overwritten (design, section 5)."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from evoctx_torch.cli import main
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.folder import RunFolder
from evoctx_torch.evaluation.run import Interrupted, evaluate
from evoctx_torch.journal import Journal
from evoctx_torch.operations import Completion, Failure

FILES = ["config.json", "journal-0.sqlite", "metrics.json", "predictions.jsonl", "report.html", "trajectories.jsonl"]


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def untimed(folder: Path) -> dict[str, bytes | dict]:
    files: dict[str, bytes | dict] = snapshot(folder)
    del files["journal-0.sqlite"]
    files["metrics.json"] = {k: v for k, v in json.loads(files["metrics.json"]).items() if k != "timing"}
    return files


def test_a_run_writes_every_file_in_the_order_of_the_input(tmp_path, configure, scripted):
    scripted()
    outcome = evaluate(configure("evoctx", rounds=2), tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == FILES
    predictions, trajectories = rows(tmp_path / "run/predictions.jsonl"), rows(tmp_path / "run/trajectories.jsonl")
    assert [r["id"] for r in predictions] == [r["id"] for r in trajectories] == [f"q{i}" for i in range(8)]
    assert all(r["em"] == 1 for r in predictions) and outcome.metrics["em"] == {"mean": 1.0, "ci95": [1.0, 1.0]}
    assert outcome.metrics["questions"] == 8 and outcome.ran == 8
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["method"] == "evoctx" and config["tau_near"] == 0.3 and config["top_k"] == 2 and config["decider"] == "scripted"
    assert set(config["digests"]) >= {"generator", "decider", "encoder", "boundary_encoder", "index", "corpus", "queries"}


def test_a_finished_run_is_left_alone(tmp_path, configure, scripted):
    scripted()
    evaluate(configure(), tmp_path / "run")
    before, requests = snapshot(tmp_path / "run"), scripted()
    outcome = evaluate(configure(batch_size=7), tmp_path / "run")
    assert snapshot(tmp_path / "run") == before and not requests and outcome.ran == 0


@pytest.mark.parametrize(("change", "name"), [
    ({"top_k": 1}, "top_k"), ({"seed": 3}, "seed"), ({"limit": 3}, "limit"), ({"max_new_tokens": 5}, "max_new_tokens"), ({"extract": "full"}, "extract"),
])
def test_another_configuration_is_refused_with_the_option_that_differs(tmp_path, configure, scripted, change, name):
    scripted()
    evaluate(configure(), tmp_path / "run")
    before = snapshot(tmp_path / "run")
    with pytest.raises(UsageError, match=name):
        evaluate(configure(**change), tmp_path / "run")
    assert snapshot(tmp_path / "run") == before


def test_changed_data_is_another_configuration(tmp_path, configure, scripted, data):
    scripted()
    evaluate(configure(), tmp_path / "run")
    text = (data / "corpus.jsonl").read_text()
    (data / "corpus.jsonl").write_text(text.replace("Mayor 1.", "Mayor One."))
    with pytest.raises(UsageError, match="digest of the corpus"):
        evaluate(configure(), tmp_path / "run")


def test_a_larger_limit_extends_a_run(tmp_path, configure, scripted):
    scripted()
    evaluate(configure(limit=3), tmp_path / "run")
    requests = scripted()
    assert evaluate(configure(limit=8), tmp_path / "run").ran == 5
    assert {p.question_id for p in requests} == {f"q{i}" for i in range(3, 8)}
    evaluate(configure(limit=8), tmp_path / "whole")
    assert untimed(tmp_path / "run") == untimed(tmp_path / "whole")


def interrupt_at(count: int, error: type[BaseException]):
    asked = []

    def reply(pending):
        asked.append(pending)
        if len(asked) > count:
            raise error
        return f"Mayor {pending.question_id[1:]}"
    return reply


def test_ctrl_c_writes_what_is_finished_and_the_same_command_continues(tmp_path, configure, scripted):
    scripted(interrupt_at(5, KeyboardInterrupt))
    with pytest.raises(Interrupted, match="3 of 8 questions are finished"):
        evaluate(configure(), tmp_path / "run")
    assert [r["id"] for r in rows(tmp_path / "run/predictions.jsonl")] == ["q0", "q1", "q2"]
    assert not (tmp_path / "run/metrics.json").exists()
    requests = scripted()
    evaluate(configure(), tmp_path / "run")
    assert {p.question_id for p in requests} == {f"q{i}" for i in range(3, 8)}
    evaluate(configure(), tmp_path / "whole")
    assert untimed(tmp_path / "run") == untimed(tmp_path / "whole")


def test_a_run_goes_on_in_the_middle_of_a_question_and_repeats_no_call(tmp_path, configure, scripted):
    undisturbed = scripted()
    evaluate(configure("evoctx", rounds=2), tmp_path / "whole")
    for count in (4, 9, 14, 20):
        first = scripted(interrupt_at(count, KeyboardInterrupt))
        with pytest.raises(Interrupted):
            evaluate(configure("evoctx", rounds=2), tmp_path / f"run{count}")
        second = scripted()
        evaluate(configure("evoctx", rounds=2), tmp_path / f"run{count}")
        assert untimed(tmp_path / f"run{count}") == untimed(tmp_path / "whole")
        lost = len(first) + len(second) - len(undisturbed)
        assert 0 < lost <= 3, f"stopped at call {count}: {lost} calls were repeated, where the batch under way has three"


def test_a_run_that_another_process_works_on_is_refused(tmp_path, configure, scripted):
    scripted(interrupt_at(5, KeyboardInterrupt))
    with pytest.raises(Interrupted):
        evaluate(configure(), tmp_path / "run")
    requests, before = scripted(), snapshot(tmp_path / "run")
    with Journal(tmp_path / "run/journal-0.sqlite"), pytest.raises(UsageError, match="another process is working on this run"):
        evaluate(configure(), tmp_path / "run")
    assert not requests and snapshot(tmp_path / "run") == before


def test_a_kill_before_anything_but_the_journal_was_written_leaves_a_folder_that_can_be_used(tmp_path, configure, scripted):
    scripted()
    (tmp_path / "run").mkdir()
    Journal(tmp_path / "run/journal-0.sqlite").close()
    assert evaluate(configure(), tmp_path / "run").ran == 8


def test_a_changed_template_is_noticed_where_it_changes_what_was_asked(tmp_path, configure, scripted):
    scripted(interrupt_at(14, KeyboardInterrupt))
    with pytest.raises(Interrupted):
        evaluate(configure("evoctx", rounds=2), tmp_path / "run")
    scripted()
    with sqlite3.connect(tmp_path / "run/journal-0.sqlite") as journal:
        journal.execute("UPDATE results SET digest = x'00' WHERE kind = 'completion'")
    with pytest.raises(UsageError, match="has changed since"):
        evaluate(configure("evoctx", rounds=2), tmp_path / "run")


def test_a_disk_that_fills_up_is_said_in_one_line_and_the_same_command_continues(tmp_path, configure, scripted, monkeypatch):
    scripted()
    record = Journal.record

    def full(journal, pending, results):
        if pending[0].question_id == "q3":
            journal._connection.execute("PRAGMA max_page_count = 1")
            results = [Completion("x" * 100_000, "eos", 1, 1, 1)] * len(pending)
        record(journal, pending, results)
    monkeypatch.setattr(Journal, "record", full)
    with pytest.raises(UsageError, match="full"):
        evaluate(configure(), tmp_path / "run")
    monkeypatch.setattr(Journal, "record", record)
    requests = scripted()
    evaluate(configure(), tmp_path / "run")
    assert {p.question_id for p in requests} == {f"q{i}" for i in range(3, 8)}
    evaluate(configure(), tmp_path / "whole")
    assert untimed(tmp_path / "run") == untimed(tmp_path / "whole")


def test_ctrl_c_before_the_first_question_leaves_the_folder_as_it_was(tmp_path, configure, scripted, monkeypatch):
    scripted()
    from evoctx_torch.evaluation import assemble

    def stop(*_):
        raise KeyboardInterrupt
    monkeypatch.setattr(assemble, "build_generators", stop)
    with pytest.raises(KeyboardInterrupt):
        evaluate(configure(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_ctrl_c_while_a_continued_run_loads_its_models_keeps_what_is_there(tmp_path, configure, scripted, monkeypatch):
    scripted(interrupt_at(5, KeyboardInterrupt))
    with pytest.raises(Interrupted):
        evaluate(configure(), tmp_path / "run")
    before = snapshot(tmp_path / "run")
    from evoctx_torch.evaluation import assemble

    def stop(*_):
        raise KeyboardInterrupt
    with monkeypatch.context() as patch:
        patch.setattr(assemble, "build_generators", stop)
        with pytest.raises(KeyboardInterrupt):
            evaluate(configure(), tmp_path / "run")
    assert snapshot(tmp_path / "run") == before
    scripted()
    assert evaluate(configure(), tmp_path / "run").ran == 5


def test_failed_rows_are_counted_once_and_score_zero(tmp_path, configure, scripted):
    replies = {"q1": Failure("error", "boom"), "q2": Failure("over_length", "too long", ("p1",)), "q3": "", "q4": "\nAnswer:"}
    scripted(lambda p: replies.get(p.question_id, f"Mayor {p.question_id[1:]}"))
    metrics = evaluate(configure(prompt_family="chat"), tmp_path / "run").metrics
    assert metrics["failures"] == {"empty": 2, "error": 1, "over_length": 1}
    by_id = {r["id"]: r for r in rows(tmp_path / "run/predictions.jsonl")}
    assert [by_id[q]["finish_reason"] for q in ("q1", "q2", "q3", "q4")] == ["error", "over_length", "empty", "empty"]
    assert by_id["q1"]["error"] == "boom" and by_id["q2"]["error"] is None
    assert all(by_id[q]["em"] == 0 and by_id[q]["prediction"] == "" for q in replies)
    assert metrics["em"]["mean"] == 0.5
    assert rows(tmp_path / "run/trajectories.jsonl")[2]["dropped"] == ["p1"]


def test_text_that_ends_lines_for_some_readers_stays_in_its_line(tmp_path, configure, scripted):
    scripted(lambda p: "a\u2028b\u0085c\u2029d\x0be </script> [/]")
    evaluate(configure(extract="full", prompt_family="chat"), tmp_path / "run")
    assert all(r["prediction"] == "a\u2028b\u0085c\u2029d\x0be </script> [/]" for r in rows(tmp_path / "run/predictions.jsonl"))


def test_a_folder_that_is_no_run_is_refused_and_kept(tmp_path, configure, scripted):
    scripted()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep me")
    with pytest.raises(UsageError, match="no run of ours"):
        evaluate(configure(), tmp_path / "mine")
    assert snapshot(tmp_path / "mine") == {"notes.txt": b"keep me"}
    with pytest.raises(UsageError, match="is a file"):
        evaluate(configure(), tmp_path / "mine/notes.txt")


def test_more_passages_asked_for_than_there_are_is_refused(tmp_path, configure, scripted):
    scripted()
    with pytest.raises(UsageError, match=r"--top-k is 17, and .*corpus.jsonl has only 16"):
        evaluate(configure(top_k=17), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_one_action_everywhere_is_worth_a_warning(tmp_path, configure, scripted):
    scripted()
    always = evaluate(configure("evoctx", rounds=2, tau_near=1e-6, tau_centroid=1e-6, tau_tail=1e-6), tmp_path / "always").metrics
    assert "100% of all actions are RETRIEVE" in always["warnings"][0] and always["think_ratio"] == 0
    assert [entry["RETRIEVE"] for entry in always["action_share_by_round"]] == [1.0, 1.0]
    forced = evaluate(configure("evoctx", rounds=1, actions="think-only"), tmp_path / "forced").metrics
    assert forced["think_ratio"] == 1 and forced["warnings"] == [], "a forced action says nothing about the thresholds"


def test_the_answer_does_not_depend_on_the_batch(tmp_path, configure, scripted):
    scripted(lambda p: f"{p.operation.role} saw {p.operation.prompt.text}"[-200:].replace("\n", " "))
    for batch in (1, 3, 8):
        evaluate(configure("evoctx", rounds=3, batch_size=batch), tmp_path / str(batch))
    for name in ("predictions.jsonl", "trajectories.jsonl"):
        assert len({(tmp_path / str(b) / name).read_bytes() for b in (1, 3, 8)}) == 1


def test_a_folder_is_complete_only_with_all_its_questions(tmp_path, configure, scripted):
    scripted()
    evaluate(configure(limit=2), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    assert folder.complete(["q0", "q1"]) and not folder.complete(["q0", "q1", "q2"])


@pytest.mark.parametrize(("name", "text"), [("config.json", "{"), ("config.json", "{}"), ("config.json", "[]"), ("predictions.jsonl", "{bad\n"), ("metrics.json", "")])
def test_a_damaged_run_is_refused_in_one_line(tmp_path, configure, scripted, name, text):
    scripted()
    evaluate(configure(limit=1), tmp_path / "run")
    (tmp_path / "run" / name).write_text(text)
    with pytest.raises(UsageError, match="holds a damaged run"):
        evaluate(configure(limit=1), tmp_path / "run")


def test_the_terminal_tells_routes_and_what_ended_the_questions(tmp_path, data, scripted, capsys):
    scripted(lambda p: ("A" if p.question_id < "q5" else "hm") if p.operation.role == "classifier" else "Mayor")
    given = ["--data", str(data), "--generator", "g", "--classifier", "c", "--prompt-family", "completion", "--out", str(tmp_path / "run")]
    assert main(["eval", "adaptive-rag", *given]) == 0
    said = capsys.readouterr().out
    assert "Routes: 5 A, 3 unparsable" in said and "Ended by: 8 eos" in said and "Failed" not in said
