"""A small data set, and an evaluation whose models cost nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from evoctx_torch.evaluation import assemble, inputs
from evoctx_torch.evaluation.config import RunConfig, resolve
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.generation.settings import Roles
from evoctx_torch.operations import Pending
from evoctx_torch.retrieval.hashing import HashEncoder

TOWNS = ["Tarn", "Lisk", "Brask", "Ostrand", "Morn", "Hollin", "Vell", "Quay"]


def write_lines(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Eight questions over sixteen passages."""
    folder = tmp_path / "towns"
    folder.mkdir()
    write_lines(folder / "queries.jsonl", [
        {"id": f"q{i}", "question": f"Who is the mayor of {town}?", "golden_answers": [f"Mayor {i}"], "metadata": {"supporting_passage_ids": [f"p{i}"]}}
        for i, town in enumerate(TOWNS)])
    write_lines(folder / "corpus.jsonl", [
        {"id": f"p{i}", "title": f"{TOWNS[i % 8]} {i // 8}", "contents": f"{TOWNS[i % 8]} {i // 8}\nThe mayor of {TOWNS[i % 8]} is Mayor {i % 8}."}
        for i in range(16)])
    return folder


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Pending]]:
    """`scripted(reply)`: every generator of an evaluation replies by `reply`, encoders hash words; returns the requests."""
    monkeypatch.setenv("EVOCTX_CACHE", str(tmp_path / "cache"))  # hashed vectors of one test are not another's

    def install(reply: Callable[[Pending], object] = lambda p: f"Mayor {p.question_id[1:]}") -> list[Pending]:
        requests: list[Pending] = []

        def build(config, roles, prompts, device, stack):
            generator = ScriptedGenerator(reply, Roles(by_role={r: assemble.role_settings(config.roles[r]) for r in roles}))
            generator.requests = requests
            return generator
        monkeypatch.setattr(assemble, "build_generator", build)
        monkeypatch.setattr(assemble, "Encoder", lambda name, device, dtype, canonical, **prompts: HashEncoder(64))
        monkeypatch.setattr(inputs, "check_generator", lambda config, role: "scripted")
        monkeypatch.setattr(inputs, "encoder_digest", lambda name, dtype="float32", prompt=None: HashEncoder(64).digest)
        return requests
    return install


@pytest.fixture
def configure(data: Path) -> Callable[..., RunConfig]:
    """`configure("evoctx", rounds=2)`: a configuration over the small data set."""
    def make(method: str = "naive-rag", **options: object) -> RunConfig:
        given = {"data": str(data), "generator": "scripted", "prompt_family": "completion", "batch_size": 3, **options}
        if method != "closed-book":
            given.setdefault("top_k", 2)
        return resolve(method, given)
    return make
