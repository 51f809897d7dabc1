"""Every row as if it were alone: in any batch, order and micro-batch, greedy or sampled."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny_lm import QUESTIONS, ask, ask_all, completions, generator, outcome, roles, tiny_model, tiny_tokenizer

from evoctx_torch.generation.hf import HFGenerator, load_hf_generator
from evoctx_torch.generation.settings import RoleSettings
from evoctx_torch.keys import row_seed

SETTINGS = {"greedy": roles(16), "sampled": roles(16, temperature=0.9), "nucleus": roles(16, temperature=1.0, top_p=0.8)}


@pytest.fixture(scope="module", params=["built", "tiny-llama"])
def model_and_tokenizer(request: pytest.FixtureRequest) -> tuple:
    if request.param == "built":
        return tiny_model(), tiny_tokenizer()
    folder = request.getfixturevalue("shared") / "models" / "tiny-llama"
    made = load_hf_generator(str(folder), device="cpu", dtype="float32")
    return made.model, made.tokens.tokenizer


@pytest.mark.parametrize("kind", SETTINGS)
def test_text_is_the_same_alone_and_in_any_batch(model_and_tokenizer, kind):
    pending = ask_all()
    made = HFGenerator(*model_and_tokenizer, SETTINGS[kind], seed=3)
    alone = [made.answer([item])[0] for item in pending]
    assert len({c.text for c in alone}) > 4, "rows must differ for a mix-up to show"
    for batch in (1, 2, 3, 8):
        together = [c for i in range(0, 8, batch) for c in made.answer(pending[i:i + batch])]
        assert [outcome(c) for c in together] == [outcome(c) for c in alone], batch
        for one, other in zip(alone, together, strict=True):
            assert other.logprobs == pytest.approx(one.logprobs, abs=1e-4)
    backwards = made.answer(pending[::-1])[::-1]
    assert [outcome(c) for c in backwards] == [outcome(c) for c in alone]


def test_micro_batches_and_canonical_shapes_change_nothing():
    pending = ask_all(role="generator")
    whole = [outcome(c) for c in generator(settings=SETTINGS["sampled"]).answer(pending)]
    for options in ({"max_batch_tokens": 100}, {"max_batch_tokens": 1}, {"canonical": True}):
        assert [outcome(c) for c in generator(settings=SETTINGS["sampled"], **options).answer(pending)] == whole, options


def test_canonical_generates_row_by_row(monkeypatch):
    made, shapes = generator(canonical=True), []
    forward = made.model.generate
    monkeypatch.setattr(made.model, "generate", lambda **given: shapes.append(given["input_ids"].shape[0]) or forward(**given))
    made.answer(ask_all())
    assert shapes == [1] * 8


def test_the_same_call_gives_the_same_tokens():
    first, again = (generator(settings=SETTINGS["sampled"], seed=1).answer(ask_all()) for _ in range(2))
    assert first == again


def test_each_part_of_the_key_changes_a_sample():
    settings, text = SETTINGS["sampled"], QUESTIONS[0]
    asked = [(1, ask(text, "a")), (2, ask(text, "a")), (1, ask(text, "b")), (1, ask(text, "a", number=1))]
    texts = [completions(generator(settings=settings, seed=seed).answer([item]))[0].text for seed, item in asked]
    assert len(set(texts)) == 4
    assert len({row_seed(1, "a", 0), row_seed(2, "a", 0), row_seed(1, "b", 0), row_seed(1, "a", 1)}) == 4


def test_greedy_rows_do_not_notice_sampled_ones():
    settings = roles(12, warm=RoleSettings(12, 1.0, 0.9))
    made = generator(settings=settings)
    pending = [ask(text, f"q{i}", role=("warm", "generator")[i % 2]) for i, text in enumerate(QUESTIONS)]
    mixed = [outcome(c) for c in made.answer(pending)]
    assert mixed == [outcome(made.answer([item])[0]) for item in pending]
    greedy = generator(settings=roles(12)).answer(ask_all())
    assert [mixed[i] == outcome(greedy[i]) for i in range(8)] == [False, True] * 4


@pytest.mark.parametrize("kind", ["greedy", "nucleus"])
def test_logprobs_are_those_of_teacher_forcing(kind):
    """Under the raw logits, whatever was sampled from: one forward pass over prompt and completion gives the same."""
    made = generator(settings=SETTINGS[kind])
    for item, completion in zip(ask_all(), completions(made.answer(ask_all())), strict=True):
        prompt, _ = made.tokens.encode(item.operation.prompt, 400)
        ids = torch.tensor([[*prompt, *completion.token_ids]])
        with torch.inference_mode():
            logprobs = made.model(ids).logits[0].log_softmax(-1)
        expected = [logprobs[len(prompt) - 1 + i, token].item() for i, token in enumerate(completion.token_ids)]
        assert completion.logprobs == pytest.approx(expected, abs=1e-4)


def test_pieces_are_given_where_they_are_asked_for_and_change_nothing():
    without = completions(generator().answer(ask_all(stop=(" the",))))
    asked = completions(generator().answer([p._replace(operation=replace(p.operation, pieces=i % 2 == 0)) for i, p in enumerate(ask_all(stop=(" the",)))]))
    assert [outcome(c) for c in asked] == [outcome(c) for c in without]
    assert [c.pieces is None for c in asked] == [False, True] * 4
    for completion in asked[::2]:
        whole = "".join(completion.pieces)
        assert len(completion.pieces) == len(completion.token_ids) == len(completion.logprobs)
        assert whole.startswith(completion.text)
        assert (completion.stopped_by or "") in whole[len(completion.text):]


def test_each_row_has_its_own_limit():
    made = generator(settings=roles(9, short=RoleSettings(4)))
    limits = [1, 2, 5, 30]
    pending = [ask(text, max_new_tokens=n) for text, n in zip(QUESTIONS, limits, strict=False)]
    found = completions(made.answer([*pending, ask(QUESTIONS[4], role="short"), ask(QUESTIONS[5])]))
    assert [c.completion_tokens for c in found] == [*limits, 4, 9]
    assert {c.finish_reason for c in found} == {"length"}
    longest = completions(made.answer([ask(QUESTIONS[0], max_new_tokens=30)]))[0]
    assert longest.token_ids[0] == found[0].token_ids[0]


def test_counts_add_up():
    for item, c in zip(ask_all(), completions(generator().answer(ask_all())), strict=True):
        assert c.prompt_tokens == c.computed_prompt_tokens == len(tiny_tokenizer()(item.operation.prompt.text).input_ids)
        assert c.completion_tokens == len(c.token_ids) == len(c.logprobs)


def test_the_checkpoints_own_decoding_defaults_are_not_used():
    plain = completions(generator().answer(ask_all()))
    model = tiny_model()
    model.generation_config.update(repetition_penalty=1.8, do_sample=True, temperature=3.0, max_length=5, no_repeat_ngram_size=2)
    before = model.generation_config.to_dict()
    assert generator(model).answer(ask_all()) == plain
    assert model.generation_config.to_dict() == before, "the caller's model was changed"


def test_nothing_to_do():
    assert generator().answer([]) == []
