"""The worked example of docs/methods.md works: through the engine, and through `evoctx eval` once its package is installed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from packages import install
from walking import QUESTION, WORLD, WordRetriever

from evoctx_torch.cli import main
from evoctx_torch.engine import Engine
from evoctx_torch.evaluation import assemble, inputs
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.methods import get_method
from evoctx_torch.methods.registry import GROUP

DOCS = (Path(__file__).resolve().parents[2] / "docs/methods.md").read_text(encoding="utf-8").partition("## Write your own method")[2]
CODE = re.search(r"```python\n(.*?)```", DOCS, re.DOTALL)[1]
NAME, VALUE = re.search(r'entry-points\."' + re.escape(GROUP) + r'"\]\n(\S+) = "(\S+)"', DOCS).groups()


def reply(pending) -> str:
    return "Sub-question: Who is mayor of Ostrand?" if "sub-question" in pending.operation.prompt.segments[-1].text.lower() else "Tobin Hale"


def test_it_has_thirty_lines():
    assert len([line for line in CODE.splitlines() if line.strip()]) <= 30


def test_it_runs_through_the_engine(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path, "my-package", {NAME: "my_package:TWO_HOP"}, CODE)
    method = get_method(NAME)
    assert VALUE.endswith(":TWO_HOP")
    generator, retriever = ScriptedGenerator(reply), WordRetriever()
    engine = Engine(method, method.options(top_k=1), generator=generator, retriever=retriever)
    (record,) = engine.run([QUESTION])
    assert retriever.queries == [QUESTION.text, "Who is mayor of Ostrand?"]
    assert [p.id for p in record.bootstrap] == ["p0"] and [p.id for p in record.rounds[0].passages] == ["p2"]
    assert record.answer.text == "Tobin Hale" and len(generator.requests) == 2 and record.actions == ["RETRIEVE"]
    last = generator.requests[-1].operation.prompt.text
    assert WORLD[0].contents in last and WORLD[2].contents in last and "Sub-question: Who is mayor of Ostrand?" in last


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """The example in a package of its own, a data set with an index, and models that cost nothing."""
    install(monkeypatch, tmp_path, "my-package", {NAME: "my_package:TWO_HOP"}, CODE)
    monkeypatch.setattr(assemble, "build_generator", lambda *_: ScriptedGenerator(reply))
    monkeypatch.setattr(inputs, "check_generator", lambda config, role: "scripted")
    data = tmp_path / "data"
    data.mkdir()
    (data / "queries.jsonl").write_text(json.dumps({"id": "q", "question": QUESTION.text, "golden_answers": ["Tobin Hale"]}) + "\n")
    (data / "corpus.jsonl").write_text("".join(json.dumps({"id": p.id, "title": p.title, "contents": p.contents}) + "\n" for p in WORLD))
    assert main(["index", str(data), "--kind", "bm25", "--out", str(tmp_path / "index")]) == 0
    return ["eval", NAME, "--data", str(data), "--index", str(tmp_path / "index"), "--generator", "scripted", "--prompt-family", "completion"]


def test_it_runs_from_the_command_line(installed, tmp_path, capsys):
    assert main([*installed, "--top-k", "1", "--out", str(tmp_path / "run")]) == 0
    (row,) = map(json.loads, (tmp_path / "run/predictions.jsonl").read_text().splitlines())
    assert (row["prediction"], row["em"], row["retrieval_calls"], row["llm_calls"], row["actions"]) == ("Tobin Hale", 1.0, 2, 2, ["RETRIEVE"])
    assert json.loads((tmp_path / "run/config.json").read_text())["method"] == NAME
    assert main([*installed, "--top-k", "0", "--out", str(tmp_path / "refused")]) == 2
    assert "--top-k is 0; expected at least 1" in capsys.readouterr().err and not (tmp_path / "refused").exists()


def test_its_own_templates_come_between_the_users_and_ours(installed, monkeypatch, tmp_path):
    templates, mine, asked = tmp_path / "templates/completion", tmp_path / "mine", []
    for folder, word in ((templates, "PACKAGE"), (mine, "USER")):
        folder.mkdir(parents=True)
        (folder / "ask.j2").write_text(word + " {{ question }} sub-question:")
    code = f"from pathlib import Path\n{CODE}".replace(f'"{NAME}"', '"templated"').replace("instructions=", f"folder=Path({str(templates.parent)!r}), instructions=")
    install(monkeypatch, tmp_path, "other-package", {"templated": "other_package:TWO_HOP"}, code)
    monkeypatch.setattr(assemble, "build_generator", lambda *_: ScriptedGenerator(lambda p: asked.append(p.operation.prompt.text) or reply(p)))
    command = ["templated" if word == NAME else word for word in installed]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    assert ["PACKAGE " in prompt for prompt in asked] == [True, False]
    assert main([*command, "--prompts", str(mine), "--out", str(tmp_path / "again")]) == 0
    assert "USER " in asked[2] and "PACKAGE " not in asked[2]
