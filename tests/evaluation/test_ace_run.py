"""Ace as a run: votes by a real (tiny) model, what is refused before anything is written, what makes two runs different."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation import assemble, inputs
from evoctx_torch.evaluation.profile import ProfileOptions, profile
from evoctx_torch.evaluation.run import evaluate
from evoctx_torch.generation import hf
from evoctx_torch.operations import Score
from evoctx_torch.retrieval.hashing import HashEncoder

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "generation"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "methods"))
from tiny_lm import TEMPLATE, tiny_model
from worlds import tokenizer


@pytest.fixture
def tiny(monkeypatch):
    """`tiny(template)`: evaluations load a model of random weights whose tokenizer knows every byte; returns the operations that were checked."""
    def install(template: str = TEMPLATE) -> list[object]:
        checked: list[object] = []

        class Watched(hf.HFGenerator):
            def check(self, operation):
                checked.append(operation)
                super().check(operation)
        own = tokenizer().__class__(tokenizer_object=tokenizer().backend_tokenizer, eos_token="<|end|>", pad_token="<|end|>", chat_template=template)
        own.name_or_path = "tiny"
        monkeypatch.setattr(hf, "HFGenerator", Watched)
        monkeypatch.setattr(hf, "load_model", lambda *_: (tiny_model(vocab_size=len(own), max_position_embeddings=4096), own))
        monkeypatch.setattr(assemble, "Encoder", lambda name, device, dtype, canonical, **prompts: HashEncoder(64))
        monkeypatch.setattr(inputs, "check_generator", lambda config, role: "tiny")
        monkeypatch.setattr(inputs, "encoder_digest", lambda name, dtype="float32", prompt=None: HashEncoder(64).digest)
        return checked
    return install


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_a_model_votes_by_scores_whatever_the_batch(tmp_path, configure, tiny, family):
    checked = tiny()
    found = []
    for name, batch_size in (("one", 1), ("many", 8)):
        config = configure("ace", vote="score", calibrate=True, rounds=3, max_new_tokens=3, batch_size=batch_size, prompt_family=family)
        evaluate(config, tmp_path / name)
        found.append((lines(tmp_path / name / "predictions.jsonl"), lines(tmp_path / name / "trajectories.jsonl")))
    assert [type(operation) for operation in checked] == [Score] * 2
    (rows, trajectories), (others, again) = found
    assert [r | {"computed_prompt_tokens": 0} for r in rows] == [r | {"computed_prompt_tokens": 0} for r in others]
    for row, trajectory, other in zip(rows, trajectories, again, strict=True):
        assert row["actions"][0] == "RETRIEVE" and row["llm_calls"] == 3 + row["actions"].count("THINK") and row["invalid_votes"] == 0
        for entry, same in zip(trajectory["rounds"][1:], other["rounds"][1:], strict=True):
            assert sum(entry["votes"].values()) == 5 and entry["votes"] == same["votes"]
            (scores,) = entry["scores"]
            assert sum(scores["probabilities"].values()) == pytest.approx(1) == sum(scores["majority"].values())
            assert scores["probabilities"] == pytest.approx(same["scores"][0]["probabilities"], abs=1e-4)
        assert [c["completion_tokens"] for c in trajectory["calls"] if c["role"] == "decider"] == [0, 0]
    metrics = json.loads((tmp_path / "one/metrics.json").read_text())
    assert metrics["invalid_votes"]["mean"] == 0 and len(metrics["think_ratio_by_round"]) == 3 and metrics["warnings"] == []


def test_personas_need_a_model_that_takes_a_system_message(tmp_path, configure, tiny):
    tiny("{{ raise_exception('no system role') if messages[0].role == 'system' }}" + TEMPLATE)
    (tmp_path / "p.txt").write_text("A sceptic.\nA librarian.\n")
    for vote in ("sample", "score"):
        config = configure("ace", personas=str(tmp_path / "p.txt"), vote=vote, prompt_family="chat")
        with pytest.raises(UsageError, match="the chat template of tiny refuses a system message"):
            evaluate(config, tmp_path / "run")
        assert not (tmp_path / "run").exists()
    evaluate(configure("ace", personas=str(tmp_path / "p.txt"), prompt_family="completion", max_new_tokens=2, limit=1), tmp_path / "run")
    evaluate(configure("ace", prompt_family="chat", max_new_tokens=2, limit=1), tmp_path / "plain")


def test_other_personas_are_another_run(tmp_path, configure, scripted):
    scripted(lambda p: "THINK")
    file = tmp_path / "p.txt"
    file.write_text("A sceptic.\nA librarian.\n")
    evaluate(configure("ace", personas=str(file)), tmp_path / "run")
    assert set(json.loads((tmp_path / "run/config.json").read_text())["digests"]) >= {"personas", "decider"}
    assert evaluate(configure("ace", personas=str(file)), tmp_path / "run").ran == 0
    file.write_text("A sceptic.\nA poet.\n")
    with pytest.raises(UsageError, match="personas"):
        evaluate(configure("ace", personas=str(file)), tmp_path / "run")


def test_a_profile_counts_votes_of_either_kind(tmp_path, configure, tiny):
    tiny()
    for vote, rows in (("score", 8), ("sample", 40)):
        config = configure("ace", vote=vote, rounds=2, max_new_tokens=2, batch_size=8)
        found = profile(config, ProfileOptions(ticks=2, warmup=0), tmp_path / vote, lambda *_: None)
        phase = next(row for row in found["phases"] if row["phase"] == "generate decider")
        assert phase["rows"] == rows and phase["prompt_tokens"] > 0 and not phase["failed"]
        assert (phase["completion_tokens"] or 0) == (0 if vote == "score" else pytest.approx(60, abs=20))
