"""ACE walked step by step: who votes on what, what the majority does, what each round adds, and every way a vote can go wrong."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from itertools import pairwise, product

import pytest
import torch
from evoctx_kernels.majority_vote import reference as majority_reference
from walking import QUESTION, WORLD, WordRetriever

from evoctx_torch.engine import Engine
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.config import resolve
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.methods import METHODS, NO_MODULES, Modules
from evoctx_torch.methods.ace import ACE, AceOptions
from evoctx_torch.methods.replies import subquery_pair
from evoctx_torch.operations import Failure, Generate, Question, Score, Scored
from evoctx_torch.options import check
from evoctx_torch.prompts import FAMILIES, Family, PromptBook

WORDS = {"R": "RETRIEVE", "T": "THINK", "x": "banana"}


def walk(*rounds: str, think: str = "Sub-query: Which harbour town is Ostrand?\nSub-answer: a port", query: str = "", score=None, family: str = "chat", modules=NO_MODULES, **options):
    """Run one question; each voted round's votes are letters (R, T, x for junk). Returns the record, what was asked, the queries."""
    ballots = iter("".join(rounds))

    def reply(pending):
        if pending.operation.role == "decider":
            return WORDS[next(ballots)]
        text = pending.operation.prompt.text
        return think if "Sub-answer: its answer" in text or text.endswith("Sub-query:") else query if "query" in text.splitlines()[-1] else "Tobin Hale"
    generator, retriever = ScriptedGenerator(reply, Roles(RoleSettings(64)), score=score), WordRetriever()
    engine = Engine("ace", AceOptions(**{"top_k": 2, "rounds": len(rounds) + 1, **options}), generator=generator, retriever=retriever, modules=modules,
                    prompts=PromptBook(Family(family)))
    (record,) = engine.run([QUESTION])
    return record, generator.requests, retriever.queries


def ids(passages) -> list[str]:
    return [p.id for p in passages]


def shown(pending) -> list[str]:
    return [s.passage_id for s in pending.operation.prompt.segments if s.passage_id is not None]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_whole_algorithm(family):
    record, requests, queries = walk("TRTRT", "RRTTR", family=family)
    first, second, third = record.rounds
    assert record.actions == ["RETRIEVE", "THINK", "RETRIEVE"]
    # The first round retrieves with the question, without a vote.
    assert (first.query, ids(first.passages), first.notes) == (QUESTION.text, ["p0", "p1"], {}) and not record.bootstrap
    # THINK: one call, a sub-query and its answer, no passages.
    assert (second.subquery, second.notes["subanswer"], second.query, second.passages) == ("Which harbour town is Ostrand?", "a port", "", ())
    assert second.notes["votes"] == {"RETRIEVE": 2, "THINK": 3, "invalid": 0}
    # RETRIEVE: question and newest sub-query.
    assert third.query == f"{QUESTION.text} Which harbour town is Ostrand?" and third.subquery == "" and third.notes["votes"] == {"RETRIEVE": 3, "THINK": 2, "invalid": 0}
    assert queries == [first.query, third.query] and ids(third.passages) == ["p2", "p0"]
    # Five votes together, one call to think, five votes, one answer; each its own number.
    assert [p.operation.role for p in requests] == ["decider"] * 5 + ["generator"] + ["decider"] * 5 + ["generator"]
    assert len({p.number for p in requests}) == 12 and len(record.calls) == 12
    # Everything shows what was known then; p0, found twice, stands once.
    assert [shown(p) for p in requests] == [["p0", "p1"]] * 11 + [["p0", "p1", "p2"]]
    assert all(p.operation.prompt.text.count(QUESTION.text) == 1 for p in requests)
    known = "Sub-question: Which harbour town is Ostrand?\nSub-answer: a port\n"
    assert [known in p.operation.prompt.text for p in requests] == [False] * 6 + [True] * 6
    assert record.answer.text == "Tobin Hale" and record.finish_reason == "eos"
    assert record.columns == {"invalid_votes": 0, "unparsable_thinking": 0}


def test_prompts_of_a_role_grow_only_at_their_end():
    _, requests, _ = walk("TTTTT", "RRRRR", "TTTTT")
    for role, others in (("decider", 1), ("generator", 1)):
        segments = [p.operation.prompt.segments for p in requests if p.operation.role == role]
        assert all(later[: len(earlier) - others] == earlier[:-1] for earlier, later in pairwise(segments))


