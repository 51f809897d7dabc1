"""sample_votes: known bits, the distribution it claims, exact outcome probabilities, independence of company."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
import torch
from evoctx_kernels.majority_vote import ABSTAIN, LOWEST, majority_vote
from evoctx_kernels.sample_votes import majority_probability, reference, sample_votes
from evoctx_kernels.sample_votes.cpu import vectorized
from evoctx_kernels.sample_votes.reference import majority_probability as enumerated
from hypothesis import given, settings
from hypothesis import strategies as st
from vote_cases import assert_same_samples, logits_and_seeds, same_bits, strange_logits

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    """SplitMix64's finalizer in Python's unbounded integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_votes_are_those_of_the_formula():
    logits, seeds, _ = logits_and_seeds(40, 3)
    votes = sample_votes(logits, seeds, 20, temperature=0.7).votes
    for row, seed, x in zip(votes.tolist(), seeds.tolist(), (logits.double() / 0.7).softmax(1).tolist(), strict=True):
        key = mix((seed + GOLDEN) & MASK)
        uniforms = [((mix((key + (vote + 1) * GOLDEN) & MASK) >> 12) + 0.5) * 2.0**-52 for vote in range(20)]
        assert row == [int(u >= x[0]) + int(u >= x[0] + x[1]) for u in uniforms]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(
    ("rows", "k", "options"), [(1, 1, 1), (1, 3, 1), (2, 5, 2), (5, 4, 3), (33, 6, 2), (5, 9, 4), (2, 64, 2), (2, 12, 5)]
)
def test_vectorized_is_the_reference(rows, k, options, dtype):
    logits, seeds, temperature = logits_and_seeds(rows, options)
    for tie in (LOWEST, ABSTAIN, 0, options - 1):
        args = (logits.to(dtype), seeds, k, temperature, tie)
        assert_same_samples(vectorized(*args), reference(*args))


def test_the_majority_is_that_of_majority_vote():
    logits, seeds, _ = logits_and_seeds(50, 3)
    for tie in ("lowest", "abstain", 1):
        got = sample_votes(logits, seeds, 6, tie=tie)
        assert same_bits((got.winner, got.counts, got.margin), majority_vote(got.votes, 3, tie=tie))


class TestDistribution:
    def test_votes_follow_the_softmax(self):
        logits = torch.tensor([[1.0, 0.3, -1.0, -2.0]]).expand(20_000, 4)
        votes = sample_votes(logits, torch.arange(20_000), 2, temperature=1.3).votes
        expected = (logits[0].double() / 1.3).softmax(0).numpy()
        for column in votes.T:  # neighbouring seeds, the same counter
            assert scipy.stats.chisquare(torch.bincount(column, minlength=4).numpy(), expected * 20_000).pvalue > 1e-3
        pairs = torch.bincount(votes[:, 0] * 4 + votes[:, 1], minlength=16).numpy()  # two votes of a row are independent
        assert scipy.stats.chisquare(pairs, np.outer(expected, expected).ravel() * 20_000).pvalue > 1e-3

    @pytest.mark.parametrize("tie", ["lowest", "abstain", 2])
    def test_winners_follow_the_probability(self, tie):
        logits = torch.tensor([[0.4, 0.3, 0.0]]).expand(20_000, 3)
        got = sample_votes(logits, torch.arange(20_000), 5, tie=tie)
        expected = got.probability[0].numpy()
        counts = torch.bincount(torch.where(got.winner < 0, 3, got.winner), minlength=4).numpy()
        kept = expected > 0
        assert (counts[~kept] == 0).all()
        assert scipy.stats.chisquare(counts[kept], expected[kept] / expected.sum() * 20_000).pvalue > 1e-3


