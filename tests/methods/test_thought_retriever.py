"""Thought-Retriever walked step by step, its failures, its waves, and a crash at every instant (PAPERS section 4)."""

from __future__ import annotations

import random
from contextlib import closing

import pytest

from evoctx_torch.data.corpus import Corpus
from evoctx_torch.engine import Engine
from evoctx_torch.errors import UsageError
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.memory.executor import ThoughtMemory
from evoctx_torch.memory.records import EncoderId
from evoctx_torch.memory.store import ThoughtStore
from evoctx_torch.methods import Modules
from evoctx_torch.methods.thought_retriever import ThoughtRetrieverOptions, said_confidence, said_thought
from evoctx_torch.operations import Completion, Passage, Question
from evoctx_torch.options import typed
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.retrieval.dense import DenseIndex
from evoctx_torch.retrieval.executor import Retriever
from evoctx_torch.retrieval.hashing import HashEncoder

ENCODER = HashEncoder(4096)
TOWNS = ["Tarn", "Lisk", "Brask", "Ostrand", "Morn", "Hollin", "Vell", "Quay"]
AGAIN = (0, 1, 2, 8, 9, 10, 16, 17)  # three towns, asked about again and again
CORPUS = Corpus(
    Passage(f"p{i}", f"d{i}", town, f"{town}\n{town} has a mayor named M{i} and lies on river R{i}") for i, town in enumerate(TOWNS))
QUESTIONS = [
    Question(f"q{i}", f"who is the mayor of {TOWNS[i % 8]}", (f"M{i % 8}",), {"supporting_passage_ids": [f"p{i % 8}"]}) for i in range(24)]
DISTIL, CHECK = "Distil this", "Is the proposed answer"


def retriever() -> Retriever:
    return Retriever(CORPUS, DenseIndex(ENCODER.encode_passages(CORPUS.contents).numpy()), ENCODER)


def reply(p) -> str:
    """A thought that names all towns whose thoughts are shown: what a question sees decides what it leaves behind."""
    text, i = p.operation.prompt.text, int(p.question_id[1:])
    if DISTIL in p.operation.prompt.segments[-1].text:
        return f"Thought: {text.partition('Proposed answer: ')[2].splitlines()[0]} governs\nConfidence: {int(i % 5 != 4)}"
    seen = sorted({word for word in text.split() if word.startswith("seen-")})
    return f"M{i % 8} {TOWNS[i % 8]} seen-{i} " + " ".join(f"{word}x" for word in seen)[:200]


def run(questions=QUESTIONS[:1], reply=reply, family="chat", store=None, options=None, modules=None, batch_size=4, **how):
    """(trajectories, generator, store) of a run whose memory is `store`."""
    options = options or ThoughtRetrieverOptions(**{"top_k": 3, **how})
    store = store or ThoughtStore(None, EncoderId(ENCODER.name, ENCODER.digest))
    generator = ScriptedGenerator(reply)
    memory = ThoughtMemory(retriever(), store, run="r", frozen=options.freeze_memory)
    engine = Engine("thought-retriever", options, generator=generator, memory=memory, prompts=PromptBook(Family(family)),
                    wave=options.wave, batch_size=batch_size, modules=modules or Modules())
    return engine.run(questions), generator, store