@pytest.mark.parametrize(("votes", "action", "counts"), [
    ("TTTRR", "THINK", (2, 3, 0)), ("RRRTT", "RETRIEVE", (3, 2, 0)), ("TRTRx", "RETRIEVE", (2, 2, 1)), ("xxxxx", "RETRIEVE", (0, 0, 5)),
    ("xxxxT", "THINK", (0, 1, 4)), ("xTxTR", "THINK", (1, 2, 2)),
])
def test_the_majority_of_the_valid_votes_decides_and_a_tie_retrieves(votes, action, counts):
    record, *_ = walk(votes)
    assert record.actions[1] == action
    assert record.rounds[1].notes["votes"] == dict(zip(("RETRIEVE", "THINK", "invalid"), counts, strict=True))
    assert record.columns["invalid_votes"] == counts[2]


@pytest.mark.parametrize("agents", [1, 2, 3, 4])
def test_the_rule_is_that_of_the_kernel(agents):
    """majority_vote with ties going to RETRIEVE; where it has no winner, for want of a valid vote, ACE retrieves."""
    for votes in map("".join, product("RTx", repeat=agents)):
        record, *_ = walk(votes, agents=agents)
        found = majority_reference(torch.tensor([["RT".find(vote) for vote in votes]]), 2, 0)
        assert record.actions[1] == ("RETRIEVE", "THINK", "RETRIEVE")[found.winner.item()]
        counts = record.rounds[1].notes["votes"]
        assert [counts["RETRIEVE"], counts["THINK"]] == found.counts[0].tolist() and sum(counts.values()) == agents


@pytest.mark.parametrize("family", FAMILIES)
def test_one_round_is_naive_rag(family):
    record, requests, queries = walk(family=family)
    generator, retriever = ScriptedGenerator(lambda p: "Tobin Hale"), WordRetriever()
    (plain,) = Engine("naive-rag", METHODS["naive-rag"].options(2), generator=generator, retriever=retriever, prompts=PromptBook(Family(family))).run([QUESTION])
    assert [p.operation.prompt for p in requests] == [p.operation.prompt for p in generator.requests] and queries == retriever.queries
    mine, theirs = record.counts(), plain.counts()
    assert {**mine, "rounds": 0} == theirs and record.answer == plain.answer and record.actions == ["RETRIEVE"]


def test_no_round_is_closed_book():
    record, requests, queries = walk(rounds=0)
    assert len(requests) == 1 and not queries and record.actions == []


def test_the_first_round_can_be_voted_on():
    record, _, queries = walk("TTTTT", "RRRRR", first_action="vote", rounds=2)
    assert record.actions == ["THINK", "RETRIEVE"] and queries == [f"{QUESTION.text} Which harbour town is Ostrand?"]
    assert all("votes" in r.notes for r in record.rounds)


@pytest.mark.parametrize(("reply", "found"), [
    ("Sub-query: who?\nSub-answer: me", ("who?", "me")), ("SUB-QUERY:who?\n\n  sub-answer :  me \nmore", ("who?", "me")),
    ("<think>Sub-query: no\nSub-answer: no</think>Well.\nSub-query: who?\nSub-answer: me", ("who?", "me")), (" who?\nSub-answer: me", ("who?", "me")),
    ("**Sub-query:** who?\n**Sub-answer:** M*A*S*H", ("who?", "M*A*S*H")), ("Sub-query: a?\nSub-answer: b\nSub-query: c?\nSub-answer: d", ("a?", "b")),
    ("Sub-query: who?", ("", "")), ("Sub-query: who?\nSub-answer:  ", ("", "")), ("Sub-answer: me", ("", "")), ("banana", ("", "")), ("", ("", "")),
])
def test_a_sub_query_and_its_answer_are_read_from_two_lines(reply, found):
    assert subquery_pair(reply) == found


def test_thinking_that_cannot_be_read_adds_nothing_and_is_counted():
    record, requests, _ = walk("TTTTT", "TTTTT", think="I would rather not.")
    assert [(r.subquery, r.notes.get("subanswer")) for r in record.rounds] == [("", None), ("", ""), ("", "")]
    assert record.columns["unparsable_thinking"] == 2 and record.finish_reason == "eos"
    ballots = [p.operation.prompt for p in requests if p.operation.role == "decider"]
    assert len(ballots) == 10 and len(set(ballots)) == 1


def test_the_generator_can_write_the_query():
    record, requests, queries = walk("RRRRR", query="Query: Tobin Hale law", search_query="generated")
    assert queries == [QUESTION.text, "Tobin Hale law"] and len(requests) == 7 and ids(record.rounds[1].passages) == ["p3", "p2"]
    _, requests, queries = walk("RRRRR", query="  ", search_query="generated")
    assert queries == [QUESTION.text] * 2, "a query that is not there is the default one"
    assert "query" in requests[5].operation.prompt.segments[-1].text.lower()


