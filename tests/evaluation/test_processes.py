"""A run of several processes: the same files as one, shares stolen, the dead replaced, two runs kept apart.

Processes are threads here: they meet in the folder alone, and SQLite's locks hold between connections as between processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation import sharing
from evoctx_torch.evaluation.claims import Claims
from evoctx_torch.evaluation.folder import RunFolder
from evoctx_torch.evaluation.processes import ALONE, Processes, from_environment
from evoctx_torch.evaluation.run import evaluate
from evoctx_torch.journal import Journal
from evoctx_torch.operations import Question

METHOD = {"method": "evoctx", "rounds": 2}


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    monkeypatch.setattr(sharing, "POLL", 0.02)


def files(folder: Path) -> dict[str, object]:
    """A run's files but for what tells how it was run: journals, num_processes, batch_size, timing."""
    found: dict[str, object] = {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if not p.name.startswith("journal")}
    for name in ("config.json", "metrics.json"):
        found[name] = {k: v for k, v in json.loads(found[name]).items() if k not in ("num_processes", "batch_size", "timing", "git_commit")}
    del found["report.html"]  # tells them, too
    return found


def rank() -> int:
    return int(threading.current_thread().name.removeprefix("rank "))


class Killed(BaseException):
    """Ends a thread as SIGKILL ends a process: nothing is said to the others."""


