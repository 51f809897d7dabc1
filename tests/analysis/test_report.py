"""The HTML report: self-contained, safe against hostile texts, complete, and the same bytes every time."""

from __future__ import annotations

import base64
import builtins
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import HOSTILE, PASSAGES, QUESTIONS, write_run

from evoctx_torch.analysis import report
from evoctx_torch.analysis.report import render, write_report
from evoctx_torch.analysis.runs import read_run
from evoctx_torch.errors import UsageError
from evoctx_torch.operations import Passage, Question


class Page(HTMLParser):
    """The elements of a page, its scripts' texts, and what a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.words: list[str] = []
        self._script: dict[str, str | None] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._script = dict(attrs) if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts.append((self._script, data))
        else:
            self.words.append(data)

    @property
    def data(self) -> dict[str, Any]:
        return next(json.loads(text) for attrs, text in self.scripts if attrs.get("id") == "data")

    @property
    def text(self) -> str:
        return "".join(self.words)


def page_of(folder: Path) -> tuple[str, Page]:
    text = write_report(folder).read_text(encoding="utf-8")
    return text, Page(text)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Page]:
    """A run that is only read: its folder, its page as text and parsed."""
    folder = write_run(tmp_path_factory.mktemp("run"), rounds=4)
    return folder, *page_of(folder)


def test_hostile_texts_stay_text(made: tuple[Path, str, Page]) -> None:
    _, text, page = made
    assert [attrs.get("type") for attrs, _ in page.scripts] == ["application/json", None]  # no element slipped out of a text
    assert "b" not in {tag for tag, _ in page.elements}, "markup of a passage became an element"
    assert "document.title='owned'" in html.unescape(text), "the hostile question is shown"
    assert QUESTIONS[2].text in page.text
    assert page.data["contents"]["3"] == PASSAGES[3].contents
    assert "\u2028" not in page.scripts[0][1]


def test_only_our_script_may_run_and_nothing_is_loaded(made: tuple[Path, str, Page]) -> None:
    _, text, page = made
    policy = next(attrs["content"] for tag, attrs in page.elements if attrs.get("http-equiv") == "Content-Security-Policy")
    script = next(text for attrs, text in page.scripts if "id" not in attrs)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    for tag, attrs in page.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        for name in ("src", "href", "xlink:href", "action", "srcset"):
            assert (attrs.get(name) or "#").startswith("#"), f"<{tag} {name}={attrs[name]}>"
    assert not re.search(r"@import|url\((?!#)", text)
    assert "innerHTML" not in text


def test_the_ids_of_the_page_are_unique(made: tuple[Path, str, Page]) -> None:
    *_, page = made
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_same_run_same_bytes_whatever_the_machine_measured(tmp_path: Path) -> None:
    first = write_report(write_run(tmp_path)).read_bytes()
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    metrics["timing"]["wall_s"], metrics["computed_prompt_tokens"]["mean"] = 99999.125, 77777.125
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text(encoding="utf-8").split("\n") if line]
    (tmp_path / "predictions.jsonl").write_text("".join(json.dumps({**row, "computed_prompt_tokens": 5}) + "\n" for row in rows))
    assert write_report(tmp_path).read_bytes() == first
    assert not list(tmp_path.glob("*.partial"))


def test_the_data_hold_every_row_and_its_rounds(made: tuple[Path, str, Page]) -> None:
    folder, _, page = made
    run = read_run(folder)
    assert [row["id"] for row in page.data["rows"]] == [row["id"] for row in run.predictions]
    for shown, told in zip(page.data["trajectories"], run.trajectories, strict=True):
        assert [r["action"] for r in shown["rounds"]] == [r["action"] for r in told["rounds"]]
        assert [r["boundary"] for r in shown["rounds"]] == [len(r["boundary"]) for r in told["rounds"]]
        assert [r["trace"] for r in shown["rounds"]] == [r["trace"] for r in told["rounds"]]
    outcomes = {row["id"]: row["outcome"] for row in page.data["rows"]}
    assert (outcomes["q1"], outcomes["q2"]) == ("failed", "failed")  # an error, an over_length row
    assert page.data["trajectories"][2]["rounds"][0]["signals"] == {"near": "nan", "centroid": "nan", "tail": "nan"}
    assert page.data["thresholds"] == {"near": 0.3, "centroid": 0.2, "tail": 0.4}


def test_tables_warnings_and_configuration_are_shown(tmp_path: Path) -> None:
    _, page = page_of(write_run(tmp_path, data_name="multihoprag"))
    words = re.sub(r"\s+", " ", page.text)
    for expected in ("evoctx on multihoprag", "27,500", "74.6", "over_length", "<at 0.4>", "tau_near", "0123abc", "2.13.0", "EvoCtx, arXiv 2601.08747"):
        assert expected in words, expected
    assert "12.345" not in words, "timing is not reproducible"


@pytest.mark.parametrize(("questions", "options"), [
    (QUESTIONS[:1], {"rounds": 0}), (QUESTIONS[:1], {"method": "closed-book"}), (QUESTIONS, {"failing": "all"}), (QUESTIONS[:1], {"rounds": 1}),
], ids=["no-rounds", "closed-book", "all-failed", "one-round"])
def test_small_and_failed_runs_have_a_page(tmp_path: Path, questions: tuple[Question, ...], options: dict[str, Any]) -> None:
    _, page = page_of(write_run(tmp_path, questions, **options))
    assert all(q.text in page.text for q in questions)
    assert len(page.data["rows"]) == len(questions)
    assert "svg" in {tag for tag, _ in page.elements}


def test_rounds_of_later_questions_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    many = [Question(f"m{i}", f"Question number {i}?", ("x",)) for i in range(12)]
    page = Page(render(read_run(write_run(tmp_path, many, PASSAGES, rounds=1)), full=5))
    assert (len(page.data["rows"]), len(page.data["trajectories"])) == (12, 5)
    assert "Question number 11?" in page.text
    assert "first 5 questions" in page.text


def test_without_the_corpus_the_page_shows_titles_and_says_so(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    (folder / "corpus.jsonl").unlink()
    _, page = page_of(folder)
    assert page.data["contents"] == {}
    assert "shown by their titles" in page.text


def test_without_matplotlib_the_page_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    real = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    _, page = page_of(write_run(tmp_path))
    assert "svg" not in {tag for tag, _ in page.elements}
    assert "pip install 'evoctx-torch[report]'" in page.text


def test_a_lone_surrogate_does_not_stop_the_report(tmp_path: Path) -> None:
    folder = write_run(tmp_path, (Question("s", "Broken ZZZ end?", ("x",)),))
    for name in ("predictions.jsonl", "trajectories.jsonl"):
        path = folder / name
        path.write_text(path.read_text(encoding="utf-8").replace("ZZZ", "\\ud800"), encoding="utf-8")
    assert "Broken ? end?" in page_of(folder)[1].text


def test_unfinished_and_broken_folders_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no config\.json"):
        write_report(tmp_path)
    folder = write_run(tmp_path / "run")
    lines = (folder / "trajectories.jsonl").read_text(encoding="utf-8").split("\n")
    (folder / "trajectories.jsonl").write_text("\n".join([lines[0], '{"id": "q2", ', *lines[2:]]), encoding="utf-8")
    with pytest.raises(UsageError, match=r"trajectories\.jsonl, line 2"):
        write_report(folder)
    (folder / "trajectories.jsonl").write_text("\n".join(lines[1:]), encoding="utf-8")
    with pytest.raises(UsageError, match="different questions"):
        write_report(folder)
    assert not (folder / "report.html").exists()


def test_real_questions_and_passages(tmp_path: Path, shared: Path) -> None:
    def read(name: str) -> list[dict[str, Any]]:
        with (shared / "data" / "hotpotqa" / name).open(encoding="utf-8", newline="\n") as file:
            return [json.loads(line) for line in file][:60]

    questions = [Question(q["id"], q["question"], tuple(q["golden_answers"])) for q in read("queries.jsonl")]
    passages = [Passage(p["id"], p["title"], p["title"], p["contents"]) for p in read("corpus.jsonl")]
    text, page = page_of(write_run(tmp_path, questions, passages, rounds=4, top_k=3))
    assert all(q.text[:24] in html.unescape(text) for q in questions)
    assert set(page.data["contents"].values()) <= {p.contents for p in passages}


def test_the_hostile_text_is_as_hostile_as_it_claims() -> None:
    assert all(part in HOSTILE for part in ("</script>", "[/]", "\u2028", "&amp;", "\x00"))
