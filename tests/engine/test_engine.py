"""The engine against its contracts: one batched call a group, rows apart, failures alone, places refilled."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from fakes import FakeController, FakeRetriever, question
from hypothesis import given, settings
from hypothesis import strategies as st

from evoctx_torch.engine import Engine
from evoctx_torch.errors import UsageError
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.methods.base import Method
from evoctx_torch.methods.evoctx import EvoCtxOptions
from evoctx_torch.methods.naive_rag import NaiveRagOptions
from evoctx_torch.operations import Failure, Generate, Noted, Pending, Remember, Retrieve
from evoctx_torch.prompts import Family, PromptBook

PROMPTS = PromptBook(Family("completion"))


def reply(pending: Pending) -> str:
    return f" {pending.operation.role} {pending.question_id} {pending.number} sees {len(pending.operation.prompt.segments)}"


def mixed(question_id: str, number: int) -> str:
    return "RETRIEVE" if (sum(map(ord, question_id)) + number) % 3 else "THINK"


def run_evoctx(count: int, batch_size: int, rounds: int = 3, order: list[int] | None = None):
    engine = Engine("evoctx", EvoCtxOptions(rounds=rounds, top_k=2), generator=ScriptedGenerator(reply), retriever=FakeRetriever(),
                    controller=FakeController(mixed), prompts=PROMPTS, batch_size=batch_size)
    return engine.run(question(i) for i in (order or range(count)))


@given(count=st.integers(1, 12), batch=st.integers(1, 13), seed=st.randoms())
@settings(max_examples=25, deadline=None)
def test_trap_10_same_answer_alone_and_in_any_company(count, batch, seed):
    order = list(range(count))
    seed.shuffle(order)
    alone = {t.question.id: t.to_json() for i in range(count) for t in run_evoctx(count, 1, order=[i])}
    together = run_evoctx(count, batch, order=order)
    assert [t.question.id for t in together] == [f"q{i}" for i in order], "not in the order of the input"
    assert {t.question.id: t.to_json() for t in together} == alone


def test_trap_11_every_question_gets_its_own_passages():
    for trajectory in run_evoctx(9, 4):
        expected = FakeRetriever()._one(Pending("", 0, Retrieve(trajectory.question.text, 2))).passages
        assert trajectory.bootstrap == expected


def test_one_call_a_group_and_full_batches_for_the_models():
    sizes = []

    class Counting(ScriptedGenerator):
        def answer(self, pending):
            sizes.append(len(pending))
            return ScriptedGenerator.answer(self, pending)
    generator, retriever = Counting(reply), FakeRetriever()
    engine = Engine("evoctx", EvoCtxOptions(rounds=2, top_k=2), generator=generator, retriever=retriever,
                    controller=FakeController(mixed), prompts=PROMPTS, batch_size=8)
    engine.run(question(i) for i in range(8))
    assert len(retriever.batches[0]) == 8, "the bootstrap retrievals are one call"
    assert sizes[0] == 8
    # Cheap operations are drained first, so every model call holds every row that is still active.
    assert sizes[:3] == [8, 8, 8]


def test_roles_of_one_model_share_a_batch_and_roles_of_two_do_not():
    shared, other = ScriptedGenerator(reply), ScriptedGenerator(reply)
    options = EvoCtxOptions(rounds=2, top_k=2)
    Engine("evoctx", options, generator={"generator": shared, "decider": other}, retriever=FakeRetriever(),
           controller=FakeController(mixed), prompts=PROMPTS, batch_size=4).run(question(i) for i in range(4))
    assert {p.operation.role for p in other.requests} == {"decider"}
    assert {p.operation.role for p in shared.requests} == {"generator"}


def test_a_failed_row_ends_alone_with_its_reason():
    engine = Engine("naive-rag", NaiveRagOptions(top_k=2), generator=ScriptedGenerator(
        lambda p: Failure("error", "boom") if p.question_id == "q1" else Failure("over_length", "too long", ("p1",)) if p.question_id == "q2" else reply(p)
    ), retriever=FakeRetriever(lambda p: p.question_id == "q3"), prompts=PROMPTS, batch_size=3)
    rows = engine.run(question(i) for i in range(5))
    assert [(t.finish_reason, t.error) for t in rows] == [
        ("eos", None), ("error", "boom"), ("over_length", None), ("error", "the index is on fire"), ("eos", None)]
    assert rows[2].dropped == ("p1",)
    assert rows[3].counts()["llm_calls"] == 0


def test_an_executor_that_raises_for_one_row_costs_only_that_row(caplog):
    def explode(pending):
        if pending.question_id == "q2":
            raise ValueError("poison")
        return reply(pending)
    rows = Engine("closed-book", generator=ScriptedGenerator(explode), prompts=PROMPTS, batch_size=4).run(question(i) for i in range(5))
    assert [t.error for t in rows] == [None, None, "ValueError: poison", None, None]
    assert "poison" in caplog.text


def test_an_executor_that_loses_rows_is_an_error_not_a_silent_shift():
    class Loses:
        def answer(self, pending):
            return ScriptedGenerator(reply).answer(pending)[:-1]
    rows = Engine("closed-book", generator=Loses(), prompts=PROMPTS, batch_size=4).run(question(i) for i in range(3))
    assert all("0 results for 1 operations" in t.error for t in rows)


def test_a_method_that_raises_ends_its_question_only():
    def broken(episode, options):
        completion = yield episode.generate("generator", "answer")
        if episode.question.id == "q0":
            raise KeyError("no such thing")
        return completion
    method = Method("broken", "", "", NaiveRagOptions, broken)
    rows = Engine(method, generator=ScriptedGenerator(reply), prompts=PROMPTS).run(question(i) for i in range(2))
    assert rows[0].finish_reason == "error" and "no such thing" in rows[0].error
    assert rows[1].error is None


def test_places_are_refilled_as_questions_finish():
    active = []

    @dataclass(frozen=True)
    class Options:
        pass

    def varying(episode, options):
        for _ in range(int(episode.question.id[1:]) % 4):
            yield Generate("generator", PROMPTS.generate("generator", "answer", episode.evidence).prompt)
        return (yield episode.generate("generator", "answer"))
    method = Method("varying", "", "", Options, varying)
    engine = Engine(method, generator=ScriptedGenerator(reply), prompts=PROMPTS, batch_size=3, on_tick=lambda e: active.append(len(e.places)))
    engine.run(question(i) for i in range(12))
    # 30 calls in three places: 10 ticks at best, 16 if every wave waited for its slowest question.
    assert engine.ticks == len(active) <= 12, "the places of finished questions stayed empty"
    assert max(active) <= 3


def test_closing_the_stream_closes_the_generators():
    closed = []

    def watched(episode, options):
        try:
            yield episode.generate("generator", "answer")
            return (yield episode.generate("generator", "answer"))
        finally:
            closed.append(episode.question.id)
    method = Method("watched", "", "", NaiveRagOptions, watched)

    def interrupt(pending):
        if pending.number == 1:
            raise KeyboardInterrupt
        return reply(pending)
    engine = Engine(method, generator=ScriptedGenerator(interrupt), prompts=PROMPTS, batch_size=2)
    with pytest.raises(KeyboardInterrupt):
        engine.run(question(i) for i in range(2))
    assert sorted(closed) == ["q0", "q1"]


def test_accounting_adds_up():
    for trajectory in run_evoctx(7, 3):
        counts = trajectory.counts()
        actions = trajectory.actions
        assert counts["llm_calls"] == 3 + actions.count("THINK") + 1
        assert counts["retrieval_calls"] == 1 + actions.count("RETRIEVE")
        assert counts["retrieved_passages"] == 2 * counts["retrieval_calls"]
        assert counts["unique_passages"] == len({p.id for p in trajectory.passages})
        assert counts["rounds"] == 3
        assert counts["prompt_tokens"] == sum(c.completion.prompt_tokens for c in trajectory.calls) > 0


def test_a_method_whose_operation_nobody_answers_says_so():
    with pytest.raises(TypeError, match="naive-rag yields Retrieve"):
        Engine("naive-rag", generator=ScriptedGenerator(reply), prompts=PROMPTS).run([question(0)])


@pytest.mark.parametrize("size", [0, 2.5, "8"])
def test_batch_size_below_one_is_refused(size):
    with pytest.raises(ValueError, match="batch_size"):
        Engine("closed-book", generator=ScriptedGenerator(reply), batch_size=size)


def test_options_of_another_method_or_out_of_range_are_refused():
    with pytest.raises(TypeError, match="closed-book takes ClosedBookOptions"):
        Engine("closed-book", NaiveRagOptions(), generator=ScriptedGenerator(reply))
    with pytest.raises(UsageError, match="--top-k is 0"):
        Engine("naive-rag", NaiveRagOptions(top_k=0), generator=ScriptedGenerator(reply))
    with pytest.raises(ValueError, match="no role 'decidr'"):
        Engine("evoctx", generator={"generator": ScriptedGenerator(reply), "decidr": ScriptedGenerator(reply)})


def one_call(run):
    return Method("own", "", "", NaiveRagOptions, run)


def test_operations_yielded_together_are_answered_together_and_in_their_order():
    seen = []

    def votes(episode, options):
        asked = tuple(episode.generate(role, "answer") for role in ("generator", "decider", "generator"))
        replies = yield asked
        seen.append([r.text for r in replies])
        return replies[-1]
    method = Method("votes", "", "", NaiveRagOptions, votes, roles=("generator", "decider"))
    first, second = ScriptedGenerator(reply), ScriptedGenerator(reply)
    rows = Engine(method, generator={"generator": first, "decider": second}, prompts=PROMPTS).run([question(0), question(1)])
    assert seen == [[f" {role} q{i} {n} sees 2" for n, role in enumerate(("generator", "decider", "generator"))] for i in (0, 1)]
    assert [[c.role for c in t.calls] for t in rows] == [["generator", "decider", "generator"]] * 2
    assert (len(first.requests), len(second.requests)) == (4, 2)


def test_of_operations_yielded_together_one_failure_ends_the_row_and_the_others_are_counted():
    def votes(episode, options):
        yield tuple(episode.generate("generator", "answer") for _ in range(3))
    boom = ScriptedGenerator(lambda p: Failure("error", "boom") if p.number == 1 else reply(p))
    (row,) = Engine(one_call(votes), generator=boom, prompts=PROMPTS).run([question(0)])
    assert (row.finish_reason, row.error, len(row.calls)) == ("error", "boom", 2)


@pytest.mark.parametrize(("run", "words"), [
    (lambda e, o: (yield "not an operation"), "expected an operation"),
    (lambda e, o: (yield ()), "empty tuple"),
    (lambda e, o: (yield (Retrieve("q", 1), None)), "expected an operation"),
])
def test_a_method_that_yields_nonsense_ends_its_question_only(run, words):
    (row,) = Engine(one_call(run), generator=ScriptedGenerator(reply), retriever=FakeRetriever(), prompts=PROMPTS).run([question(0)])
    assert row.finish_reason == "error" and words in row.error


def test_a_method_that_is_no_generator_is_a_fault_of_the_program():
    with pytest.raises(TypeError, match="expected a generator"):
        Engine(one_call(lambda episode, options: None), generator=ScriptedGenerator(reply), prompts=PROMPTS).run([question(0)])


def test_a_method_that_returns_no_completion_ends_its_question_only():
    def forgets(episode, options):
        return (yield episode.generate("generator", "answer")).text
    (row,) = Engine(one_call(forgets), generator=ScriptedGenerator(reply), prompts=PROMPTS).run([question(0)])
    assert row.finish_reason == "error" and "expected the Completion" in row.error


def test_an_executor_that_answers_with_the_wrong_thing_costs_only_that_row():
    class Wrong:
        def answer(self, pending):
            return ["a text" if p.question_id == "q0" else ScriptedGenerator(reply).answer([p])[0] for p in pending]
    rows = Engine("closed-book", generator=Wrong(), prompts=PROMPTS).run([question(0), question(1)])
    assert "expected a Completion" in rows[0].error and rows[1].error is None
    (row,) = Engine("evoctx", EvoCtxOptions(rounds=1, top_k=2), generator=ScriptedGenerator(reply), retriever=FakeRetriever(),
                    controller=FakeController(lambda q, n: "PONDER"), prompts=PROMPTS).run([question(0)])
    assert "expected RETRIEVE or THINK" in row.error


def test_two_streams_of_one_engine_at_once_are_refused():
    engine = Engine("closed-book", generator=ScriptedGenerator(reply), prompts=PROMPTS, batch_size=1)
    first = engine.stream([question(0), question(1)])
    next(first)
    with pytest.raises(RuntimeError, match="already running"):
        next(engine.stream([question(2)]))
    assert len(list(first)) == 1


def test_a_memory_sees_its_waves_whole_and_in_order():
    events = []

    class Memory:
        def begin_wave(self, number, ids):
            events.append(("begin", number, ids))

        def end_wave(self):
            events.append("end")

        def answer(self, pending):
            events.append([p.question_id for p in pending])
            return [Noted() for _ in pending]

    def remembering(episode, options):
        answer = yield episode.generate("generator", "answer")
        yield Remember(answer.text, ())
        return answer
    engine = Engine(one_call(remembering), generator=ScriptedGenerator(reply), memory=Memory(), prompts=PROMPTS, batch_size=8, wave=2)
    rows = list(engine.stream([question(i) for i in range(5)], skip={"q2"}))
    assert [position for position, _ in rows] == [0, 1, 3, 4]
    assert events == [("begin", 0, ["q0", "q1"]), ["q0", "q1"], "end", ("begin", 1, ["q2", "q3"]), ["q3"], "end",
                      ("begin", 2, ["q4"]), ["q4"], "end"]


def test_a_configuration_error_inside_a_call_ends_the_run():
    class Refuses:
        def answer(self, pending):
            raise UsageError("the chat template refuses a system message")
    with pytest.raises(UsageError, match="refuses a system message"):
        Engine("closed-book", generator=Refuses(), prompts=PROMPTS).run([question(0), question(1)])