def test_a_retrieval_that_finds_nothing_new_or_nothing_at_all_goes_on():
    record, requests, queries = walk("RRRRR", "RRRRR")
    assert queries == [QUESTION.text] * 3 and shown(requests[-1]) == ["p0", "p1"] and record.counts()["retrieved_passages"] == 6
    engine = Engine("ace", AceOptions(rounds=1), generator=ScriptedGenerator(lambda p: "?"), retriever=WordRetriever(passages=()))
    assert engine.run([QUESTION])[0].finish_reason == "eos"


def test_the_modules_serve_it_too():
    record, requests, _ = walk("RRRRR", modules=Modules(dedup=True))
    assert ids(record.rounds[1].passages) == ["p2"] and shown(requests[-1]) == ["p0", "p1", "p2"]
    record, requests, _ = walk("RRRRR", modules=Modules(contextualize=True))
    assert Counter(call.role for call in record.calls) == {"contextualizer": 2, "decider": 5, "generator": 1}
    assert requests[-1].operation.prompt.text.count("Notes on the passages so far: Tobin Hale") == 2


# ------------------------------------------------------------------------------------------------- scored votes

def test_scored_votes_are_one_call_of_many_draws():
    record, requests, _ = walk("TTTTT", vote="score", score=lambda p: (1, 4))
    (asked,) = [p.operation for p in requests if isinstance(p.operation, Score)]
    assert (asked.role, asked.options, asked.samples, asked.baseline) == ("decider", ("RETRIEVE", "THINK"), 5, None)
    assert record.actions == ["RETRIEVE", "THINK"] and record.rounds[1].notes["votes"] == {"RETRIEVE": 1, "THINK": 4, "invalid": 0}
    assert record.rounds[1].notes["scores"] == [{"agents": 5, "probabilities": {"RETRIEVE": 0.2, "THINK": 0.8}, "majority": {}}]
    assert record.counts()["llm_calls"] == 3 and [c.completion.completion_tokens for c in record.calls] == [0, 9, 2]
    assert walk("TTTT", vote="score", score=lambda p: (2, 2), agents=4)[0].actions[1] == "RETRIEVE"


def test_what_a_score_failed_of_ends_the_question_alone():
    record, *_ = walk("TTTTT", vote="score", score=lambda p: Failure("error", "NaN logits"))
    assert (record.finish_reason, record.error, record.rounds[1].action) == ("error", "NaN logits", "")
    whole = walk("TTTTT", vote="score", score=lambda p: Scored((0.4, 0.6), (1, 4), walk()[0].answer, (0.3, 0.7)))[0]
    assert whole.rounds[1].notes["scores"][0]["majority"] == {"RETRIEVE": 0.3, "THINK": 0.7}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_prompt_of_a_scored_vote_ends_where_the_word_comes(family):
    _, requests, _ = walk("TTTTT", vote="score", score=lambda p: (1, 4), family=family, calibrate=True)
    asked = requests[0].operation
    if family == "completion":
        assert asked.prompt.text.endswith("\nNext, RETRIEVE or THINK:")
    else:
        assert asked.prompt.chat and not asked.prompt.turns and "Reply with one word, RETRIEVE or THINK." in asked.prompt.text
    assert asked.baseline.segments[-1].text == asked.prompt.segments[-1].text.replace(QUESTION.text, "N/A") and shown(requests[0])
    assert "N/A" in asked.baseline.text and QUESTION.text not in asked.baseline.text and not asked.baseline.passage_ids


# ------------------------------------------------------------------------------------------------- personas

@pytest.mark.parametrize("text", ["A sceptic.\n\n A librarian.  \n", '["A sceptic.", "A librarian."]'])
def test_agents_have_their_own_system_prompt(tmp_path, text):
    (tmp_path / "p.txt").write_text(text)
    record, requests, _ = walk("TTTRR", personas=str(tmp_path / "p.txt"))
    asked = [p.operation.prompt for p in requests]
    assert Counter(prompt.system for prompt in asked[:5]) == {"A sceptic.": 3, "A librarian.": 2} and asked[5].system is None
    assert record.actions == ["RETRIEVE", "THINK"] and len({prompt.segments for prompt in asked[:5]}) == 1
    _, requests, _ = walk("TTTRR", personas=str(tmp_path / "p.txt"), family="completion")
    assert [p.operation.prompt.text.startswith("A sceptic.\n\n") for p in requests] == [True] * 3 + [False] * 4
    _, requests, _ = walk("TTTRR", personas=str(tmp_path / "p.txt"), vote="score", score=lambda p: (0, p.operation.samples))
    assert [(p.operation.prompt.system, p.operation.samples) for p in requests[:2]] == [("A sceptic.", 3), ("A librarian.", 2)]