def test_the_whole_algorithm():
    (first, again), generator, store = run([QUESTIONS[3], QUESTIONS[11]], wave=1)  # the same question twice
    answers, distils = generator.requests[::2], generator.requests[1::2]
    assert [p.question_id for p in generator.requests] == ["q3", "q3", "q11", "q11"]
    assert {p.operation.role for p in generator.requests} == {"generator"}
    # T: the top K of the corpus, shown verbatim; A: from question and T.
    assert first.bootstrap_query == QUESTIONS[3].text and first.bootstrap[0].id == "p3" and len(first.bootstrap) == 3
    assert all(p.contents in answers[0].operation.prompt.text for p in first.bootstrap)
    # The distil call: question and answer, nothing else.
    text = distils[0].operation.prompt.text
    assert QUESTIONS[3].text in text and first.answer.text.strip() in text and "Confidence" in text
    assert not distils[0].operation.prompt.passage_ids
    thought = store.thoughts[0]
    assert (thought.text, thought.level) == (f"{first.answer.text.strip()} governs", 2.0)
    assert thought.sources == tuple(p.id for p in first.bootstrap)
    assert first.rounds[0].notes == {"thought": thought.text, "thought_outcome": "offered", "thought_sources": list(thought.sources)}
    # The next wave finds it, shows it like a passage and builds on it.
    assert "thought-1" in [p.id for p in again.bootstrap] and thought.text in answers[1].operation.prompt.text
    passages = {p.id for p in again.bootstrap} - {"thought-1"}
    assert len(passages) == 2 and store.thoughts[1].level == 1 + (1 + 1 + 2) / 3
    assert set(store.thoughts[1].provenance) == set(thought.sources) | passages
    assert first.answer.finish_reason == first.finish_reason == "eos" and first.actions == []
    assert [t.counts()["llm_calls"] for t in (first, again)] == [2, 2] and [t.counts()["retrieval_calls"] for t in (first, again)] == [1, 1]
    assert first.columns == {
        "abstraction": 1.0, "thoughts_recalled": 0, "provenance_precision": 1 / 3, "provenance_recall": 1.0, "thought": "offered"}
    assert again.columns["abstraction"] == (1 + 1 + 2) / 3 and again.columns["thoughts_recalled"] == 1


def test_the_trajectory_tells_what_a_thought_says():
    (_, again), *_ = run(QUESTIONS[3:4] + QUESTIONS[11:12], wave=1)
    shown = {p["id"]: p for p in again.to_json()["bootstrap"]["passages"]}
    assert shown["thought-1"]["thought"] == "M3 Ostrand seen-3 governs" and shown["thought-1"]["level"] == 2.0
    assert shown["thought-1"]["provenance"] and "thought" not in shown["p3"]


@pytest.mark.parametrize(("said", "outcome"), [
    ("Thought: a b c\nConfidence: 0", "unsure"), ("Thought: a b c\nConfidence: maybe", "unparsable"), ("Thought: a b c", "unparsable"),
    ("Confidence: 1", "unparsable"), ("Thought:\nConfidence: 1", "unparsable"), ("banana", "unparsable"), ("", "unparsable"),
    ("Thought: a\nConfidence: 0.7", "unparsable"),
    ("<think>Thought: x\nConfidence: 1</think>", "unparsable"), ("thought: a\nb c\nCONFIDENCE: 1", "offered"),
    ("Confidence: 1\nThought: a b c", "offered"),
])
def test_thoughts_that_are_not_worth_storing(said, outcome):
    (t,), generator, store = run(reply=lambda p: said if DISTIL in p.operation.prompt.segments[-1].text else "M0")
    assert t.columns["thought"] == t.rounds[0].notes["thought_outcome"] == outcome
    assert [x.text for x in store.thoughts] == (["a b c"] if outcome == "offered" else [])
    assert t.finish_reason == "eos" and len(generator.requests) == 2, "the answer stands, whatever became of the thought"


def test_a_reply_is_read_whatever_its_case_and_order():
    assert said_thought("Sure.\nTHOUGHT:  two\n lines \nConfidence : 1\nThought: no") == "two lines"
    assert said_thought("**Thought:** two *fine* lines\n\n**Confidence:** 1") == "two *fine* lines"
    assert said_confidence("confidence:0\nConfidence: 1") == 0
    assert said_confidence("**Confidence:** 1") == said_confidence("__Confidence__: 1.") == 1 and said_confidence("Confidence: 1.0") is None
    assert said_confidence("Confidence: 10") is None and said_confidence("sure") is None


