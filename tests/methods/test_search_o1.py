"""Search-o1 walked call by call: queries inside reasoning, documents condensed first, and every way in which a reply can go wrong."""

from __future__ import annotations

import pytest
from worlds import QUESTION, TokenWriter, WordRetriever, check_company, in_turn

from evoctx_torch.engine import Engine
from evoctx_torch.evaluation.results import prediction_row
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.methods.modules import NO_MODULES, Modules
from evoctx_torch.methods.search_o1 import LIMIT, NO_QUERY, NOTHING, REPEATED, SearchO1Options, final_answer, outline
from evoctx_torch.operations import Completion
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.transcript import Prompt, Segment, reply_tokens

ROLES = Roles(RoleSettings(max_new_tokens=500))
BEGIN, END = "<|begin_search_query|>", "<|end_search_query|>"
RESULT, END_RESULT = "<|begin_search_result|>", "<|end_search_result|>"
MAYOR, GLASS = f"Who is mayor?\n{BEGIN} mayor Ostrand {END}", f"And glass?\n{BEGIN}glass Lisk{END}"
DONE = r"So it is \boxed{Tobin Hale}."


def scripted(replies, read="Condensed {n}.") -> ScriptedGenerator:
    write, reads = in_turn(*replies), in_turn(*(read.replace("{n}", str(n)) for n in range(1, 20)))
    return ScriptedGenerator(lambda p: write(p) if p.operation.role == "generator" else reads(p), ROLES)


def walk(*replies, read="Condensed {n}.", modules=NO_MODULES, family="chat", generator=None, **options):
    generator = generator or scripted(replies, read)
    engine = Engine("search-o1", SearchO1Options(**{"top_k": 2, **options}), generator=generator, retriever=WordRetriever(), modules=modules,
                    prompts=PromptBook(Family(family)))
    (record,) = engine.run([QUESTION])
    return record, generator


def asked(generator, role: str) -> list[Prompt]:
    return [p.operation.prompt for p in generator.requests if p.operation.role == role]


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_the_whole_loop(family):
    record, generator = walk(MAYOR + " and more", GLASS, DONE, family=family)
    first, second, third = record.rounds
    assert [r.action for r in record.rounds] == ["RETRIEVE", "RETRIEVE", "ANSWER"]
    assert (first.query, [p.id for p in first.passages], first.notes) == ("mayor Ostrand", ["p1", "p2"], {"condensed": "Condensed 1."})
    assert (second.query, first.trace, third.trace) == ("glass Lisk", MAYOR, DONE)
    assert [c.role for c in record.calls] == ["generator", "reader", "generator", "reader", "generator"]
    # Only what the reader wrote stands in the reply, between its marks; no passage.
    replies = ["".join(s.text for s in p.turns) for p in asked(generator, "generator")]
    assert replies[1] == f"{MAYOR}\n\n{RESULT}Condensed 1.{END_RESULT}\n\n"
    assert replies[2] == f"{replies[1]}{GLASS}\n\n{RESULT}Condensed 2.{END_RESULT}\n\n"
    assert not any(p.contents in replies[2] for p in record.passages)
    # The reader sees the question, its own query, the new passages and the reasoning so far.
    reading = asked(generator, "reader")[1]
    assert [s.passage_id for s in reading.segments if s.passage_id] == [p.id for p in second.passages]
    assert QUESTION.text in reading.text and "glass Lisk" in reading.text and "Condensed 1." in reading.text and "Who is mayor?" in reading.text
    row = prediction_row(record, "first-line")
    assert (row["prediction"], row["finish_reason"], row["llm_calls"], row["retrieval_calls"]) == ("Tobin Hale", "eos", 5, 2)


@pytest.mark.parametrize(("second", "refusal"), [
    (MAYOR, REPEATED), (f"{BEGIN}  {END}", NO_QUERY), (f"no beginning {END}", NO_QUERY),
])
def test_a_refused_query_brings_a_message_and_the_reasoning_goes_on(second, refusal):
    record, generator = walk(MAYOR, second, DONE)
    assert record.rounds[1].notes == {"refused": refusal} and record.rounds[1].action == "INVALID" and not record.rounds[1].passages
    assert len(record.retrievals) == 1 and len(asked(generator, "reader")) == 1
    assert f"{RESULT}\n{refusal}\n{END_RESULT}" in asked(generator, "generator")[2].text
    assert record.prediction == "Tobin Hale"


def test_beyond_the_limit_no_search_is_done():
    record, _ = walk(MAYOR, GLASS, DONE, max_searches=1)
    assert [r.notes.get("refused") for r in record.rounds] == [None, LIMIT, None] and len(record.retrievals) == 1
    assert walk(MAYOR, DONE, max_searches=0)[0].retrievals == []


@pytest.mark.parametrize(("replies", "prediction", "reason", "calls"), [
    ((MAYOR,), "", "max_turns", 4), ((DONE,), "Tobin Hale", "eos", 1), (("",), "", "empty", 1), ((r"It is \boxed{ }.",), "", "empty", 1),
    (("I think it is\n\nAnswer: Tobin Hale\n",), "Tobin Hale", "eos", 1), (("<think>It is \n he</think>\nTobin Hale",), "Tobin Hale", "eos", 1),
    (("<think>endless",), "", "empty", 1), ((MAYOR, f"It is \\boxed{{Tobin Hale}}.{END}", "and so on"), "Tobin Hale", "eos", 3),
    ((MAYOR, r"It is \boxed{A}, no, \boxed{\text{Tobin Hale}}"), "Tobin Hale", "eos", 2),
])
def test_how_an_episode_ends(replies, prediction, reason, calls):
    record, generator = walk(*replies, max_turns=4)
    row = prediction_row(record, "first-line")
    assert (row["prediction"], row["finish_reason"], len(asked(generator, "generator"))) == (prediction, reason, calls)


