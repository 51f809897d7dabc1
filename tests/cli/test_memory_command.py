"""`evoctx memory ls|show|stats`: what a memory holds, told without a model."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from evoctx_torch.cli import main
from evoctx_torch.memory.records import EncoderId, Offer, StoredThought
from evoctx_torch.memory.store import ThoughtStore


@pytest.fixture
def memory(tmp_path):
    """Three thoughts: the third rests on both others and a passage, the second on the first; one offer was a copy."""
    import numpy as np
    store = ThoughtStore(tmp_path / "m", EncoderId("tiny", "0" * 32))
    store.create()
    offers = [Offer("q", number, text, ("p",), 0.85) for number, text in enumerate(["one [/] thing", "two", "three", "one"])]
    store.offer("run", offers)
    thoughts = [StoredThought(1, "one [/] thing", 2.0, ("p1", "p[2]"), ("p1", "p[2]"), "run", 0, "q"),
                StoredThought(2, "two", 3.0, (1,), ("p1", "p[2]"), "run", 1, "q"),
                StoredThought(3, "three", 3.0, (1, 2, "p3"), ("p1", "p[2]", "p3"), "run", 2, "q")]
    outcomes = list(zip(offers, ["stored", "stored", "stored", "copy"], strict=True))
    store.settle("run", outcomes, list(zip(thoughts, np.eye(3, dtype=np.float32), strict=True)))
    store.close()
    return tmp_path / "m"


def test_ls_lists_thoughts_as_others_read_them(memory, capsys):
    assert main(["memory", "ls", str(memory), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1:] == [
        {"thought": "two", "level": 3.0, "provenance": ["p1", "p[2]"]},
        {"thought": "three", "level": 3.0, "provenance": ["p1", "p[2]", "p3"]}]
    assert main(["memory", "ls", str(memory)]) == 0
    assert "one [/] thing" in capsys.readouterr().out


def test_show_draws_the_tree_of_sources_and_shared_ones_once(memory, capsys):
    assert main(["memory", "show", str(memory), "3"]) == 0
    out = capsys.readouterr().out
    assert [line.lstrip("│├└─ ") for line in out.splitlines()] == [
        "3 (level 3): three", "1 (level 2): one [/] thing", "passage p1", "passage p[2]", "2 (level 3): two",
        "1 (level 2): one [/] thing", "(as above)", "passage p3"]
    assert main(["memory", "show", str(memory), "thought-1"]) == 0


def test_stats_tell_counts_and_rejections(memory, capsys):
    assert main(["memory", "stats", str(memory)]) == 0
    out = capsys.readouterr().out
    assert "thoughts: 3" in out and "rejected: copy: 1" in out
    assert "mean pairwise cosine: 0.000" in out and "2 to below 3: 1, 3 to below 4: 2" in out
    assert main(["memory", "stats", str(memory), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passages_under_them"] == 3


@pytest.mark.parametrize(("arguments", "words"), [
    (["ls", "nowhere"], "no such file"), (["show", "M", "4"], "has no thought '4'; it has 3"), (["show", "M", "x"], "has no thought 'x'"),
    (["show", "M", "0"], "has no thought '0'"), (["stats", "TEXT"], "is no thought memory"), (["forget", "M"], "invalid choice"),
])
def test_wrong_calls_end_in_one_line(memory, tmp_path, capsys, arguments, words):
    (tmp_path / "text").write_text("no database " * 99)
    before = memory.read_bytes()
    assert main(["memory", *({"M": str(memory), "TEXT": str(tmp_path / "text")}.get(a, a) for a in arguments)]) == 2
    out = capsys.readouterr()
    assert words in out.err and len(out.err.splitlines()) == 1 and not out.out
    assert memory.read_bytes() == before


def test_looking_into_a_memory_loads_no_torch(memory):
    code = (f"import sys; from evoctx_torch.cli import main; main(['memory', 'stats', {str(memory)!r}]); "
            "print('torch' in sys.modules, file=sys.stderr)")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.strip() == "False"
