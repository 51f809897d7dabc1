"""A run with a thought memory: its file, what a continued and another run see, what is refused (design, section 5)."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation import assemble, inputs, remembering
from evoctx_torch.evaluation.inputs import check_inputs
from evoctx_torch.evaluation.run import Interrupted, evaluate
from evoctx_torch.memory.opening import open_store
from evoctx_torch.memory.records import EncoderId
from evoctx_torch.memory.store import ThoughtStore
from evoctx_torch.retrieval.hashing import HashEncoder

TOWNS = ["Tarn", "Lisk", "Brask", "Ostrand", "Morn", "Hollin", "Vell", "Quay"]
ID = EncoderId("hash", HashEncoder(4096).digest)


def distilling(p) -> str:
    asked = p.operation.prompt.segments[-1].text
    if "worth remembering" in asked:
        town = TOWNS[int(p.question_id[1:])]
        return f" who is the mayor of {town}? {town}a {town}b {p.question_id}\nConfidence: {int(p.question_id != 'q2')}"
    return f"Mayor {p.question_id[1:]}"


@pytest.fixture
def remembering_run(configure, scripted, monkeypatch):
    """`remembering_run(folder, **options)`: evaluate with the scripted model, words in bins of their own; returns the outcome."""
    def run(out, reply=distilling, **options):
        run.requests = scripted(reply)
        monkeypatch.setattr(assemble, "Encoder", lambda *_, **__: HashEncoder(4096))
        monkeypatch.setattr(inputs, "encoder_digest", lambda *_, **__: HashEncoder(4096).digest)
        return evaluate(configure("thought-retriever", **{"wave": 3, **options}), out)
    return run


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def contents(path: Path) -> list[tuple]:
    with closing(ThoughtStore(path)) as store:
        return [(t.text, t.level, t.sources, t.provenance, t.wave, t.question) for t in store.thoughts]


def files(folder: Path) -> dict[str, bytes]:
    others = ("config.json", "journal-0.sqlite", "metrics.json", "memory.sqlite", "report.html")
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name not in others}


def test_a_run_keeps_its_memory_in_its_folder_and_tells_what_became_of_thoughts(tmp_path, remembering_run):
    metrics = remembering_run(tmp_path / "run").metrics
    assert len(contents(tmp_path / "run/memory.sqlite")) == 7
    assert metrics["thoughts"] == {"offered": 7, "unsure": 1} and metrics["llm_calls"]["mean"] == 2
    assert metrics["thoughts_recalled"]["mean"] > 0 and metrics["abstraction"]["mean"] > 1
    assert {"provenance_precision", "provenance_recall"} <= set(metrics)
    began = json.loads((tmp_path / "run/config.json").read_text())["memory_at_start"]
    assert began["thoughts"] == 0 and began["run"]
    assert "who is the mayor of Tarn? Tarna" in (tmp_path / "run/report.html").read_text()


def test_a_finished_run_asked_again_changes_nothing(tmp_path, remembering_run):
    remembering_run(tmp_path / "run", memory=str(tmp_path / "m"))
    before = {p: p.read_bytes() for p in [tmp_path / "m", *(tmp_path / "run").iterdir()]}
    assert remembering_run(tmp_path / "run", memory=str(tmp_path / "m"), batch_size=2).ran == 0
    assert {p: p.read_bytes() for p in [tmp_path / "m", *(tmp_path / "run").iterdir()]} == before


def test_another_run_finds_the_thoughts_and_repeats_none(tmp_path, remembering_run):
    remembering_run(tmp_path / "a", memory=str(tmp_path / "m"))
    first = contents(tmp_path / "m")
    remembering_run(tmp_path / "b", memory=str(tmp_path / "m"))
    assert rows(tmp_path / "b/predictions.jsonl")[0]["thoughts_recalled"] >= 1
    assert rows(tmp_path / "a/predictions.jsonl")[0]["thoughts_recalled"] == 0
    assert contents(tmp_path / "m") == first
    assert json.loads((tmp_path / "b/config.json").read_text())["memory_at_start"]["thoughts"] == 7


class Killed(BaseException):
    pass


@pytest.mark.parametrize("calls", [0, 1, 4, 7, 9, 12, 15])
def test_a_killed_run_continues_to_the_same_answers_and_the_same_memory(tmp_path, remembering_run, calls):
    remembering_run(tmp_path / "whole", memory=str(tmp_path / "w"))
    asked = []

    def dying(p):
        asked.append(p)
        if len(asked) > calls:
            raise Killed
        return distilling(p)
    with pytest.raises(Killed):
        remembering_run(tmp_path / "run", dying, memory=str(tmp_path / "m"), batch_size=2)
    remembering_run(tmp_path / "run", memory=str(tmp_path / "m"))
    assert files(tmp_path / "run") == files(tmp_path / "whole") and contents(tmp_path / "m") == contents(tmp_path / "w")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Killed])
def test_a_stop_before_the_last_wave_is_stored_leaves_the_run_unfinished(tmp_path, remembering_run, monkeypatch, stop):
    settle, settled = ThoughtStore.settle, []

    def dying(*arguments):
        settled.append(1)
        if len(settled) == 3:
            raise stop
        settle(*arguments)
    with monkeypatch.context() as patch:
        patch.setattr(ThoughtStore, "settle", dying)
        with pytest.raises(Interrupted if stop is KeyboardInterrupt else Killed):
            remembering_run(tmp_path / "run", memory=str(tmp_path / "m"))
    assert not (tmp_path / "run/metrics.json").exists() and len(contents(tmp_path / "m")) == 5
    assert remembering_run(tmp_path / "run", memory=str(tmp_path / "m")).ran == 0
    remembering_run(tmp_path / "whole", memory=str(tmp_path / "w"))
    assert contents(tmp_path / "m") == contents(tmp_path / "w") and files(tmp_path / "run") == files(tmp_path / "whole")


def test_a_larger_limit_continues_the_memory_too(tmp_path, remembering_run):
    remembering_run(tmp_path / "run", memory=str(tmp_path / "m"), limit=4)
    assert remembering_run(tmp_path / "run", memory=str(tmp_path / "m"), limit=8).ran == 4
    remembering_run(tmp_path / "whole", memory=str(tmp_path / "w"))
    assert contents(tmp_path / "m") == contents(tmp_path / "w") and files(tmp_path / "run") == files(tmp_path / "whole")


def test_halves_share_no_question_and_cold_and_evolved_are_the_same_command(tmp_path, remembering_run):
    remembering_run(tmp_path / "evolve", memory=str(tmp_path / "m"), split="evolve", wave=1)
    cold = remembering_run(tmp_path / "cold", freeze_memory=True, split="held-out").metrics
    before = (tmp_path / "m").read_bytes()
    evolved = remembering_run(tmp_path / "evolved", memory=str(tmp_path / "m"), freeze_memory=True, split="held-out").metrics
    some = remembering_run(tmp_path / "some", memory=str(tmp_path / "m"), freeze_memory=True, split="held-out", known_thoughts=1).metrics
    assert [r["id"] for r in rows(tmp_path / "evolve/predictions.jsonl")] == ["q0", "q2", "q4", "q6"]
    assert [r["id"] for r in rows(tmp_path / "evolved/predictions.jsonl")] == ["q1", "q3", "q5", "q7"]
    assert cold["thoughts_recalled"]["mean"] == 0 < some["thoughts_recalled"]["mean"] <= evolved["thoughts_recalled"]["mean"]
    assert (tmp_path / "m").read_bytes() == before and evolved["llm_calls"]["mean"] == 1 and not (tmp_path / "cold/memory.sqlite").exists()
    assert json.loads((tmp_path / "some/config.json").read_text())["memory_at_start"]["thoughts"] == 1


def refused(remembering_run, out, words, **options):
    with pytest.raises(UsageError, match=words):
        remembering_run(out, **options)
    assert not remembering_run.requests and not out.exists()


def test_memories_that_cannot_be_used_are_refused_before_anything_is_loaded_or_written(tmp_path, remembering_run):
    (tmp_path / "text").write_text("hello\n" * 30)
    with closing(ThoughtStore(tmp_path / "other", EncoderId("e5", "0123456789"))) as store:
        store.create()
    out = tmp_path / "run"
    refused(remembering_run, out, "is no thought memory", memory=str(tmp_path / "text"))
    refused(remembering_run, out, r"another encoder, .* \(e5, digest 01234567", memory=str(tmp_path / "other"))
    refused(remembering_run, out, "there is no folder", memory=str(tmp_path / "nowhere/m"))
    refused(remembering_run, out, "no such file", memory=str(tmp_path / "m"), freeze_memory=True)
    refused(remembering_run, out, "--known-thoughts counts", known_thoughts=2)
    remembering_run(tmp_path / "a", memory=str(tmp_path / "m"))
    refused(remembering_run, out, "--known-thoughts is 9, and .* holds 7", memory=str(tmp_path / "m"), known_thoughts=9)
    with open_store(tmp_path / "m", ID):
        refused(remembering_run, out, "another run is using the memory", memory=str(tmp_path / "m"))


def test_a_memory_that_was_exchanged_under_a_run_is_refused(tmp_path, remembering_run):
    remembering_run(tmp_path / "a", memory=str(tmp_path / "m"))
    remembering_run(tmp_path / "run", memory=str(tmp_path / "m"), limit=2)
    (tmp_path / "m").rename(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"is not the one that the run in .* began with"):
        remembering_run(tmp_path / "run", memory=str(tmp_path / "m"))
    remembering_run(tmp_path / "own", limit=2)
    (tmp_path / "own/memory.sqlite").unlink()
    with pytest.raises(UsageError, match="is gone"):
        remembering_run(tmp_path / "own")


def test_an_index_without_vectors_and_several_writers_are_refused(configure, scripted):
    scripted()
    config = configure("thought-retriever")
    checked = check_inputs(config)
    with pytest.raises(UsageError, match=r"2 processes .* --freeze-memory"):
        remembering.check_memory(config, checked, processes=2)
    remembering.check_memory(configure("thought-retriever", freeze_memory=True), checked, processes=2)
    import dataclasses
    with pytest.raises(UsageError, match=r"has no vectors \(bm25\)"):
        remembering.check_memory(config, dataclasses.replace(checked, encoder=None))


def test_a_question_alone_has_no_held_out_half(tmp_path, configure, scripted):
    scripted()
    with pytest.raises(UsageError, match="--split held-out has no question"):
        evaluate(configure(limit=1, split="held-out"), tmp_path / "run")