def test_a_box_of_an_endless_search_counts_and_the_end_is_named():
    record, _ = walk(f"Perhaps \\boxed{{Tobin Hale}}. {BEGIN}a{END}", max_turns=2)
    assert (record.prediction, record.finish_reason, record.rounds[-1].action) == ("Tobin Hale", "max_turns", "INVALID")


def test_reasoning_cut_for_its_length_has_no_answer_unless_it_is_boxed():
    for text, prediction, reason in (("thinking on and on", "", "no_answer"), (r"\boxed{Tobin} and on and on", "Tobin", "length")):
        record, _ = walk(generator=ScriptedGenerator(in_turn(text), Roles(RoleSettings(max_new_tokens=3))))
        row = prediction_row(record, "first-line")
        assert (row["prediction"], row["finish_reason"]) == (prediction, reason)


def test_trap_7_boxes_of_the_prompt_or_of_an_observation_are_no_answer():
    record, generator = walk(MAYOR, "   ", read=r"It is \boxed{Nobody}.", family="completion")
    assert r"\boxed{Tesk}" in asked(generator, "generator")[0].text and r"\boxed{Nobody}" in record.transcript.text
    assert record.prediction == ""


def test_a_reader_that_says_nothing_and_a_search_that_finds_nothing():
    record, generator = walk(MAYOR, DONE, read="<think>hm</think>  ")
    assert record.rounds[0].notes["condensed"] == NOTHING and f"{RESULT}{NOTHING}{END_RESULT}" in record.transcript.text
    record, generator = walk(MAYOR, GLASS, DONE, modules=Modules(dedup=True), top_k=5)
    assert [len(r.passages) for r in record.rounds] == [5, 0, 0] and len(asked(generator, "reader")) == 1
    assert f"{RESULT}{NOTHING}{END_RESULT}" in record.transcript.text and record.prediction == "Tobin Hale"


def test_with_contextualization_the_reader_sees_the_extracts():
    record, generator = walk(MAYOR, GLASS, DONE, modules=Modules(contextualize=True))
    assert [c.role for c in record.calls] == ["generator", "contextualizer", "reader", "generator", "contextualizer", "reader", "generator"]
    reading = asked(generator, "reader")[1].text  # the script numbers contextualizer and reader together: 1 and 3 are extracts
    assert "Notes on the passages so far: Condensed 1." in reading and "Notes on the passages so far: Condensed 3." in reading


def test_the_outline_keeps_the_start_the_end_and_the_searches():
    lines = [f"step {i}" for i in range(12)]
    lines[5] = f"{BEGIN}what{END}"
    assert outline("\n\n".join(lines)).splitlines() == ["step 0", "...", lines[5], "...", "step 8", "step 9", "step 10", "step 11"]
    assert outline("a\nb") == "a\nb" and outline("") == ""


@pytest.mark.parametrize(("text", "answer"), [
    (r"\boxed{f(x) = {a {b}}}", "f(x) = {a {b}}"), (r"\boxed{not closed", ""), (r"\boxed{a} \boxed{b}", "b"), (r"\boxed{\mathrm{a} b}", r"\mathrm{a} b"),
])
def test_boxes(text, answer):
    assert final_answer(Prompt((), turns=(Segment(text, "policy"),)), "") == answer


def test_a_query_split_over_tokens_ends_a_turn_and_goes_back_as_generated():
    write, read = in_turn(MAYOR + " and more", GLASS, DONE), in_turn("Condensed.")
    writer = TokenWriter(lambda p: write(p) if p.operation.role == "generator" else read(p))
    record, _ = walk(generator=writer)
    own = [ids for ids, p in zip(writer.prompts, writer.requests, strict=True) if p.operation.role == "generator"]
    calls = [c.completion for c in record.calls if c.role == "generator"]
    for before, after, call in zip(own, own[1:], calls, strict=False):
        assert call.stopped_by == END and after[: len(before) + len(call.token_ids)] == [*before, *call.token_ids]
    tokens = reply_tokens(record.transcript.turns, writer.tokens.segment)
    assert [*own[0], *tokens.ids] == [*own[-1], *calls[-1].token_ids]
    assert sum(tokens.policy) == sum(len(c.token_ids) for c in calls)


def test_a_server_that_does_not_say_what_stopped_it():
    cut = Completion(MAYOR.removesuffix(END), "eos", 1, 1, 5)
    generator = ScriptedGenerator(lambda p: "Condensed." if p.operation.role == "reader" else DONE if p.number else cut, ROLES)
    record, _ = walk(generator=generator)
    assert (record.rounds[0].query, record.rounds[0].trace, record.prediction) == ("mayor Ostrand", MAYOR, "Tobin Hale")


SCRIPTS = [(MAYOR, DONE), (MAYOR, MAYOR, DONE), (DONE,), (GLASS,), (f"{BEGIN}{END}", "Tobin Hale"), ("",)]


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_batched_equals_sequential(batch_size):
    def engine_of(questions):
        scripts = {q.id: scripted(SCRIPTS[int(q.id) % len(SCRIPTS)]) for q in questions}
        generator = ScriptedGenerator(lambda p: scripts[p.question_id].reply(p), ROLES)
        return Engine("search-o1", SearchO1Options(4, 2, 2), generator=generator, retriever=WordRetriever(), modules=Modules(True, True),
                      prompts=PromptBook(Family("chat")), batch_size=batch_size)
    check_company(engine_of, batch_size)