class TestProbability:
    @pytest.mark.parametrize("k", [1, 2, 5, 8, 64])
    def test_two_options_are_a_binomial(self, k):
        p = torch.tensor([0.0, 1e-9, 0.2, 0.5, 0.77, 1.0], dtype=torch.float64)
        got = majority_probability(torch.stack((p, 1 - p), 1), k, ABSTAIN)
        tie = scipy.stats.binom.pmf(k // 2, k, p) * (k % 2 == 0)
        np.testing.assert_allclose(got[:, 0], scipy.stats.binom.sf(k // 2, k, p), rtol=1e-11, atol=1e-300)
        np.testing.assert_allclose(got[:, 2], tie, rtol=1e-11, atol=1e-300)
        np.testing.assert_allclose(got.sum(1), 1, rtol=1e-13)

    @pytest.mark.parametrize(("k", "options"), [(7, 3), (6, 3), (10, 4), (9, 8), (64, 3), (33, 4)])
    def test_all_count_vectors_written_out(self, k, options):
        chances = torch.rand(2, options, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) ** 4
        chances[1, 0] = 0
        chances /= chances.sum(1, keepdim=True)
        for tie in (LOWEST, ABSTAIN, options - 1):
            expected = torch.tensor([enumerated(row, k, tie) for row in chances.tolist()], dtype=torch.float64)
            torch.testing.assert_close(majority_probability(chances, k, tie), expected, rtol=1e-12, atol=0)

    def test_rational_arithmetic(self):
        """Three options with chances 1/2, 1/3, 1/6 and four votes, by hand."""
        p, q, r = Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)
        clear = [x**4 + 4 * x**3 * (1 - x) + 12 * x**2 * y * z for x, y, z in ((p, q, r), (q, p, r), (r, p, q))]
        ties = [6 * p**2 * q**2 + 6 * p**2 * r**2, 6 * q**2 * r**2]
        assert sum(clear) + sum(ties) == 1
        chances = torch.tensor([[p, q, r]], dtype=torch.float64)
        for tie, expected in (
            (LOWEST, [clear[0] + ties[0], clear[1] + ties[1], clear[2], 0]),
            (ABSTAIN, [*clear, sum(ties)]),
            (1, [clear[0], clear[1] + sum(ties), clear[2], 0]),
        ):
            np.testing.assert_allclose(majority_probability(chances, 4, tie)[0], [float(x) for x in expected], rtol=1e-14)

    def test_the_largest_case(self):
        chances = torch.rand(2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
        chances /= chances.sum(1, keepdim=True)
        chances[1] = 1 / 8
        got = majority_probability(chances, 64, ABSTAIN)
        np.testing.assert_allclose(got.sum(1), 1, rtol=1e-12)
        np.testing.assert_allclose(got[1, :8], got[1, 0], rtol=1e-12)
        order = [3, 1, 7, 0, 2, 6, 5, 4]
        np.testing.assert_allclose(majority_probability(chances[:, order], 64, ABSTAIN)[:, :8], got[:, order], rtol=1e-12)
        draws = np.random.default_rng(0).multinomial(64, chances[0].numpy(), 40_000)
        top = np.sort(draws, 1)
        decided, leaders = top[:, -1] > top[:, -2], draws.argmax(1)
        counts = np.append(np.bincount(leaders[decided], minlength=8), (~decided).sum())
        assert scipy.stats.chisquare(counts, got[0].numpy() * 40_000).pvalue > 1e-3

    def test_rare_outcomes_keep_their_digits(self):
        chances = torch.tensor([[1 - 3e-30, 2e-30, 1e-30]], dtype=torch.float64)
        got = majority_probability(chances, 4, ABSTAIN)[0]
        three, two_and_one = [4 * 8e-90, 4 * 1e-90], [12 * 4e-60 * 1e-30, 12 * 1e-60 * 2e-30]
        np.testing.assert_allclose(got[1:], [*np.add(three, two_and_one), 6 * (4e-60 + 1e-60)], rtol=1e-12)

    @pytest.mark.parametrize(("k", "options", "tie"), [(5, 2, LOWEST), (4, 3, ABSTAIN), (6, 4, 1)])
    def test_gradients(self, k, options, tie):
        logits = torch.randn(3, options, dtype=torch.float64, generator=torch.Generator().manual_seed(k), requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: majority_probability((x / 0.7).softmax(1), k, tie), (logits,))

    def test_the_operator_gives_no_silent_gradient(self):
        logits, seeds, _ = logits_and_seeds(2, 2)
        probability = sample_votes(logits.requires_grad_(), seeds, 3).probability
        with pytest.raises(RuntimeError, match="autograd"):
            probability.sum().backward()


class TestCompany:
    def test_a_row_has_the_same_bits_alone_and_in_any_batch(self):
        for options, k in ((2, 5), (3, 6), (8, 9)):
            logits, seeds, temperature = logits_and_seeds(37, options)
            together = sample_votes(logits, seeds, k, temperature=temperature)
            order = torch.randperm(37, generator=torch.Generator().manual_seed(2))
            shuffled = sample_votes(logits[order], seeds[order], k, temperature=temperature[order])
            assert same_bits(shuffled, [x[order] for x in together])
            for b in range(0, 37, 4):
                alone = sample_votes(logits[b : b + 1], seeds[b : b + 1], k, temperature=temperature[b].item())
                assert same_bits(alone, [x[b : b + 1] for x in together])

    def test_the_first_votes_are_the_same_for_every_k(self):
        logits, seeds, _ = logits_and_seeds(9, 3)
        longest = sample_votes(logits, seeds, 64).votes
        assert all(torch.equal(sample_votes(logits, seeds, k).votes, longest[:, :k]) for k in (1, 5, 33))

    def test_other_rows_with_trouble_change_nothing(self):
        logits, seeds, temperature, good = strange_logits()
        got, kept = sample_votes(logits, seeds, 6, temperature=temperature), torch.tensor(good)
        assert same_bits([x[kept] for x in got], sample_votes(logits[kept], seeds[kept], 6, temperature=temperature[kept]))


@pytest.mark.parametrize("path", [reference, vectorized])
def test_rows_that_cannot_be_sampled_are_flagged(path):
    logits, seeds, temperature, good = strange_logits()
    got = path(logits, seeds, 6, temperature, LOWEST)
    assert (got.winner >= 0).tolist() == good
    assert (~got.probability.isnan()).all(1).tolist() == good
    bad = ~torch.tensor(good)
    assert (got.votes[bad] == -1).all()
    assert got.probability[bad].isnan().all()
    assert (got.counts[bad] == 0).all() and (got.margin[bad] == 0).all()
    assert got.votes[5].tolist() == [1] * 6  # impossible options are never drawn
    assert got.probability[5].tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("path", [reference, vectorized])
def test_without_temperature_all_vote_for_the_lowest_of_the_highest(path):
    logits = torch.tensor([[0.0, 2.0, 2.0], [-torch.inf, -5.0, -6.0]])
    got = path(logits, torch.tensor([1, 2]), 4, torch.zeros(1, dtype=torch.float64), ABSTAIN)
    assert got.votes.tolist() == [[1] * 4] * 2
    assert got.margin.tolist() == [4, 4]
    assert got.probability.tolist() == [[0, 1, 0, 0]] * 2


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-30, 30), min_size=1, max_size=5), st.integers(1, 9), st.floats(0.01, 50), st.sampled_from(["lowest", "abstain", 0])
)
def test_laws(row, k, temperature, tie):
    logits = torch.tensor([row], dtype=torch.float64)
    got = sample_votes(logits, torch.tensor([5]), k, temperature=temperature, tie=tie)
    assert got.counts.sum() == k
    assert math.isclose(got.probability.sum(), 1, rel_tol=1e-13)
    assert (got.probability >= 0).all()
    best = int(logits.argmax())
    strict = sample_votes(logits, torch.tensor([5]), k, temperature=temperature, tie="abstain").probability[0]
    assert strict[best] >= strict[: len(row)].max() * (1 - 1e-12), "the likeliest option is the likeliest winner"
    assert same_bits(sample_votes(logits + 4, torch.tensor([5]), k, temperature=temperature, tie=tie)[1:4], got[1:4])


