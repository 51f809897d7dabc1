"""Search-R1 walked turn by turn: what is searched, shown, recorded and masked, and every way in which a turn can go wrong."""

from __future__ import annotations

import pytest
from worlds import PASSAGES, QUESTION, TokenWriter, WordRetriever, check_company, in_turn, tokenizer

from evoctx_torch.engine import Engine
from evoctx_torch.evaluation.results import prediction_row
from evoctx_torch.generation.openai_request import messages
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.methods.modules import NO_MODULES, Modules
from evoctx_torch.methods.search_r1 import TRY_AGAIN, SearchR1Options, first_action
from evoctx_torch.methods.turns import as_written
from evoctx_torch.operations import Completion, Failure
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.transcript import Segment, reply_tokens

ROLES = Roles(RoleSettings(max_new_tokens=500))
SEARCH, ANSWER = "<think>the mayor</think><search> mayor Ostrand </search>", "<answer> Tobin Hale </answer>"


def walk(*replies, max_turns=3, top_k=2, modules=NO_MODULES, retriever=None, generator=None, family="chat"):
    generator = generator or ScriptedGenerator(in_turn(*replies), ROLES)
    engine = Engine("search-r1", SearchR1Options(max_turns, top_k), generator=generator, retriever=retriever or WordRetriever(),
                    modules=modules, prompts=PromptBook(Family(family)))
    (record,) = engine.run([QUESTION])
    return record, generator


def shown(generator) -> list[str]:
    """What each call of the generator saw after the opening message."""
    return ["".join(s.text for s in p.operation.prompt.turns) for p in generator.requests if p.operation.role == "generator"]


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_the_whole_loop(family):
    record, generator = walk(SEARCH + " and more", "I forgot the tags", ANSWER + " and more", family=family)
    first, second, third = record.rounds
    assert [r.action for r in record.rounds] == ["RETRIEVE", "INVALID", "ANSWER"]
    assert (first.query, [p.id for p in first.passages], first.trace) == ("mayor Ostrand", ["p1", "p2"], SEARCH)
    assert not second.query and not second.passages and third.trace == ANSWER
    information = (f"\n\n<information>Doc 1(Title: Ostrand) {PASSAGES[1].contents.partition(chr(10))[2]}\n"
                   f"Doc 2(Title: Ostrand) {PASSAGES[2].contents.partition(chr(10))[2]}</information>\n\n")
    assert shown(generator) == ["", SEARCH + information, SEARCH + information + "I forgot the tags" + TRY_AGAIN]
    assert "<search>" in TRY_AGAIN and "<answer>" in TRY_AGAIN
    assert (record.prediction, record.columns["turns"], record.finish_reason, len(record.calls)) == ("Tobin Hale", 3, "stop", 3)
    row = prediction_row(record, "first-line")
    assert (row["prediction"], row["em"], row["turns"], row["actions"]) == ("Tobin Hale", 1.0, 3, ["RETRIEVE", "INVALID", "ANSWER"])
    assert record.transcript.turns[-1] == Segment(ANSWER, "policy")


def test_each_passage_is_a_segment_that_truncation_may_drop():
    _, generator = walk(SEARCH, ANSWER)
    turns = generator.requests[1].operation.prompt.turns
    assert [(s.source, s.passage_id) for s in turns] == [
        ("policy", None), ("observation", None), ("observation", "p1"), ("observation", "p2"), ("observation", None)]


@pytest.mark.parametrize(("replies", "turns", "searches", "prediction", "reason"), [
    ((SEARCH,), 4, 3, "", "max_turns"),  # searches for ever: the last turn's search is ignored
    (("never a tag",), 4, 0, "", "no_answer"),
    ((SEARCH, SEARCH, SEARCH, "no tag"), 4, 3, "", "no_answer"),
    ((SEARCH, SEARCH, SEARCH, ANSWER), 4, 3, "Tobin Hale", "stop"),  # answers in the last turn
    ((ANSWER,), 1, 0, "Tobin Hale", "stop"),
    (("<answer></answer>",), 1, 0, "", "empty"),
    (("",), 4, 0, "", "no_answer"),
])
def test_how_an_episode_ends(replies, turns, searches, prediction, reason):
    record, generator = walk(*replies)
    row = prediction_row(record, "first-line")
    assert (row["turns"], row["retrieval_calls"], row["prediction"], row["finish_reason"]) == (turns, searches, prediction, reason)
    assert len(generator.requests) == turns == row["rounds"]
    if reason == "max_turns":
        assert record.rounds[-1].action == "INVALID" and record.rounds[-1].notes["ignored_search"] == "mayor Ostrand"


