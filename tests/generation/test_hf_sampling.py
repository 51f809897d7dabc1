"""Row-keyed choice of tokens, without a model."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evoctx_torch.generation.sampling import RowSampler, nucleus

VOCAB = 50


def logits(rows: int, seed: int = 0, vocab: int = VOCAB) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 3


def choose(sampler: RowSampler, scores: torch.Tensor) -> list[int]:
    return sampler(torch.zeros(len(scores), 1, dtype=torch.long), scores).argmax(-1).tolist()


def nucleus_by_hand(row: list[float], top_p: float) -> set[int]:
    """The definition: add tokens by falling probability until their mass reaches top_p."""
    probability = torch.tensor(row, dtype=torch.float64).softmax(-1).tolist()
    kept, mass = set(), 0.0
    for token in sorted(range(len(row)), key=lambda i: (-probability[i], i)):
        if mass >= top_p:
            break
        kept.add(token)
        mass += probability[token]
    return kept


@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.1, 1.0, 4.0]), top_ps=st.lists(st.floats(0.05, 0.999), min_size=1, max_size=4))
@settings(deadline=None, max_examples=60)
def test_nucleus_is_its_definition(seed, scale, top_ps):
    scores = logits(len(top_ps), seed) * scale
    kept = nucleus(scores, torch.tensor(top_ps)[:, None])
    for row, top_p, found in zip(scores.tolist(), top_ps, kept, strict=True):
        # float32 sums may disagree with float64 ones by a token whose mass is at the edge
        expected = {frozenset(nucleus_by_hand(row, top_p + d)) for d in (-1e-5, 0.0, 1e-5)}
        assert frozenset(found.isfinite().nonzero().flatten().tolist()) in expected
        assert torch.equal(found[found.isfinite()], torch.tensor(row)[found.isfinite()])


def test_nucleus_takes_equal_probabilities_in_the_order_of_their_ids():
    kept = nucleus(torch.zeros(1, 8), torch.tensor([[0.5]]))
    assert kept.isfinite().nonzero()[:, 1].tolist() == [0, 1, 2, 3]


def test_nucleus_of_a_row_does_not_depend_on_the_others():
    scores, top_p = logits(6), torch.tensor([[0.3], [1.0], [0.99], [0.7], [1.0], [0.05]])
    together = nucleus(scores, top_p)
    for i in range(6):
        assert torch.equal(together[i], nucleus(scores[i:i + 1], top_p[i:i + 1])[0])
    assert torch.equal(together[[1, 4]], scores[[1, 4]])


def test_greedy_is_argmax_and_logprob_is_log_softmax():
    scores = logits(5)
    sampler = RowSampler([0] * 5, [0.0] * 5, [1.0] * 5, "cpu")
    assert choose(sampler, scores) == scores.argmax(-1).tolist()
    torch.testing.assert_close(sampler.logprob, scores.log_softmax(-1).max(-1).values)


def test_samples_follow_the_tempered_distribution_and_logprobs_the_raw_one():
    """4,000 rows of one distribution; the chi-square bound of 11 tokens (10 degrees of freedom) at p = 1e-6 is 48.6."""
    rows, temperature = 4000, 0.7
    row = logits(1, seed=4, vocab=11) / 2
    scores = row.repeat(rows, 1)
    sampler = RowSampler(list(range(rows)), [temperature] * rows, [1.0] * rows, "cpu")
    chosen = torch.tensor(choose(sampler, scores))
    expected = (row[0] / temperature).softmax(-1) * rows
    found = torch.bincount(chosen, minlength=11)
    assert ((found - expected) ** 2 / expected).sum() < 48.6
    torch.testing.assert_close(sampler.logprob, row[0].log_softmax(-1)[chosen])


def test_samples_stay_inside_the_nucleus():
    rows = 500
    scores = logits(1, seed=2).repeat(rows, 1) / 3
    sampler = RowSampler(list(range(rows)), [1.0] * rows, [0.6] * rows, "cpu")
    chosen = set(choose(sampler, scores))
    assert chosen <= nucleus_by_hand(scores[0].tolist(), 0.6)
    assert len(chosen) > 3


def test_steps_differ_and_rows_are_keyed_by_seed_not_by_place():
    scores, seeds = torch.zeros(4, VOCAB), [7, 8, 9, 7]
    sampler = RowSampler(seeds, [1.0] * 4, [1.0] * 4, "cpu")
    steps = [choose(sampler, scores) for _ in range(6)]
    assert all(step[0] == step[3] for step in steps)
    assert len({step[0] for step in steps}) > 2
    alone = RowSampler([9], [1.0], [1.0], "cpu")
    assert [choose(alone, scores[:1])[0] for _ in range(6)] == [step[2] for step in steps]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_without_a_distribution_has_a_nan_logprob(bad, temperature):
    scores = logits(3)
    scores[1, 4] = bad
    sampler = RowSampler([0, 1, 2], [temperature] * 3, [0.9] * 3, "cpu")
    choose(sampler, scores)
    assert sampler.logprob.isnan().tolist() == [False, True, False]


def test_a_masked_vocabulary_is_a_distribution():
    scores = logits(2)
    scores[:, 10:] = -torch.inf
    sampler = RowSampler([0, 1], [1.0, 0.0], [0.9, 1.0], "cpu")
    assert all(token < 10 for token in choose(sampler, scores))
    assert sampler.logprob.isfinite().all()