def launch(config, out, count, token="t", ranks=None, **ends):
    """`evaluate` in one thread a process; what each returned or raised."""
    results: dict[int, object] = {}

    def run(own: int) -> None:
        try:
            results[own] = evaluate(config, out, processes=Processes(own, count, own, token))
        except BaseException as error:
            results[own] = error
    threads = [threading.Thread(target=run, args=(own,), name=f"rank {own}") for own in (range(count) if ranks is None else ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads), "a process hangs"
    return results


@pytest.fixture
def alone(tmp_path, configure, scripted):
    """The files of one undisturbed process, and how many model calls it took."""
    requests = scripted()
    evaluate(configure(**METHOD), tmp_path / "alone")
    return files(tmp_path / "alone"), len(requests)


@pytest.mark.parametrize("count", [2, 3, 11])
def test_any_number_of_processes_writes_the_files_of_one(tmp_path, configure, scripted, alone, count):
    requests = []
    scripted(lambda p: requests.append((rank(), p)) or f"Mayor {p.question_id[1:]}")
    results = launch(configure(**METHOD), tmp_path / "run", count)
    assert not [r for r in results.values() if isinstance(r, BaseException)], results
    assert files(tmp_path / "run") == alone[0] and len(requests) == alone[1], "something was done twice"
    assert json.loads((tmp_path / "run/config.json").read_text())["num_processes"] == count
    assert {own for own, _ in requests} == set(range(min(count, 8))) and sum(r.ran for r in results.values()) == 8
    assert len({p.question_id: own for own, p in requests}) == len({(own, p.question_id) for own, p in requests}) == 8
    assert not (tmp_path / "run/claims").exists()
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    assert all(r.ran == 0 for r in launch(configure(**METHOD), tmp_path / "run", 2).values())
    assert before == {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}, "a finished run was touched"


def test_a_slow_process_does_not_hold_the_rest(tmp_path, configure, scripted, alone):
    answered = {0: set(), 1: set()}
    done = threading.Event()

    def reply(p):
        answered[rank()].add(p.question_id)
        if rank() == 1:
            done.wait(20)  # as slow as all the others' work
        elif len(answered[0]) == 7:
            done.set()
        return f"Mayor {p.question_id[1:]}"
    scripted(reply)
    launch(configure(**METHOD, batch_size=1), tmp_path / "run", 2)
    assert len(answered[1]) == 1 and len(answered[0]) == 7 and done.is_set()
    assert files(tmp_path / "run") == alone[0]


@pytest.mark.parametrize("dies", [0, 1])
def test_who_is_left_finishes_in_the_middle_what_a_dead_process_has_begun(tmp_path, configure, scripted, alone, dies):
    asked, both = {0: 0, 1: 0}, threading.Barrier(2)

    def reply(p):
        asked[rank()] += 1
        if asked[rank()] == 1:
            both.wait(20)
        if rank() == dies and asked[dies] == 8:
            raise Killed
        return f"Mayor {p.question_id[1:]}"
    scripted(reply)
    results = launch(configure(**METHOD), tmp_path / "run", 2)
    assert isinstance(results[dies], Killed) and results[1 - dies].metrics["questions"] == 8
    assert files(tmp_path / "run") == alone[0] and not (tmp_path / "run/claims").exists()
    assert 0 < sum(asked.values()) - alone[1] <= 3, "only the batch that died may be asked again"


@pytest.mark.parametrize("later", [1, 2, 3])
def test_any_later_number_of_processes_continues_where_all_died(tmp_path, configure, scripted, alone, later):
    asked, lock = [], threading.Lock()

    def reply(p):
        with lock:
            asked.append(p)
        if len(asked) > 14:
            raise Killed
        return f"Mayor {p.question_id[1:]}"
    scripted(reply)
    launch(configure(**METHOD, batch_size=2), tmp_path / "run", 3, "first")
    assert not (tmp_path / "run/metrics.json").exists() and len(RunFolder(tmp_path / "run").seats()) == 3
    again = []
    scripted(lambda p: again.append(p) or f"Mayor {p.question_id[1:]}")
    if later == 1:
        evaluate(configure(**METHOD), tmp_path / "run")
    else:
        results = launch(configure(**METHOD), tmp_path / "run", later, "second")
        assert not [r for r in results.values() if isinstance(r, BaseException)], results
    assert files(tmp_path / "run") == alone[0]
    assert len(asked) + len(again) - alone[1] <= 6, "only what was under way may be asked again: two rows of three processes"


def test_a_process_that_never_comes_is_replaced(tmp_path, configure, scripted, alone, monkeypatch):
    scripted()
    monkeypatch.setattr(sharing, "GRACE", 0.2)
    (result,) = launch(configure(**METHOD), tmp_path / "run", 2, ranks=[0]).values()
    assert result.ran == 8 and files(tmp_path / "run") == alone[0]


def test_who_dies_while_writing_the_files_is_replaced(tmp_path, configure, scripted, alone, monkeypatch):
    scripted()
    write = RunFolder.write

    def dying(folder, done, ids):
        if rank() == 0:
            raise Killed
        return write(folder, done, ids)
    monkeypatch.setattr(RunFolder, "write", dying)
    results = launch(configure(**METHOD), tmp_path / "run", 3)
    assert isinstance(results[0], Killed) and files(tmp_path / "run") == alone[0]
    assert results[1].metrics == results[2].metrics


def test_a_second_run_in_the_folder_is_refused_whatever_its_number_of_processes(tmp_path, configure, scripted, monkeypatch):
    monkeypatch.setattr(sharing, "BEAT", 0.05)
    working, end = threading.Event(), threading.Event()

    def reply(p):
        working.set()
        end.wait(30)
        return "Mayor"
    scripted(reply)
    first = threading.Thread(target=launch, args=(configure(), tmp_path / "run", 2, "one"))
    first.start()
    assert working.wait(20)
    time.sleep(0.2)
    before = (tmp_path / "run/claims/launch.json").read_bytes()
    others = launch(configure(), tmp_path / "run", 3, "another")
    with pytest.raises(UsageError, match="another process is working on this run"):
        evaluate(configure(), tmp_path / "run")
    assert all(isinstance(error, UsageError) for error in others.values()), others
    assert (tmp_path / "run/claims/launch.json").read_bytes() == before
    end.set()
    first.join(30)
    assert (tmp_path / "run/metrics.json").exists()


def test_a_journal_that_stays_locked_without_a_sign_of_life_is_said(tmp_path, configure, scripted, monkeypatch):
    monkeypatch.setattr(sharing, "SILENT", 0.3)
    monkeypatch.setattr(sharing, "GRACE", 0.0)
    scripted()
    (tmp_path / "run").mkdir()
    stuck = Journal(tmp_path / "run/journal-1.sqlite")  # opened after the check, as by a process that hangs from then on
    monkeypatch.setattr(RunFolder, "check", lambda *_: None)
    monkeypatch.setattr(RunFolder, "done", lambda *_: {})
    monkeypatch.setattr(RunFolder, "started", lambda *_: {})
    (error,) = launch(configure(), tmp_path / "run", 2, ranks=[0]).values()
    stuck.close()
    assert isinstance(error, UsageError) and "process 1" in str(error) and "no sign of life" in str(error)
    monkeypatch.undo()


def test_processes_with_a_memory_are_refused_unless_it_is_frozen(tmp_path, configure, scripted):
    scripted()
    for error in launch(configure("thought-retriever"), tmp_path / "run", 2).values():
        assert isinstance(error, UsageError) and "--freeze-memory" in str(error)
    results = launch(configure("thought-retriever", freeze_memory=True), tmp_path / "run", 2)
    assert sum(r.ran for r in results.values()) == 8
    evaluate(configure("thought-retriever", freeze_memory=True), tmp_path / "alone")
    for name in ("predictions.jsonl", "trajectories.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_a_question_is_claimed_once_and_says_by_whom(tmp_path):
    claims, taken = Claims(tmp_path / "claims"), []
    claims.announce({"token": ""}, range(4), {5: 3})
    start = threading.Barrier(4)

    def run(seat):
        start.wait()
        taken.extend((seat, position) for position in range(50) if claims.take(position, seat))
    threads = [threading.Thread(target=run, args=(seat,)) for seat in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(position for _, position in taken) == [p for p in range(50) if p != 5]
    for seat in range(4):
        assert claims.of(seat) == sorted([p for s, p in taken if s == seat] + ([5] if seat == 3 else []))


def test_the_environment_tells_the_place(monkeypatch):
    assert from_environment({}) == from_environment({"RANK": "3"}) == ALONE
    place = from_environment({"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "MASTER_PORT": "1234"})
    assert (place.rank, place.count, place.local_rank, place.first) == (9, 16, 1, False)
    assert place.token == from_environment({"RANK": "0", "WORLD_SIZE": "16", "MASTER_PORT": "1234"}).token
    assert place.token != from_environment({"RANK": "9", "WORLD_SIZE": "16", "MASTER_PORT": "1235"}).token
    for wrong in ({"WORLD_SIZE": "two", "RANK": "0"}, {"WORLD_SIZE": "2"}, {"WORLD_SIZE": "2", "RANK": "2"}, {"WORLD_SIZE": "0", "RANK": "0"}):
        with pytest.raises(UsageError, match="in the environment; expected a whole number"):
            from_environment(wrong)


def test_accelerate_that_starts_one_process_of_several_is_noticed():
    one = {"ACCELERATE_MIXED_PRECISION": "no"}
    assert from_environment(one) == ALONE
    with pytest.raises(UsageError, match="asked for several processes and has started this one alone"):
        from_environment(one | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"})


RUNNER = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
import conftest
from pathlib import Path
from types import SimpleNamespace
from evoctx_torch.cli import main
from evoctx_torch.evaluation import assemble, sharing
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.generation.settings import Roles
from evoctx_torch.evaluation import inputs
asked = []
def reply(p):
    asked.append(p)
    time.sleep(0.02)
    if len(asked) == int(os.environ.get("KILL_AT", -1)):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"Mayor {p.question_id[1:]}"
assemble.build_generator = lambda config, roles, *_: ScriptedGenerator(reply, Roles(by_role={r: assemble.role_settings(config.roles[r]) for r in roles}))
inputs.check_generator = lambda config, role: "scripted"
sys.exit(main(sys.argv[2:]))
"""


def test_a_process_killed_by_sigkill_is_replaced_by_the_other_and_the_command_line_writes_the_files(tmp_path, data, configure, scripted):
    (tmp_path / "runner.py").write_text(RUNNER)
    arguments = ["eval", "closed-book", "--data", data, "--generator", "scripted", "--prompt-family", "completion", "--batch-size", "2", "--out"]

    def start(out, **environment):
        command = [sys.executable, tmp_path / "runner.py", Path(__file__).parent, *arguments, tmp_path / out]
        return subprocess.Popen(command, env={**os.environ, "EVOCTX_CACHE": str(tmp_path / "cache"), **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    two = {"WORLD_SIZE": "2", "MASTER_PORT": "1"}
    ranks = [start("run", RANK="0", **two), start("run", RANK="1", KILL_AT="2", **two)]
    said = [process.communicate(timeout=120) for process in ranks]
    assert [process.returncode for process in ranks] == [0, -signal.SIGKILL], said
    assert "closed-book" in said[0][0] and not said[1][0]
    scripted()
    evaluate(configure("closed-book"), tmp_path / "alone")
    assert files(tmp_path / "run") == files(tmp_path / "alone")


def test_a_question_of_the_share_of_another_is_left_until_that_one_has_begun(tmp_path):
    folder = RunFolder(tmp_path / "run")
    questions = [Question(f"q{i}", "?", ()) for i in range(4)]
    first = sharing.Part(folder, Processes(0, 2), questions)
    second = sharing.Part(folder, Processes(1, 2), questions)
    try:
        assert first.begin({}, {}) and [q.id for q in next(first.turns())] == ["q0", "q2"]
        assert second.begin({}, {})
        assert not first._may_steal()
        claimed = next(second.turns())
        assert next(claimed).id == "q1" and first._may_steal()
        assert [q.id for q in first._claimed()] == ["q3"] and list(claimed) == []
    finally:
        first.close()
        second.close()