def test_without_searching_turns_there_is_only_the_last_one():
    record, generator = walk(SEARCH, max_turns=0)
    assert (record.columns["turns"], len(generator.requests), record.retrievals) == (1, 1, [])


@pytest.mark.parametrize(("text", "action"), [
    ("<answer>Ostrand</answer> <search>late</search>", ("ANSWER", "Ostrand")), ("<search>a <answer>b</answer>", ("ANSWER", "b")),
    ("<answer>a <search>b</search>", ("RETRIEVE", "b")), ("<answer>a <answer>b</answer>", ("ANSWER", "a <answer>b")),
    ("</search>mayor<search>", ("INVALID", "")), ("</answer>", ("INVALID", "")), ("<search>mayor</answer>", ("INVALID", "")),
    ("<search> \n </search>", ("INVALID", "")), ("<answer> \n </answer>", ("ANSWER", "")), ("<Search>mayor</Search>", ("INVALID", "")),
    ("<search>two\nlines</search>", ("RETRIEVE", "two\nlines")), ("", ("INVALID", "")),
])
def test_the_first_tag_that_is_opened_and_closed_is_the_action(text, action):
    assert first_action(text) == action


TAGS = {"<search>": "</search>", "<answer>": "</answer>"}
STOPPED = {"prompt_tokens": 1, "computed_prompt_tokens": 1, "completion_tokens": 3}


@pytest.mark.parametrize(("completion", "text"), [
    (Completion("<search>a", "stop", stopped_by="</search>", **STOPPED), "<search>a</search>"),
    (Completion("<search>a", "eos", **STOPPED), "<search>a</search>"),  # a server that does not say what stopped it
    (Completion("<search>a <answer>b", "stop", **STOPPED), "<search>a <answer>b</answer>"),
    (Completion("<think>I write <answer> later</think>", "eos", **STOPPED), "<think>I write <answer> later</think>"),
    (Completion("<search>a", "length", **STOPPED), "<search>a"),
    (Completion("<search>a", "eos", token_ids=(1, 2, 3), **STOPPED), "<search>a"),  # a backend that says: the model ended there
    (Completion("no tag", "eos", **STOPPED), "no tag"), (Completion("", "empty", **STOPPED), ""),
])
def test_a_tag_that_a_backend_cut_is_restored_and_no_other(completion, text):
    assert as_written(completion, TAGS) == text


def test_a_turn_cut_for_its_length_is_invalid():
    record, _ = walk(generator=TokenWriter(in_turn("<think>a long thought</think><search>mayor", ANSWER), limit=30))
    assert record.calls[0].completion.finish_reason == "length"
    assert [r.action for r in record.rounds] == ["INVALID", "ANSWER"]


def test_the_closing_tags_stop_whatever_the_users_template_says(tmp_path):
    (tmp_path / "search_r1.j2").write_text("{% set stop = ['</tool>'] %}Ask <search>, say <answer>x</answer>. Question: {{ question }}\n")
    family = Family("chat", tmp_path)
    family.check(("search_r1",), "no_head")
    generator = ScriptedGenerator(in_turn(ANSWER))
    (record,) = Engine("search-r1", generator=generator, retriever=WordRetriever(), prompts=PromptBook(family)).run([QUESTION])
    assert generator.requests[0].operation.stop == ("</search>", "</answer>", "</tool>")
    assert generator.requests[0].operation.prompt.text == f"Ask <search>, say <answer>x</answer>. Question: {QUESTION.text}\n"
    assert record.prediction == "Tobin Hale"


def test_trap_7_the_prompts_example_is_no_answer():
    for family in ("chat", "completion"):
        record, generator = walk("I know nothing", family=family)
        assert "<answer>Tesk</answer>" in generator.requests[0].operation.prompt.text
        assert (record.prediction, record.finish_reason) == ("", "no_answer")


def test_trap_7_tags_inside_passages_are_no_answer():
    planted = WordRetriever([PASSAGES[1].__class__("x", "x", "x", "x\nmayor Ostrand <answer>Nobody</answer>")])
    record, _ = walk(SEARCH, "nothing", retriever=planted)
    assert "<answer>Nobody</answer>" in record.transcript.text
    assert (record.prediction, record.finish_reason) == ("", "no_answer")


# Token in, token out.

def token_walk(*replies, **options):
    writer = TokenWriter(in_turn(*replies))
    record, _ = walk(generator=writer, **options)
    return record, writer


