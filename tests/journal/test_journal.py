"""The journal: results come back as they were, nothing is asked twice, another operation is noticed."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evoctx_torch.errors import UsageError
from evoctx_torch.journal import Journal, Journaled
from evoctx_torch.journal.codec import decode, encode, passage_body, read_passage
from evoctx_torch.journal.digest import digest
from evoctx_torch.operations import (
    Completion,
    Decide,
    Decision,
    Failure,
    Generate,
    Noted,
    NoveltyRule,
    Passage,
    Pending,
    Recall,
    Remember,
    Retrieve,
    Retrieved,
    Score,
    Scored,
    Thought,
)
from evoctx_torch.transcript import Prompt, Segment

TEXT = st.text(max_size=12)
NUMBERS = st.floats(allow_nan=False)
COMPLETIONS = st.builds(
    Completion, TEXT, st.sampled_from(["eos", "stop", "length", "empty"]), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9),
    token_ids=st.none() | st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple), logprobs=st.none() | st.lists(NUMBERS, max_size=4).map(tuple),
    dropped=st.lists(TEXT, max_size=2).map(tuple), pieces=st.none() | st.lists(TEXT, max_size=3).map(tuple), stopped_by=st.none() | TEXT)
PASSAGES = st.builds(Passage, TEXT, TEXT, TEXT, TEXT, st.none() | NUMBERS) | st.builds(
    Thought, TEXT, TEXT, TEXT, TEXT, st.none() | NUMBERS, NUMBERS, st.lists(TEXT, max_size=2).map(tuple))
RESULTS = (
    COMPLETIONS
    | st.builds(Scored, st.lists(NUMBERS, max_size=2).map(tuple), st.lists(st.integers(0, 9), max_size=2).map(tuple), COMPLETIONS)
    | st.builds(Retrieved, st.lists(PASSAGES, max_size=3, unique_by=lambda p: p.id).map(tuple))
    | st.builds(Decision, NUMBERS, NUMBERS, NUMBERS, NUMBERS, TEXT, TEXT, st.integers(-1, 9))
    | st.builds(Noted) | st.builds(Failure, TEXT, TEXT, st.lists(TEXT, max_size=2).map(tuple))
)
PROMPT = Prompt((Segment("head"), Segment("a passage", passage_id="p")), True, "Be brief.")
OPERATIONS = [
    Generate("generator", PROMPT), Generate("decider", PROMPT), Generate("generator", PROMPT, 5), Generate("generator", PROMPT, stop=("\n",)),
    Generate("generator", PROMPT, pieces=True), Generate("generator", Prompt(PROMPT.segments, False, "Be brief.")),
    Generate("generator", Prompt(PROMPT.segments, True)), Generate("generator", Prompt(PROMPT.segments[:1], True, "Be brief.", PROMPT.segments[1:])),
    Generate("generator", Prompt((Segment("heada passage"),), True, "Be brief.")),
    Generate("generator", Prompt((Segment("head"), Segment("a passage", "observation", "p")), True, "Be brief.")),
    Generate("generator", Prompt((Segment("head", ids=(1, 2)), PROMPT.segments[1]), True, "Be brief.")),
    Score("generator", PROMPT, ("A", "B")), Score("generator", PROMPT, ("B", "A")), Score("generator", PROMPT, ("A", "B"), 5),
    Score("generator", PROMPT, ("A", "B"), 5, PROMPT),
    Retrieve("q", 2), Retrieve("q", 3), Retrieve("r", 2), Retrieve("q", 2, frozenset("ab")), Retrieve("q", 2, frozenset(["ab"])),
    Retrieve("q", 2, refill=False), Retrieve("q", 2, within=frozenset()), Retrieve("q", 2, within=frozenset("a")),
    Recall("q", 2, 10), Recall("q", 2, 11), Recall("q", 2, 10, 0.9), Recall("q", 2, 10, within=frozenset("a")),
    Remember("t", ("a",)), Remember("t", ("a", "b")), Remember("u", ("a",)), Remember("t", ("a",), 0.9),
    Decide("t", ("a", "b")), Decide("t", ("ab",)), Decide("u", ("a", "b")), Decide("t", ("a", "b"), NoveltyRule(tau_near=0.31)),
]


def asked(number: int, operation: object = OPERATIONS[0], question: str = "q0") -> Pending:
    return Pending(question, number, operation)


@given(RESULTS)
@settings(max_examples=150, deadline=None)
def test_a_result_comes_back_as_it_was(result):
    passages = {p.id: passage_body(p) for p in result.passages} if isinstance(result, Retrieved) else {}
    assert decode(encode(result), lambda name: read_passage(name, passages[name])) == result


def test_numbers_that_json_does_not_have_come_back_too():
    back = decode(encode(Decision(math.nan, math.inf, -math.inf, 1.0, "THINK", "p")), None)
    assert math.isnan(back.near) and (back.centroid, back.tail) == (math.inf, -math.inf)
    assert decode(encode(Completion("\ud800 half", "eos", 1, 1, 1)), None).text == "\ud800 half"


def test_digests_tell_operations_apart_and_are_the_same_in_every_process():
    digests = [digest(operation) for operation in OPERATIONS]
    assert len(set(digests)) == len(OPERATIONS) and {len(d) for d in digests} == {16}
    assert digest(Retrieve("q", 2, frozenset(map(str, range(50))))) == digest(Retrieve("q", 2, frozenset(map(str, reversed(range(50))))))
    assert digest(Retrieve("q", 2)).hex() == "ada392fd1362f919e45646fdb5d2dbff"



class Counting:
    def __init__(self, result):
        self.result, self.asked = result, []

    def answer(self, pending):
        self.asked += [(p.question_id, p.number) for p in pending]
        return [self.result(p) for p in pending]


def said(pending: Pending) -> Completion:
    return Completion(f"{pending.question_id} {pending.number}", "eos", 1, 1, 1)


def test_a_continued_run_asks_only_for_what_is_missing(tmp_path):
    path, first, second = tmp_path / "journal.sqlite", Counting(said), Counting(said)
    with Journal(path) as journal:
        before = Journaled(first, journal).answer([asked(0), asked(1)])
    with Journal(path) as journal:
        after = Journaled(second, journal).answer([asked(2), asked(1), asked(0, question="q1"), asked(0)])
    assert second.asked == [("q0", 2), ("q1", 0)]
    assert [r.text for r in after] == ["q0 2", "q0 1", "q1 0", "q0 0"] and after[3] == before[0]


def test_passages_are_stored_once_and_come_back_with_each_retrievals_score(tmp_path):
    found = [Retrieved((Passage("p", "d", "T", "T\ntext", score), Thought("thought-1", "t", "", "a thought", score, 2.5, ("p",)))) for score in (0.5, 0.25)]
    pending = [asked(n, Retrieve("q", n + 1)) for n in range(2)]
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        Journaled(Counting(lambda p: found[p.number]), journal).answer(pending)
    with Journal(path) as journal:
        assert Journaled(Counting(None), journal).answer(pending) == found
        assert journal._connection.execute("SELECT count(*) FROM passages").fetchone() == (2,)


def test_another_operation_than_recorded_is_refused_and_named(tmp_path):
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        Journaled(Counting(said), journal).answer([asked(0)])
    with Journal(path) as journal, pytest.raises(UsageError, match="question 'q0' asks another Generate as its operation 0"):
        Journaled(Counting(said), journal).answer([asked(0, OPERATIONS[2])])


def test_a_row_that_raises_is_recorded_as_its_failure(tmp_path):
    def poison(pending):
        if pending.number == 1:
            raise ValueError("poison")
        return said(pending)
    path, second = tmp_path / "journal.sqlite", Counting(said)
    with Journal(path) as journal:
        first = Journaled(Counting(poison), journal).answer([asked(0), asked(1), asked(2)])
    assert isinstance(first[1], Failure)
    with Journal(path) as journal:
        assert Journaled(second, journal).answer([asked(0), asked(1), asked(2)]) == first and not second.asked


def test_a_second_process_is_refused(tmp_path):
    with Journal(tmp_path / "journal.sqlite"), pytest.raises(UsageError, match="another process is working on this run"):
        Journal(tmp_path / "journal.sqlite")


KILLED = """
import os, signal, sys
from pathlib import Path
from evoctx_torch.journal import Journal
journal = Journal(Path(sys.argv[1]))
journal.finish("q", "prediction", "trajectory")
journal.commit()
journal._connection.execute("PRAGMA cache_size = 2")  # pages are written before the commit, as in the middle of a large one
for i in range(100):
    journal.finish(f"q{i}", "x" * 3000, "y" * 3000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_in_the_middle_of_a_commit_leaves_what_was_committed_for_a_reader(tmp_path):
    path = tmp_path / "journal.sqlite"
    subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert (tmp_path / "journal.sqlite-journal").stat().st_size > 0, "the kill left nothing half written"
    with Journal(path, read_only=True) as journal:
        assert journal.finished() == [("prediction", "trajectory")]


def test_a_kill_before_the_journal_was_set_up_leaves_an_empty_one(tmp_path):
    path = tmp_path / "journal.sqlite"
    path.touch()
    with Journal(path, read_only=True) as journal:
        assert journal.finished() == [] and journal.count("q0") == 0
    assert path.stat().st_size == 0


def test_an_inherited_journal_is_continued_and_what_it_knew_is_recorded_again(tmp_path):
    first, second = Counting(said), Counting(said)
    with Journal(tmp_path / "1") as dead:
        known = Journaled(first, dead).answer([asked(0), asked(1)])
        dead.finish("q9", "p", "t")
    with Journal(tmp_path / "0") as journal:
        journal.inherit(Journal(tmp_path / "1"))
        assert Journaled(second, journal).answer([asked(0), asked(2)])[0] == known[0] and second.asked == [("q0", 2)]
        assert journal.finished() == [("p", "t")] and journal.count("q0") == 2
    with Journal(tmp_path / "0") as alone, Journal(tmp_path / "1"):
        assert Journaled(Counting(None), alone).answer([asked(0)]) == known[:1]


def test_another_version_and_a_file_that_is_no_journal_are_refused(tmp_path):
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(UsageError, match="version 7; expected 1"):
        Journal(path)
    path.write_bytes(b"this is no database at all, " * 100)
    with pytest.raises(UsageError, match="damaged"):
        Journal(path)


def test_a_batch_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        journal._connection.execute("PRAGMA max_page_count = 8")
        with pytest.raises(UsageError, match="full"):
            journal.record([asked(n) for n in range(3)], [Completion("x" * 20_000, "eos", 1, 1, 1)] * 3)
        journal._connection.execute("PRAGMA max_page_count = 1000000")
        journal.record([asked(0)], [said(asked(0))])
        assert journal._connection.execute("SELECT count(*) FROM results").fetchone() == (1,)