def test_without_an_answer_nobody_is_asked_for_a_thought():
    (t,), generator, store = run(reply=lambda p: "<think>hm</think> ")
    assert t.columns["thought"] == "no_answer" and len(generator.requests) == 1 and not store.thoughts


def test_a_passage_that_was_dropped_from_the_prompt_is_no_source():
    def truncated(p):
        if DISTIL in p.operation.prompt.segments[-1].text:
            return "Thought: a\nConfidence: 1"
        return Completion("M0", "eos", 1, 1, 1, dropped=p.operation.prompt.passage_ids[:dropped])
    dropped = 2
    (t,), _, store = run(reply=truncated)
    assert store.thoughts[0].sources == (t.bootstrap[2].id,)
    dropped = 3
    (t,), _, store = run(reply=truncated)
    assert t.columns["thought"] == "no_sources" and not store.thoughts


@pytest.mark.parametrize(("check", "outcome", "calls"), [
    ("Confidence: 1", "offered", 3), ("Confidence: 0", "unsure", 2), ("idk", "unparsable", 2)])
def test_a_separate_check_comes_before_the_thought(check, outcome, calls):
    def say(p):
        last = p.operation.prompt.segments[-1].text
        return check if CHECK in last else "Thought: a b c" if DISTIL in last else "M0"
    (t,), generator, store = run(reply=say, confidence="separate")
    assert t.columns["thought"] == outcome and len(generator.requests) == calls == t.counts()["llm_calls"]
    assert len(store.thoughts) == (outcome == "offered")
    assert "Confidence" not in generator.requests[-1].operation.prompt.text or outcome != "offered"


def test_the_completion_family_has_worked_examples_and_ends_its_calls():
    def say(p):
        last = p.operation.prompt.text.rpartition("\n")[2]
        return {"Answer:": " M0\nmore", "Thought:": " a b c\nConfidence: 1\n\nPassage:", "Confidence:": " 1\nmore"}[last]
    for how in ("same-call", "separate"):
        (t,), generator, store = run(family="completion", reply=say, confidence=how)
        assert t.answer.text == " M0" and [x.text for x in store.thoughts] == ["a b c"]
        assert all(p.operation.prompt.text.count(QUESTIONS[0].text) == 1 for p in generator.requests)


def test_a_frozen_memory_saves_the_distil_call():
    _, _, store = run(QUESTIONS[:2], wave=1)
    before = list(store.thoughts)
    trajectories, generator, _ = run(QUESTIONS[2:4], store=store, freeze_memory=True)
    assert len(generator.requests) == 2 and store.thoughts == before and all("thought" not in t.columns for t in trajectories)


def test_the_contextualizer_reads_what_was_recalled():
    def say(p):
        return "an extract" if p.operation.role == "contextualizer" else reply(p)
    (t,), generator, _ = run(reply=say, modules=Modules(contextualize=True))
    assert [p.operation.role for p in generator.requests] == ["contextualizer", "generator", "generator"]
    assert "an extract" in generator.requests[1].operation.prompt.text and t.counts()["llm_calls"] == 3


def outcome_of(trajectories, store):
    return ([(t.question.id, t.answer.text, [p.id for p in t.bootstrap], t.columns)
             for t in sorted(trajectories, key=lambda t: t.question.id)],
            [(x.text, x.level, x.sources, x.provenance, x.question, x.wave) for x in store.thoughts])


@pytest.mark.parametrize("wave", [1, 5, 8, 32])
def test_batches_do_not_change_what_waves_define(wave):
    found = []
    for batch_size in (1, 3, 8):
        trajectories, _, store = run(QUESTIONS, wave=wave, batch_size=batch_size)
        found.append(outcome_of(trajectories, store))
    assert found[0] == found[1] == found[2] and len(found[0][1]) > 2


