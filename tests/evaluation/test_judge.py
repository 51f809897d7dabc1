"""`evoctx judge`: what the judge is shown, how it is read, what is counted, and that the run itself stays as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.cli import main
from evoctx_torch.cli.judge import told
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.judging.methods import read_scores, read_verdict
from evoctx_torch.evaluation.judging.run import judge, resolve_judge
from evoctx_torch.operations import Failure, Pending

ROWS = {"q0": "the Vell", "q1": "Hafn", "q2": "", "q3": "Sund", "q4": "Salt"}
OTHER = {"q0": "Hafn", "q1": "Hafn, a town", "q2": "Ostrand", "q3": "", "q4": "Norrland"}


def write_run(folder: Path, predictions: dict[str, str], golds: list[str] | None = None) -> Path:
    folder.mkdir(parents=True)
    rows = [{"id": i, "question": f"What <b>is</b> {i}?", "golden_answers": golds or [f"gold {i}", f"alias & {i}"], "prediction": text}
            for i, text in predictions.items()]
    (folder / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("config.json", "metrics.json"):
        (folder / name).write_text("{}")
    return folder


def config(against: bool = False, **given: object):
    return resolve_judge("scripted", {"prompt_family": "chat", "batch_size": 2, "max_new_tokens": 40, **given}, against=against)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def lines(path: Path) -> dict[str, dict]:
    return {(row := json.loads(text))["id"]: row for text in path.read_text(encoding="utf-8").split("\n")[:-1]}


def test_llm_match_is_the_share_of_yes_among_what_has_a_verdict(tmp_path, scripted):
    replies = {"q0": "Verdict: yes", "q1": "<think>Verdict: yes?</think>\n**Verdict:** NO", "q3": "I cannot say.", "q4": Failure("error", "boom")}
    requests = scripted(lambda p: replies[p.question_id])
    run = write_run(tmp_path / "run", ROWS)
    before = snapshot(run)
    summary, path = judge(run, config())
    assert path == run / "judge.json" and json.loads(path.read_text()) == summary
    assert summary["llm_match"]["mean"] == 1 / 3, "yes, no and the empty prediction; unparsable and failed have no verdict"
    assert [summary[k] for k in ("questions", "yes", "no", "empty", "unparsable", "failed")] == [5, 1, 1, 1, 1, 1]
    assert {r.question_id for r in requests} == {"q0", "q1", "q3", "q4"}, "an empty prediction needs no call"
    found = lines(run / "judge.jsonl")
    assert list(found) == list(ROWS)
    assert [found[q]["verdict"] for q in ROWS] == ["yes", "no", "empty", "unparsable", "failed"]
    assert [found[q]["llm_match"] for q in ROWS] == [1, 0, 0, None, None]
    assert found["q4"]["error"] == "boom" and found["q1"]["replies"] == [replies["q1"]]
    after = snapshot(run)
    assert {name: after[name] for name in before} == before and set(after) - set(before) == {"judge.json", "judge.jsonl"}


def test_calls_and_tokens_of_the_judge_are_counted(tmp_path, scripted):
    requests = scripted(lambda p: "Verdict: yes")
    summary, _ = judge(write_run(tmp_path / "run", ROWS), config())
    assert summary["llm_calls"] == len(requests) == 4
    assert summary["prompt_tokens"] == sum(len(r.operation.prompt.text.split()) for r in requests)
    assert summary["completion_tokens"] == 8
    assert "4 calls" in told(summary)[1] and "LLM match: 80.0%" in told(summary)[0]


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_the_judge_sees_question_golds_and_prediction_verbatim_and_nothing_else_of_the_data(tmp_path, scripted, family):
    requests = scripted(lambda p: " yes")
    judge(write_run(tmp_path / "run", ROWS), config(prompt_family=family))
    for request in requests:
        i, text = request.question_id, request.operation.prompt.text
        assert request.operation.role == "judge" and request.operation.prompt.chat == (family == "chat")
        assert all(shown in text for shown in (f"What <b>is</b> {i}?", f"gold {i}", f"alias & {i}", ROWS[i]))
        assert not any(f"{other}?" in text for other in ROWS if other != i)
        assert "Verdict:" in text


WORTH = {"the Vell": 90, "Hafn": 30, "Hafn, a town": 30, "Salt": 20, "Norrland": 80}


def by_worth(pending: Pending) -> str:
    """Scores that depend on the answers alone, not on their places."""
    a, b = pending.operation.prompt.text.split("Answer A: ")[1].split("\n\nAnswer B: ")
    return f"Scores: {WORTH[a]} {WORTH[b.split(chr(10))[0]]}"


def test_win_rate_asks_in_both_orders_and_averages(tmp_path, scripted):
    requests = scripted(by_worth)
    run, other = write_run(tmp_path / "run", ROWS), write_run(tmp_path / "other", OTHER)
    summary, path = judge(run, config(against=True), other)
    assert path == run / "judge-against-other.json" and not (run / "judge.json").exists() and snapshot(other).keys() == {"config.json", "metrics.json", "predictions.jsonl"}
    # q0 won, q1 tied, q2 empty: lost, q3 the other empty: won, q4 lost
    assert (summary["wins"], summary["ties"], summary["losses"], summary["empty"]) == (2, 1, 2, 2)
    assert summary["win_rate"]["mean"] == 2 / 5 and summary["order_matters"] == 0
    assert (summary["score"]["mean"], summary["other_score"]["mean"]) == pytest.approx(((90 + 30 + 20) / 3, (30 + 30 + 80) / 3))
    assert len(requests) == summary["llm_calls"] == 6 and {r.question_id for r in requests} == {"q0", "q1", "q4"}
    found = lines(run / "judge-against-other.jsonl")
    assert found["q0"]["scores"] == [[90, 30], [90, 30]] and found["q0"]["outcome"] == "win" and found["q2"]["scores"] == [None, None]


def test_a_judge_that_prefers_a_place_ties(tmp_path, scripted):
    scripted(lambda p: "Scores: 90 40")
    run, other = write_run(tmp_path / "run", ROWS), write_run(tmp_path / "other", OTHER)
    summary, _ = judge(run, config(against=True), other)
    assert (summary["ties"], summary["order_matters"]) == (3, 3)


def test_swapping_the_runs_swaps_wins_and_losses(tmp_path, scripted):
    scripted(by_worth)
    run, other = write_run(tmp_path / "run", ROWS), write_run(tmp_path / "other", OTHER)
    (there, _), (back, _) = judge(run, config(against=True), other), judge(other, config(against=True), run)
    assert (there["wins"], there["ties"], there["losses"]) == (back["losses"], back["ties"], back["wins"])
    assert there["wins"] + there["ties"] + there["losses"] == 5


def test_replies_without_two_numbers_are_counted_and_leave_no_outcome(tmp_path, scripted):
    def reply(p: Pending) -> object:
        if p.question_id == "q0":
            return "Both are fine."
        if p.question_id == "q1":
            return "Scores: 10 20" if p.number == 0 else "Scores: 10"
        return Failure("error", "down") if p.number else "Scores: 10 20"
    scripted(reply)
    run, other = write_run(tmp_path / "run", ROWS), write_run(tmp_path / "other", OTHER)
    summary, _ = judge(run, config(against=True), other)
    assert (summary["unparsable"], summary["unparsable_replies"], summary["failed"]) == (2, 3, 1)
    assert (summary["wins"], summary["losses"], summary["win_rate"]["mean"], summary["score"]) == (1, 1, 0.5, None)


def test_a_judge_that_says_nothing_usable_has_no_rate(tmp_path, scripted):
    scripted(lambda p: "")
    run, other = write_run(tmp_path / "run", {"q0": "x"}), write_run(tmp_path / "other", {"q0": "y"})
    assert judge(run, config())[0]["llm_match"] is None
    summary, _ = judge(run, config(against=True), other)
    assert summary["win_rate"] is None and summary["unparsable_replies"] == 2
    assert "no verdict" in told(summary)[0]


def test_verdicts_do_not_depend_on_the_batch(tmp_path, scripted):
    scripted(lambda p: f"Verdict: {'yes' if len(p.operation.prompt.text) % 2 else 'no'}")
    run = write_run(tmp_path / "run", {f"q{i}": "x" * (i + 1) for i in range(8)})
    written = []
    for batch in (1, 3, 8):
        judge(run, config(batch_size=batch))
        written.append((run / "judge.jsonl").read_bytes())
    assert len(set(written)) == 1


def test_an_interrupted_judge_leaves_nothing(tmp_path, scripted):
    def stop(p: Pending) -> str:
        raise KeyboardInterrupt
    scripted(stop)
    run = write_run(tmp_path / "run", ROWS)
    before = snapshot(run)
    with pytest.raises(KeyboardInterrupt):
        judge(run, config())
    assert snapshot(run) == before


@pytest.mark.parametrize(("reply", "verdict"), [
    ("Verdict: yes", "yes"), ("verdict : No.", "no"), ("The two agree.\n\nVerdict: **Yes**", "yes"), (" yes", "yes"), ("No.", "no"),
    ("**no**\nbecause", "no"), ("Verdict: maybe. Verdict: no", "no"), ("No idea what this means", None), ("yes or no", None), ("", None),
    ("<think>Verdict: yes</think>", None), ("Verdict: nothing", None), ("The verdict is yes", None),
    ("Verdict: yes/no", None), ("Verdict: yes or no", None), ("Verdict: yes. No doubt.", "yes"),
])
def test_reading_verdicts(reply: str, verdict: str | None) -> None:
    assert read_verdict(reply) == verdict


@pytest.mark.parametrize(("reply", "scores"), [
    ("Scores: 85 90", (85, 90)), (" 1 100", (1, 100)), ("A: 70\nB: 40", (70, 40)), ("85/100 and 90 / 100", (85, 90)), ("72.5, 30\nAnswer A is from 1911", (72.5, 30)),
    ("Answer 1: 85, answer 2: 90", None), ("85", None), ("0 50", None), ("50 101", None), ("-5 50", None), ("", None), ("<think>50 60</think>", None), ("1 2 3", None),
])
def test_reading_scores(reply: str, scores: tuple[float, float] | None) -> None:
    assert read_scores(reply) == scores


@given(st.text())
def test_any_reply_can_be_read(reply: str) -> None:
    assert read_verdict(reply) in ("yes", "no", None)
    scores = read_scores(reply)
    assert scores is None or all(1 <= score <= 100 for score in scores)


@pytest.mark.parametrize(("argv", "words"), [
    ([], "--judge is missing"), (["--judge", "no-such-model"], "no-such-model"), (["--judge", "m", "--backend", "openai"], "--base-url"),
    (["--judge", "m", "--base-url", "http://x/v1"], "--backend openai"), (["--judge", "smollm2", "--against", "nowhere"], "nowhere"),
    (["--judge", "smollm2", "--max-new-tokens", "0"], "--max-new-tokens is 0"), (["--judge", "m", "--limit", "3"], "--limit"),
    (["--judge", "smollm2", "--prompts", "nowhere"], "nowhere"),
])
def test_wrong_calls_are_refused_in_one_line(tmp_path, capsys, monkeypatch, argv, words):
    monkeypatch.chdir(tmp_path)
    run = write_run(tmp_path / "run", ROWS)
    before = snapshot(run)
    assert main(["judge", "run", *argv]) == 2
    err = capsys.readouterr().err
    assert words in err and len(err.splitlines()) == 1
    assert snapshot(run) == before


@pytest.mark.parametrize(("predictions", "golds", "words"), [
    ({"q0": "x"}, None, "lacks question 'q1'"), ({**OTHER, "q9": "x"}, None, "has question 'q9'"), (OTHER, ["other"], "asks something else in question 'q0'"),
])
def test_a_run_on_other_questions_is_refused(tmp_path, predictions, golds, words):
    run, other = write_run(tmp_path / "run", ROWS), write_run(tmp_path / "other", predictions, golds)
    with pytest.raises(UsageError, match=words):
        judge(run, config(against=True), other)


def test_an_unfinished_run_is_refused(tmp_path):
    run = write_run(tmp_path / "run", ROWS)
    (run / "metrics.json").unlink()
    with pytest.raises(UsageError, match=r"no metrics\.json"):
        judge(run, config())


def test_your_own_templates_take_the_place_of_ours(tmp_path, scripted):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/judge_match.j2").write_text("Same? Verdict: yes or Verdict: no")
    requests = scripted(lambda p: "Verdict: no")
    judge(write_run(tmp_path / "run", ROWS), config(prompts=str(tmp_path / "mine")))
    assert all(r.operation.prompt.text.endswith("Same? Verdict: yes or Verdict: no") for r in requests)
