"""Templates: verbatim passages, segments that only grow, the user's own files, errors that name the file."""

from __future__ import annotations

import pytest

from evoctx_torch.errors import UsageError
from evoctx_torch.evidence import Evidence
from evoctx_torch.operations import Passage
from evoctx_torch.prompts import FAMILIES, Family, PromptBook
from evoctx_torch.transcript import OverLength, Prompt, Segment, truncate

NASTY = Passage("p", "d", "T", "T\n</script> & <b>'quoted'</b> {{ braces }} [/] \u2028 naïve")


@pytest.mark.parametrize("name", FAMILIES)
def test_question_and_passages_stand_verbatim(name):
    evidence = Evidence("Is <this> & that {{ ok }}?", [NASTY])
    for instruction in ("answer", "decide", "ask"):
        prompt, _ = Family(name).prompt(instruction, evidence)
        assert NASTY.contents in prompt.text and evidence.question in prompt.text
        assert [s.passage_id for s in prompt.segments] == [None, "p", None]
        assert prompt.chat is (name == "chat")


def test_completion_calls_end_at_a_line_and_chat_calls_do_not():
    assert Family("completion").prompt("answer", Evidence("q"))[1] == ("\n",)
    assert Family("chat").prompt("answer", Evidence("q"))[1] == ()


def test_a_users_folder_comes_first(tmp_path):
    (tmp_path / "answer.j2").write_text('{% set stop = ["END"] %}\nMine: {{ question }}')
    (tmp_path / "chat").mkdir()
    (tmp_path / "chat" / "system.j2").write_text("Be brief.")
    prompt, stop = Family("chat", tmp_path).prompt("answer", Evidence("Who?"))
    assert prompt.segments[-1].text == "Mine: Who?" and stop == ("END",) and prompt.system == "Be brief."
    assert Family("completion", tmp_path).prompt("answer", Evidence("Who?"))[0].system is None


@pytest.mark.parametrize(("text", "words"), [
    ("{{ 1 / 0 }}", "ZeroDivisionError"), ('{% set stop = "abc" %}x', "expected a list of non-empty strings"), ("{% set stop = [1] %}x", "stop is [1]"),
    ("", "renders to nothing"), (" \n", "renders to nothing"), ("{% if false %}x{% endif %}", "renders to nothing"), ("{{ nothing }}", "'nothing' is undefined"), ("{% if %}", "TemplateSyntaxError"), ("{{ question.__class__.__mro__ }}", "unsafe"),
])
def test_a_broken_template_is_refused_with_its_name(tmp_path, text, words):
    (tmp_path / "answer.j2").write_text(text)
    with pytest.raises(UsageError, match=r"chat/answer\.j2") as error:
        PromptBook(Family("chat", tmp_path)).check([("head", ("answer",))])
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["head", "passage", "ask"])
def test_the_template_at_fault_is_named_and_no_other(tmp_path, name):
    (tmp_path / f"{name}.j2").write_text("{{ nothing }}")
    with pytest.raises(UsageError, match=rf"chat/{name}\.j2: UndefinedError"):
        Family("chat", tmp_path).check(("answer", "ask"))
    with pytest.raises(UsageError, match=r"chat/nowhere\.j2: TemplateNotFound"):
        Family("chat").check(("nowhere",))


@pytest.mark.parametrize("text", ["Answer:", "{{ question | upper }}", "{{ question | e }}", "Question: {{ question[:10] }}"])
def test_a_prompt_that_does_not_show_the_question_is_refused(tmp_path, text):
    (tmp_path / "answer.j2").write_text(text)
    with pytest.raises(UsageError, match=r"prompt completion/answer does not show the question: put \{\{ question \}\} into head\.j2 or answer\.j2"):
        Family("completion", tmp_path).check(("answer",))
    Family("chat", tmp_path).check(("answer",))  # whose head shows it


@pytest.mark.parametrize("name", ["passage", "subquery", "extract"])
def test_evidence_that_is_not_shown_is_refused_and_an_empty_head_is_not(tmp_path, name):
    (tmp_path / "head.j2").write_text("")
    Family("completion", tmp_path).check(("answer", "decide", "ask"))
    (tmp_path / f"{name}.j2").write_text("\n")
    with pytest.raises(UsageError, match=rf"completion/{name}\.j2 renders to nothing"):
        Family("completion", tmp_path).check(("answer",))


def test_a_system_message_alone_is_a_template_of_the_chat_family_only(tmp_path):
    (tmp_path / "system.j2").write_text("Be brief.")
    chat, completion = Family("chat", tmp_path), Family("completion", tmp_path)
    PromptBook(chat, {"decider": completion}).check([("head", ("answer",))])
    with pytest.raises(UsageError, match=r"holds no template of this run.* its sub-folder completion"):
        PromptBook(completion).check([("head", ("answer",))])


def test_unknown_families_and_folders_are_refused(tmp_path):
    with pytest.raises(UsageError, match="expected one of chat, completion"):
        Family("chatty")
    with pytest.raises(UsageError, match="no such folder"):
        Family("chat", tmp_path / "nowhere")


def words(segment: Segment) -> int:
    return len(segment.text.split())


def test_truncation_drops_whole_oldest_passages_only():
    parts = (Segment("the question"), Segment("a b c", passage_id="1"), Segment("sub query"), Segment("d e", passage_id="2"),
             Segment("f", passage_id="3"), Segment("now answer"))
    prompt = Prompt(parts)
    assert truncate(prompt, 12, words) == (prompt, ())
    shorter, dropped = truncate(prompt, 11, words)
    assert dropped == ("1",) and [s.text for s in shorter.segments] == ["the question", "sub query", "d e", "f", "now answer"]
    assert truncate(prompt, 7, words)[1] == ("1", "2")
    assert truncate(prompt, 6, words)[1] == ("1", "2", "3")
    with pytest.raises(OverLength, match="6 tokens without any passage, the budget is 5"):
        truncate(prompt, 5, words)
    with pytest.raises(OverLength):
        truncate(prompt, 7, words, extra=2)