def test_waves_do_and_the_order_of_the_questions_too():
    one, twelve = (outcome_of(*run(QUESTIONS, wave=wave)[::2]) for wave in (1, 12))
    shuffled = random.Random(0).sample(QUESTIONS, len(QUESTIONS))
    other = outcome_of(*run(shuffled, wave=12)[::2])
    assert one != twelve != other

    def recalled(outcome):
        return sum(columns["thoughts_recalled"] for id, *_, columns in outcome[0] if int(id[1:]) < 12)
    # Four of the first twelve questions ask about a town a second time: within a wave they do not see what the first left.
    assert recalled(one) >= 4 and recalled(twelve) == 0


class Killed(BaseException):
    """The process ends here."""


def continued(path, questions, kill_at, wave=4, batch_size=3):
    """Run until the `kill_at`-th step (a transaction, before or after it is written, or a finished question), and again to
    the end; ([(question, answer …)], memory, whether it was killed)."""
    done, steps, killed = {}, 0, False

    def step():
        nonlocal steps
        steps += 1
        if steps == kill_at:
            raise Killed

    class Dying(ThoughtStore):
        def offer(self, *arguments):
            step()
            super().offer(*arguments)
            step()

        def settle(self, *arguments):
            step()
            super().settle(*arguments)
            step()

    options = ThoughtRetrieverOptions(top_k=3, wave=wave)
    for _ in range(2):
        with closing(Dying(path, EncoderId(ENCODER.name, ENCODER.digest))) as store:
            engine = Engine("thought-retriever", options, generator=ScriptedGenerator(reply), wave=wave, batch_size=batch_size,
                            memory=ThoughtMemory(retriever(), store, run="r", known=0))
            try:
                with closing(engine.stream(questions, skip=frozenset(done))) as stream:
                    for _, t in stream:
                        step()
                        done[t.question.id] = t
                break
            except Killed:
                killed = True
    with closing(ThoughtStore(path)) as store:
        return outcome_of(done.values(), store), store.outcomes(), killed


def test_trap_a_kill_at_any_instant_changes_neither_answers_nor_memory(tmp_path):
    questions, n = [QUESTIONS[i] for i in AGAIN], 0
    *undisturbed, _ = continued(tmp_path / "whole", questions, kill_at=0)
    assert len(undisturbed[0][1]) >= 3 and any(columns["thoughts_recalled"] for *_, columns in undisturbed[0][0])
    while True:
        n += 1
        *found, killed = continued(tmp_path / str(n), questions, kill_at=n)
        assert found == undisturbed, f"killed at step {n}"
        if not killed:
            break
    assert n > 16


def test_a_run_can_be_extended_in_the_middle_of_a_wave(tmp_path):
    asked = [QUESTIONS[i] for i in AGAIN]
    *whole, _ = continued(tmp_path / "whole", asked, 0)
    for count in (3, 4, 6):
        path, done = tmp_path / str(count), {}
        for questions in (asked[:count], asked):
            with closing(ThoughtStore(path, EncoderId(ENCODER.name, ENCODER.digest))) as store:
                engine = Engine("thought-retriever", ThoughtRetrieverOptions(top_k=3, wave=4), generator=ScriptedGenerator(reply), wave=4,
                                memory=ThoughtMemory(retriever(), store, run="r", known=0))
                done |= {t.question.id: t for _, t in engine.stream(questions, skip=frozenset(done))}
                assert [outcome_of(done.values(), store), store.outcomes()] == whole or len(done) < 8


def test_the_defaults_are_the_papers_and_impossible_options_are_refused():
    options = ThoughtRetrieverOptions()
    assert (options.top_k, options.recall, options.diversity, options.redundancy) == (8, 5, 0.85, 0.85)
    assert (options.wave, options.confidence) == (32, "same-call")
    for values, words in (({"wave": 0}, "--wave is 0"), ({"diversity": 1.5}, "--diversity is 1.5"),
                          ({"confidence": "x"}, "same-call, separate"),
                          ({"known_thoughts": 3}, "--memory FILE")):
        with pytest.raises(UsageError, match=words):
            typed(ThoughtRetrieverOptions, values)