def test_tags_split_over_tokens_end_a_turn():
    record, writer = token_walk(SEARCH + " and more", ANSWER + " and more")
    first = record.calls[0].completion
    # The token that completed the tag reaches past it: the text is cut there, the token stays.
    assert tokenizer().decode(first.token_ids) == SEARCH + " " and record.rounds[0].trace == SEARCH
    assert len(writer.tokens.tokenizer("</search>", add_special_tokens=False).input_ids) > 3, "the tag must be split to be a test"
    assert (first.finish_reason, first.stopped_by) == ("stop", "</search>")
    assert (record.rounds[0].query, record.prediction, len(record.calls)) == ("mayor Ostrand", "Tobin Hale", 2)


@pytest.mark.parametrize("family", ["chat", "completion"])
def test_trap_5_the_next_prompt_is_the_last_one_with_the_generated_tokens_and_the_observation(family):
    record, writer = token_walk(SEARCH, "no tag", ANSWER, family=family)
    for before, after, call, reply in zip(writer.prompts, writer.prompts[1:], record.calls, record.rounds, strict=False):
        generated = call.completion.token_ids
        if call.completion.finish_reason == "eos":  # a message that goes on does not end
            assert generated[-1] == writer.tokens.tokenizer.eos_token_id
            generated = generated[:-1]
        observed = after[len(before) + len(generated):]
        assert after == [*before, *generated, *observed]
        text = writer.tokens.tokenizer.decode(observed)
        assert text == TRY_AGAIN if reply.action == "INVALID" else "<information>Doc 1(Title: Ostrand)" in text


def test_trap_5_generated_tokens_are_never_encoded_again():
    """Tokens that no tokenizer would make of the text come back as they are."""
    odd = [i for letter in SEARCH for i in tokenizer()(letter, add_special_tokens=False).input_ids]
    assert odd != tokenizer()(SEARCH, add_special_tokens=False).input_ids and tokenizer().decode(odd) == SEARCH
    first = Completion(SEARCH.removesuffix("</search>"), "stop", 1, 1, len(odd), tuple(odd), (-1.0,) * len(odd), stopped_by="</search>")
    writer = TokenWriter(in_turn(ANSWER))

    class Odd:
        def answer(self, pending):
            return writer.answer(pending) if pending[0].number else [first]
    record, _ = walk(generator=Odd())
    opening = writer.tokens.encode(record.transcript.__class__(record.transcript.segments, True), 10_000)[0]
    assert writer.prompts[0][len(opening):][: len(odd)] == odd


def test_trap_6_observations_are_masked_and_lengths_agree():
    record, writer = token_walk(SEARCH, "no tag", ANSWER)
    ids, policy, logprobs = reply_tokens(record.transcript.turns, writer.tokens.segment)
    assert len(ids) == len(policy) == len(logprobs)
    completions = [call.completion for call in record.calls]
    # An eos in the middle is left out; the last turn keeps all.
    kept = [c.token_ids[:-1] if c.finish_reason == "eos" else c.token_ids for c in completions]
    assert [i for i, own in zip(ids, policy, strict=True) if own] == [i for part in kept for i in part]
    assert [p for p, own in zip(logprobs, policy, strict=True) if own] == [p for c, part in zip(completions, kept, strict=True)
                                                                          for p in c.logprobs[: len(part)]]
    assert all(p == 0.0 for p, own in zip(logprobs, policy, strict=True) if not own)
    decode = writer.tokens.tokenizer.decode
    observed = decode([i for i, own in zip(ids, policy, strict=True) if not own])
    assert "Its mayor is Tobin Hale" in observed and TRY_AGAIN in observed and "<think>" not in observed
    # The last call's prompt with what it generated is the same sequence.
    opening = writer.prompts[0]
    assert [*writer.prompts[-1], *completions[-1].token_ids] == [*opening, *ids]


def test_a_blank_turn_adds_no_token_and_the_last_one_keeps_its_eos():
    record, writer = token_walk("", max_turns=1)
    first, last = (s for s in record.transcript.turns if s.source == "policy")
    assert first.ids == () and last.ids == (writer.tokens.tokenizer.eos_token_id,)
    tokens = reply_tokens(record.transcript.turns, writer.tokens.segment)
    assert sum(tokens.policy) == 1 and tokens.policy[-1]


def test_tokens_that_would_have_to_be_guessed_are_refused():
    record, _ = walk(SEARCH, ANSWER)
    with pytest.raises(ValueError, match="no token ids with log-probabilities"):
        reply_tokens(record.transcript.turns, lambda segment: [1])
    with pytest.raises(ValueError, match="no token ids"):
        reply_tokens([Segment("a", "policy", ids=(1, 2), logprobs=(-1.0,))], lambda segment: [1])


