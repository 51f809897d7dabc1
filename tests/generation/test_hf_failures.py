"""What goes wrong in one row stays in that row: too long, NaN, out of memory, nothing to read."""

from __future__ import annotations

import logging

import pytest
import torch
from tiny_lm import QUESTIONS, ask, ask_all, completions, generator, outcome, roles, tiny_model, tiny_tokenizer

from evoctx_torch.errors import UsageError
from evoctx_torch.generation.hf import is_out_of_memory
from evoctx_torch.operations import Failure, Generate, Pending
from evoctx_torch.transcript import Prompt, Segment


def with_passages(count: int, question: str = "Question: who is the mayor? Answer:") -> Pending:
    passages = [Segment(f"The harbour town number {i} is {i} metres long.\n", passage_id=f"p{i}") for i in range(count)]
    return Pending("q", 0, Generate("generator", Prompt((Segment("Question: who is it?\n"), *passages, Segment(question)))))


def test_truncation_drops_whole_oldest_passages_and_records_them():
    made = generator(context_length=160)
    whole = completions(generator().answer([with_passages(10)]))[0]
    assert whole.dropped == ()
    assert whole.prompt_tokens > 160
    found = completions(made.answer([with_passages(10), ask(QUESTIONS[0])]))
    dropped = found[0].dropped
    assert dropped == tuple(f"p{i}" for i in range(len(dropped)))
    assert 0 < len(dropped) < 10
    assert found[1].dropped == ()
    kept = with_passages(10).operation.prompt.segments
    kept = Prompt((kept[0], *kept[1 + len(dropped):]))
    same = completions(made.answer([Pending("q", 0, Generate("generator", kept))]))[0]
    assert found[0].prompt_tokens == same.prompt_tokens <= 160 - 16
    assert found[0].token_ids == same.token_ids


def test_a_row_that_cannot_fit_stops_nobody_else():
    made = generator(context_length=100)
    long = with_passages(3, "Question: who is the mayor of it? " * 20)
    found = made.answer([ask(QUESTIONS[0]), long, ask(QUESTIONS[1])])
    assert isinstance(found[1], Failure)
    assert found[1].reason == "over_length"
    assert found[1].dropped == ("p0", "p1", "p2")
    assert "100" in found[1].message
    assert "\n" not in found[1].message
    assert [outcome(found[i]) for i in (0, 2)] == [outcome(made.answer([ask(q)])[0]) for q in QUESTIONS[:2]]


def test_the_longest_prompt_that_fits_is_answered():
    length = len(tiny_tokenizer()(QUESTIONS[2]).input_ids)
    assert completions(generator(context_length=length + 16).answer([ask(QUESTIONS[2])]))[0].completion_tokens == 16
    assert isinstance(generator(context_length=length + 15).answer([ask(QUESTIONS[2])])[0], Failure)


def test_a_row_with_nan_logits_fails_alone():
    """One token's embedding is NaN, as when a half-precision model overflows on one prompt."""
    model, poison = tiny_model(), tiny_tokenizer().convert_tokens_to_ids("<|system|>")
    with torch.no_grad():
        model.model.embed_tokens.weight[poison] = torch.nan
    pending = ask_all()
    pending[3] = Pending("q3", 0, Generate("generator", Prompt((Segment("", ids=(poison,)), Segment("and")))))
    for settings in (roles(12), roles(12, 0.9, 0.9)):
        found = generator(model, settings).answer(pending)
        assert isinstance(found[3], Failure)
        assert found[3].reason == "error"
        assert "NaN logits" in found[3].message
        clean = generator(settings=settings).answer(ask_all())
        assert [outcome(c) for i, c in enumerate(found) if i != 3] == [outcome(c) for i, c in enumerate(clean) if i != 3]


class Hungry:
    """Stands around a model's `generate`: too little memory for more than `rows` rows or for prompts beyond `width`."""

    def __init__(self, model, rows: int, width: int = 10_000, error: type[Exception] = torch.OutOfMemoryError) -> None:
        self.generate, self.rows, self.width, self.error, self.shapes = model.generate, rows, width, error, []
        model.generate = self

    def __call__(self, **given):
        shape = given["input_ids"].shape
        self.shapes.append(shape[0])
        if shape[0] > self.rows or shape[1] > self.width:
            raise self.error("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes.")
        return self.generate(**given)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError, MemoryError])
def test_out_of_memory_halves_the_micro_batch(error, caplog):
    model = tiny_model()
    hungry = Hungry(model, rows=2, error=error)
    made = generator(model)
    with caplog.at_level(logging.WARNING):
        found = made.answer(ask_all())
    assert [outcome(c) for c in found] == [outcome(c) for c in generator().answer(ask_all())]
    assert hungry.shapes == [8, 4, 2, 2, 4, 2, 2]
    assert sum("out of memory" in record.message for record in caplog.records) == 1
    before = made.max_batch_tokens
    assert before < 8192, "the next call starts with what fits"
    made.answer(ask_all())
    assert sum("out of memory" in record.message for record in caplog.records) == 1


def test_a_row_too_large_for_memory_fails_alone():
    model = tiny_model()
    lengths = [len(tiny_tokenizer()(q).input_ids) for q in QUESTIONS]
    width = sorted(lengths)[5]
    Hungry(model, rows=8, width=width)
    found = generator(model).answer(ask_all())
    failed = [i for i, c in enumerate(found) if isinstance(c, Failure)]
    assert failed == [i for i, n in enumerate(lengths) if n > width]
    assert len(failed) == 2
    assert all(found[i].reason == "error" and "out of memory" in found[i].message for i in failed)


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    assert not is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
    model = tiny_model()
    Hungry(model, rows=0, error=lambda _: ValueError("something else"))
    with pytest.raises(ValueError, match="something else"):
        generator(model).answer([ask("and")])


def test_an_empty_prompt_and_an_impossible_limit_are_failures_of_their_row():
    found = generator().answer([ask(""), ask("and", max_new_tokens=0), ask("and")])
    assert [isinstance(c, Failure) for c in found] == [True, True, False]
    assert "empty" in found[0].message
    assert "max_new_tokens" in found[1].message


def test_the_context_is_the_models_unless_shortened():
    assert generator().context_length == 512
    assert generator(context_length=64).context_length == 64
    with pytest.raises(UsageError, match="--context-length is 513; expected at most 512"):
        generator(context_length=513)