@pytest.mark.parametrize(("text", "words"), [
    (None, "No such file"), ("  \n", "is empty"), ("[]", "is empty"), ("[1]", "holds 1; expected texts"), ('["a", " "]', "holds ' '"), ("[oops", "JSON list"),
    ('{"sceptic": "You doubt."}', "is a JSON object; expected a list"),
    (b"\xff\xfe\x00", "system prompt a line"),
])
def test_personas_that_cannot_be_used_are_refused_with_the_options(tmp_path, text, words):
    file = tmp_path / "p.json"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=r"--personas .*p\.json") as error:
        check(AceOptions(personas=str(file)))
    assert words in str(error.value)


# ------------------------------------------------------------------------------------------------- configuration

def test_the_defaults_are_the_papers():
    options = AceOptions()
    assert (options.rounds, options.agents, options.top_k, options.vote, options.first_action) == (3, 5, 5, "sample", "retrieve")
    assert all(f.metadata["paper"] for f in dataclasses.fields(AceOptions)), "every option says the paper's value, or that it is open"
    config = resolve("ace", {"generator": "a", "temperature": "0.2"})
    assert (config.roles["decider"].temperature, config.roles["generator"].temperature) == (0.7, 0.2)


@pytest.mark.parametrize(("given", "words"), [
    ({"vote": "score", "backend": "openai", "base_url": "http://127.0.0.1:1/v1"}, "--vote score needs the model's logits"),
    ({"vote": "score", "decider_backend": "openai", "decider_base_url": "http://127.0.0.1:1/v1"}, "--decider-backend hf"),
    ({"decider_temperature": "0"}, "--decider-temperature is 0: 5 agents with one prompt cast the same vote"), ({"calibrate": True}, "--calibrate is for --vote score"),
    ({"agents": "0"}, "--agents is 0; expected at least 1"), ({"vote": "shout"}, "--vote is 'shout'"),
])
def test_votes_that_cannot_be_cast_are_refused(given, words):
    with pytest.raises(UsageError) as error:
        resolve("ace", {"generator": "a", **given})
    assert words in str(error.value)


def test_one_agent_or_different_agents_may_be_greedy(tmp_path):
    (tmp_path / "p").write_text("one\ntwo")
    (tmp_path / "same").write_text("one\none")
    greedy = {"generator": "a", "decider_temperature": "0"}
    assert resolve("ace", {**greedy, "agents": "1"}).options.agents == 1
    assert resolve("ace", {**greedy, "personas": str(tmp_path / "p")}).options.systems == {"one": 3, "two": 2}
    with pytest.raises(UsageError, match="cast the same vote"):
        resolve("ace", {**greedy, "personas": str(tmp_path / "same")})


def test_the_rehearsal_is_the_first_vote(tmp_path):
    (tmp_path / "p").write_text("one\ntwo")
    from evoctx_torch.methods import Episode
    from evoctx_torch.trajectory import Trajectory
    question = Question("", "?", ())
    episode = Episode(question, PromptBook(Family("chat")), Trajectory(question, ""))
    found = ACE.rehearse(episode, AceOptions(personas=str(tmp_path / "p")))
    assert {type(f) for f in found} == {Generate} and {f.prompt.system for f in found} == {"one", "two"}
    assert {type(f) for f in ACE.rehearse(episode, AceOptions(vote="score"))} == {Score}


# ------------------------------------------------------------------------------------------------- batches

def outcomes(names, batch_size, options) -> dict[str, dict]:
    def reply(p):
        chance = random.Random(f"{p.question_id}/{p.number}")
        if p.operation.role == "decider":
            return chance.choice(["RETRIEVE", "THINK", "THINK", "hm"])
        return chance.choice(["Sub-query: Iris Quell\nSub-answer: Ostrand", "Sub-query: Brask mining\nSub-answer: yes", "no"])

    def score(p):
        think = random.Random(f"{p.question_id}/{p.number}").randrange(p.operation.samples + 1)
        return p.operation.samples - think, think
    engine = Engine("ace", AceOptions(rounds=4, top_k=2, **options), generator=ScriptedGenerator(reply, score=score), retriever=WordRetriever(), batch_size=batch_size)
    questions = [Question(name, f"What of {WORLD[int(name) % 6].title} ({name})?", ("x",)) for name in names]
    return {r.question.id: {**r.counts(), **r.columns, **r.to_json()} for r in engine.run(questions)}


@pytest.mark.parametrize("options", [{}, {"vote": "score"}, {"search_query": "generated", "agents": 2, "first_action": "vote"}])
def test_batched_equals_sequential(options):
    names = [str(i) for i in range(11)]
    alone: dict[str, dict] = {}
    for name in names:
        alone |= outcomes([name], 1, options)
    assert len({str([r["action"] for r in o["rounds"]]) for o in alone.values()}) > 3, "the questions go different ways"
    for batch_size in (1, 3, 8):
        random.Random(batch_size).shuffle(names)
        assert outcomes(names, batch_size, options) == alone