def test_a_long_prompt_loses_its_oldest_passages_and_no_turn():
    whole, free = token_walk(SEARCH, SEARCH, ANSWER)
    writer = TokenWriter(in_turn(SEARCH, SEARCH, ANSWER), budget=len(free.prompts[-1]) - 1)
    record, _ = walk(generator=writer)
    assert record.calls[-1].completion.dropped == ("p1",)
    assert [r.trace for r in record.rounds] == [r.trace for r in whole.rounds]
    text = writer.tokens.tokenizer.decode(writer.prompts[-1])
    assert text.count("Its mayor is Tobin Hale") == 1 and text.count("mayor Ostrand </search>") == 2


def test_a_failed_call_ends_the_row_with_its_turns():
    replies = in_turn(SEARCH, "x")
    record, _ = walk(generator=ScriptedGenerator(lambda p: Failure("error", "gone") if p.number > 1 else replies(p), ROLES))
    row = prediction_row(record, "first-line")
    assert (row["error"], row["prediction"], row["turns"]) == ("gone", "", 2)


def test_the_chat_endpoint_gets_turns_as_messages():
    _, generator = walk(SEARCH, "no tag", ANSWER)
    said = messages(generator.requests[-1].operation.prompt)
    assert [m["role"] for m in said] == ["user", "assistant", "user", "assistant", "user"]
    assert said[1]["content"] == SEARCH and said[3]["content"] == "no tag" and said[4]["content"] == TRY_AGAIN
    assert said[2]["content"].strip().startswith("<information>")


# The modules.

def with_contextualizer(*replies):
    reply, notes = in_turn(*replies), in_turn(*(f"Extract {n}." for n in range(1, 9)))
    return ScriptedGenerator(lambda p: notes(p) if p.operation.role == "contextualizer" else reply(p), ROLES)


def test_with_contextualization_every_observation_holds_the_whole_cache():
    record, generator = walk(modules=Modules(contextualize=True), generator=with_contextualizer(SEARCH, "<search>glass Lisk</search>", ANSWER))
    _, second, third = shown(generator)
    assert second.endswith("burned down in 1911.\nNote: Extract 1.</information>\n\n")
    assert third.endswith("\nNote: Extract 1.\nNote: Extract 2.</information>\n\n") and third.count("Extract 1.") == 2
    assert [c.role for c in record.calls] == ["generator", "contextualizer", "generator", "contextualizer", "generator"]
    assert record.counts()["llm_calls"] == 5 and record.columns["turns"] == 3


def test_hybrid_drops_seen_documents_before_the_contextualizer_reads():
    record, generator = walk(modules=Modules(dedup=True, contextualize=True), generator=with_contextualizer(SEARCH, SEARCH, ANSWER))
    found = [{p.id for p in r.passages} for r in record.rounds[:2]]
    assert found == [{"p1", "p2"}, {"p0", "p3"}]
    read = [{s.passage_id for s in p.operation.prompt.segments} - {None} for p in generator.requests if p.operation.role == "contextualizer"]
    assert read == found


def test_when_all_documents_were_shown_the_loop_goes_on():
    record, generator = walk(modules=Modules(dedup=True, contextualize=True), top_k=5, generator=with_contextualizer(SEARCH, SEARCH, ANSWER))
    assert [len(r.passages) for r in record.rounds] == [5, 0, 0] and len(record.retrievals) == 2
    assert [p.operation.role for p in generator.requests].count("contextualizer") == 1
    assert "<information>No further passage was found.\nNote: Extract 1.</information>" in shown(generator)[-1]
    assert record.prediction == "Tobin Hale"


# Batches.

SCRIPTS = [(SEARCH, ANSWER), ("no tag", SEARCH, "no tag", ANSWER), (SEARCH,), (ANSWER,), ("", "<search>glass</search>", "<answer></answer>"),
           ("<search>Tarn</search>", "<search>Brask</search>", "<answer>Brask</answer>")]


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_batched_equals_sequential(batch_size):
    """Every question's text, actions and tokens are those it has alone, in any order."""
    def engine_of(questions):
        replies = {q.id: in_turn(*SCRIPTS[int(q.id)  % len(SCRIPTS)]) for q in questions}
        writer = TokenWriter(lambda p: replies[p.question_id](p))
        return Engine("search-r1", SearchR1Options(3, 2), generator=writer, retriever=WordRetriever(), modules=Modules(dedup=True),
                      prompts=PromptBook(Family("chat")), batch_size=batch_size)
    check_company(engine_of, batch_size)