def test_strides_and_an_empty_batch():
    logits, seeds, temperature = logits_and_seeds(4, 3)
    wide = torch.stack((seeds, seeds + 1), 1)[:, 0]
    expected = sample_votes(logits, seeds, 5, temperature=temperature)
    assert same_bits(sample_votes(logits.T.contiguous().T, wide, 5, temperature=temperature), expected)
    for empty in (sample_votes(logits[:0], seeds[:0], 5), reference(logits[:0], seeds[:0], 5, temperature[:0])):
        assert [x.shape for x in empty] == [(0, 5), (0,), (0, 3), (0,), (0, 4)]
        assert [x.dtype for x in empty] == [x.dtype for x in expected]


class TestRegistration:
    def test_opcheck(self):
        logits, seeds, temperature = logits_and_seeds(3, 3)
        for heat in (temperature, temperature[:1]):
            for tie in (LOWEST, ABSTAIN, 1):
                results = torch.library.opcheck(torch.ops.evoctx.sample_votes.default, (logits, seeds, 4, heat, tie))
                assert set(results.values()) == {"SUCCESS"}

    def test_compiles_whole_and_for_any_shape(self):
        compiled = torch.compile(sample_votes, fullgraph=True, dynamic=True, backend="aot_eager")
        for rows, options, k, temperature in ((3, 2, 5, 0.7), (1, 4, 4, 1.0), (7, 3, 9, 0.0)):
            logits, seeds, by_row = logits_and_seeds(rows, options)
            for heat in (temperature, by_row):
                assert same_bits(compiled(logits, seeds, k, temperature=heat), sample_votes(logits, seeds, k, temperature=heat))

    def test_exports(self):
        class Vote(torch.nn.Module):
            def forward(self, logits, seeds):
                return tuple(sample_votes(logits, seeds, 5, tie=0))

        logits, seeds, _ = logits_and_seeds(4, 2)
        rows = torch.export.Dim("rows")
        program = torch.export.export(Vote(), (logits, seeds), dynamic_shapes=({0: rows}, {0: rows}))
        logits, seeds, _ = logits_and_seeds(9, 2)
        assert same_bits(program.module()(logits, seeds), sample_votes(logits, seeds, 5, tie=0))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"logits": torch.zeros(3)}, ValueError, r"logits: expected \[B, O\], got \[3\]"),
        ({"logits": torch.zeros(2, 9)}, ValueError, r"logits: expected \[B, O\] with O from 1 to 8, got \[2, 9\]"),
        ({"logits": torch.zeros(2, 3).long()}, TypeError, "logits: expected float32, float16, bfloat16 or float64, got torch.int64"),
        ({"seeds": torch.zeros(3).long()}, ValueError, r"seeds: expected \[2\], got \[3\]"),
        ({"seeds": torch.zeros(2)}, TypeError, "seeds: expected torch.int64, got torch.float32"),
        ({"k": 0}, ValueError, "k: expected 1 to 64 votes, got 0"),
        ({"k": 65}, ValueError, "k: expected 1 to 64 votes, got 65"),
        ({"temperature": -0.5}, ValueError, "temperature: expected a finite number of at least 0, got -0.5"),
        ({"temperature": math.nan}, ValueError, "temperature: .* got nan"),
        ({"temperature": torch.ones(3)}, ValueError, r"temperature: expected a float or \[2\], got \[3\]"),
        ({"temperature": torch.ones(2).long()}, TypeError, "temperature: expected a floating dtype, got torch.int64"),
        ({"tie": 3}, ValueError, r"tie: expected an option in \[0, 3\), 'lowest' or 'abstain', got 3"),
    ],
)
def test_wrong_input_is_refused(change, error, words):
    inputs = {"logits": torch.zeros(2, 3), "seeds": torch.zeros(2).long(), "k": 5}
    sample_votes(**inputs)
    with pytest.raises(error, match=f"sample_votes: {words}"):
        sample_votes(**{**inputs, **change})
