"""Votes from one forward pass: the right token of the right position, draws that company does not change, calibration."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from evoctx_kernels.sample_votes import reference
from tiny_lm import QUESTIONS, ask, completions, generator, outcome, roles, tiny_model, tiny_tokenizer

from evoctx_torch.errors import UsageError
from evoctx_torch.generation.scoring import label_tokens
from evoctx_torch.generation.settings import RoleSettings
from evoctx_torch.keys import row_seed
from evoctx_torch.operations import Failure, Pending, Score, Scored
from evoctx_torch.transcript import Prompt, Segment

OPTIONS = ("Tobin", "harbour")  # with a space before it, each is one token of the tiny vocabulary
WARM = roles(decider=RoleSettings(16, 0.7))
CONTENT_FREE = Prompt((Segment("N/A Answer:"),))


def vote(text: str, name: str = "q", number: int = 0, samples: int = 5, **how: object) -> Pending:
    return Pending(name, number, Score("decider", Prompt((Segment(text),)), OPTIONS, samples, **how))


def votes(**how: object) -> list[Pending]:
    return [vote(text, f"q{i}", **how) for i, text in enumerate(QUESTIONS)]


def drawn(results: list) -> list[tuple]:
    """What company may not change."""
    assert all(isinstance(r, Scored) for r in results), results
    return [(r.counts, r.completion) for r in results]


def by_hand(model: torch.nn.Module, text: str) -> torch.Tensor:
    """Log-probabilities of the options among themselves after a text, from the model and the vocabulary alone."""
    labels = tiny_tokenizer().convert_tokens_to_ids(["ĠTobin", "Ġharbour"])
    with torch.inference_mode():
        logits = model(torch.tensor([tiny_tokenizer()(text, add_special_tokens=False).input_ids])).logits[0, -1]
    return logits[labels].double().log_softmax(0)


def test_the_options_are_scored_where_the_prompt_ends():
    model = tiny_model()
    for pending, found in zip(votes(), generator(model, WARM).answer(votes()), strict=True):
        expected = by_hand(model, pending.operation.prompt.text)
        assert found.probabilities == pytest.approx(expected.exp().tolist(), abs=1e-5)
        seed = torch.tensor([row_seed(0, pending.question_id, 0)])
        votes_, majority = (reference(expected[None], seed, 5, torch.tensor([0.7]))[i][0].tolist() for i in (2, 4))
        assert found.counts == tuple(votes_) and found.majority == pytest.approx(majority[:2], abs=1e-5) and sum(found.counts) == 5
        tokens = len(tiny_tokenizer()(pending.operation.prompt.text).input_ids)
        assert (found.completion.text, found.completion.prompt_tokens, found.completion.completion_tokens) == ("", tokens, 0)


@pytest.mark.parametrize("max_batch_tokens", [60, 8192])
def test_company_changes_no_vote(max_batch_tokens):
    model = tiny_model()
    alone = [drawn(generator(model, WARM).answer([p]))[0] for p in votes()]
    together = generator(model, WARM, max_batch_tokens=max_batch_tokens).answer(votes())
    assert drawn(together) == alone
    assert drawn(generator(model, WARM).answer(votes()[::-1])) == alone[::-1]


def test_row_by_row_the_probabilities_have_the_same_bits():
    model = tiny_model()
    alone = [generator(model, WARM, canonical=True).answer([p])[0] for p in votes()]
    assert generator(model, WARM, canonical=True).answer(votes()[::-1]) == alone[::-1]


def test_scores_and_generations_share_a_batch_and_keep_their_order():
    model = tiny_model()
    mixed = [vote(QUESTIONS[0], "a"), ask(QUESTIONS[1], "b"), vote(QUESTIONS[2], "c", samples=3), ask(QUESTIONS[3], "d")]
    found = generator(model, WARM).answer(mixed)
    assert [type(r).__name__ for r in found] == ["Scored", "Completion", "Scored", "Completion"]
    assert [sum(r.counts) for r in found[::2]] == [5, 3]
    for pending, completion in zip(mixed[1::2], found[1::2], strict=True):
        assert outcome(completion) == outcome(completions(generator(model, WARM).answer([pending]))[0])


def test_draws_follow_the_probability_and_the_temperature():
    model = tiny_model(initializer_range=0.1)  # options of similar probability
    one = generator(model, WARM).answer([vote(QUESTIONS[0], f"q{i}") for i in range(400)])
    chance = torch.tensor(one[0].probabilities).log().div(0.7).softmax(0)[1].item()
    share = sum(r.counts[1] for r in one) / 2000
    assert 0.05 < chance < 0.95 and abs(share - chance) < 0.05
    assert len(Counter(r.counts for r in one)) > 3
    cold = generator(model, roles()).answer([vote(QUESTIONS[0], f"q{i}") for i in range(5)])
    best = max(range(2), key=cold[0].probabilities.__getitem__)
    assert all(r.counts[best] == 5 and r.majority[best] == 1 for r in cold)
    assert generator(model, WARM).answer([vote(QUESTIONS[0], number=1)])[0].probabilities == pytest.approx(one[0].probabilities, abs=1e-6)


def test_calibration_takes_off_what_the_model_prefers_without_content():
    model = tiny_model()
    answers = generator(model, WARM)
    (plain,), (found,) = answers.answer([vote(QUESTIONS[0])]), answers.answer([vote(QUESTIONS[0], baseline=CONTENT_FREE)])
    expected = (by_hand(model, QUESTIONS[0]) - by_hand(model, CONTENT_FREE.text)).softmax(0)
    assert found.probabilities == pytest.approx(expected.tolist(), abs=1e-5) != pytest.approx(plain.probabilities, abs=1e-3)
    (level,) = answers.answer([vote(CONTENT_FREE.text, baseline=CONTENT_FREE)])
    assert level.probabilities == pytest.approx((0.5, 0.5), abs=1e-5)


def labels(text: str, *options: str) -> tuple[list[str], list[str]]:
    """What the options share after a text, and what tells them apart, as texts."""
    tokenizer = tiny_tokenizer()
    found = label_tokens(tokenizer, tokenizer(text, add_special_tokens=False).input_ids, options)
    return tuple([tokenizer.decode([token]) for token in tokens] for tokens in found)


def test_the_first_token_that_differs_stands_for_an_option():
    assert labels("Vote:", *OPTIONS) == ([], [" Tobin", " harbour"])
    assert labels("Vote:\n", *OPTIONS) == labels("<|assistant|>", *OPTIONS) == ([], ["To", "har"])
    assert labels("<|assistant|>", "bridge", "built") == (["b"], ["rid", "uil"])


def test_what_all_options_begin_with_is_put_after_the_prompt():
    model, tokenizer = tiny_model(), tiny_tokenizer()
    asked = replace(vote("The\n").operation, options=("bridge", "built"))
    found, cut = generator(model, WARM).answer([Pending("q", 0, asked)]), tokenizer.convert_tokens_to_ids(["rid", "uil"])
    with torch.inference_mode():
        logits = model(torch.tensor([tokenizer("The\nb", add_special_tokens=False).input_ids])).logits[0, -1]
    assert found[0].probabilities == pytest.approx(logits[cut].softmax(0).tolist(), abs=1e-5)
    assert found[0].completion.prompt_tokens == len(tokenizer("The\nb").input_ids)


@pytest.mark.parametrize("options", [("in", "into"), ("Tobin", "Tobin"), ("bridge", "built", "Tobin")])
def test_options_that_cannot_be_told_apart_are_refused(options):
    with pytest.raises(UsageError, match="cannot score votes: its tokens do not tell"):
        generator().check(Score("decider", Prompt((Segment("Vote:\n"),)), options))
    generator().check(Score("decider", Prompt((Segment("Vote:"),)), OPTIONS))


def test_the_oldest_passages_are_dropped_and_a_row_that_does_not_fit_fails_alone():
    passages = tuple(Segment(f"Passage {i}: the bridge over the river. " * 4, passage_id=f"p{i}") for i in range(8))
    long = replace(vote("Vote:").operation, prompt=Prompt((*passages, Segment("Vote:"))))
    huge = replace(long, prompt=Prompt((Segment("word " * 400), Segment("Vote:"))))
    cut, lost, fine = generator(settings=WARM, context_length=200).answer([Pending("a", 0, long), Pending("b", 0, huge), vote("Vote:")])
    assert cut.completion.dropped[0] == "p0" and cut.completion.prompt_tokens <= 199 and sum(cut.counts) == 5
    assert isinstance(lost, Failure) and lost.reason == "over_length" and sum(fine.counts) == 5


def test_nan_fails_its_row_and_running_out_of_memory_only_halves(monkeypatch):
    model = tiny_model()
    answers, run = generator(model, WARM), type(generator(model))._run

    def small(self, requests, *rest):
        if len(requests) > 2:
            raise torch.OutOfMemoryError("out of memory")
        run(self, requests, *rest)
    monkeypatch.setattr(type(answers), "_run", small)
    assert drawn(answers.answer(votes())) == drawn(generator(model, WARM, canonical=True).answer(votes()))
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    (failed,) = answers.answer([vote("Vote:")])
    assert isinstance(failed, Failure) and "NaN logits" in failed.message
