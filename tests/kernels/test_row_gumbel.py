"""row_gumbel: known bits, independence of company, and the distribution it claims."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from evoctx_kernels.row_gumbel import row_gumbel

MASK = (1 << 64) - 1


def mix(z: int) -> int:
    """SplitMix64's finalizer in Python's unbounded integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def noise(seed: int, step: int, token: int) -> float:
    golden = 0x9E3779B97F4A7C15
    key = mix((seed + (step + 1) * golden) & MASK)
    h = mix((key + (token + 1) * golden) & MASK)
    return -math.log(-math.log(((h >> 41) + 0.5) * 2.0**-23))


def test_the_bits_are_those_of_the_formula():
    seeds = [0, 1, 12345, 2**63 - 1]
    for step in (0, 1, 7, 4096):
        got = row_gumbel(torch.tensor(seeds), step, 50)
        expected = [[noise(seed, step, token) for token in range(50)] for seed in seeds]
        np.testing.assert_allclose(got.numpy(), expected, rtol=2e-6, atol=2e-6)
    assert mix(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF  # first output of SplitMix64 seeded with 0


@pytest.mark.parametrize("vocab", [1, 7, 1000, 50257])
def test_a_row_has_the_same_bits_alone_and_in_any_batch(vocab):
    seeds = torch.randint(0, 2**63 - 1, (7,), generator=torch.Generator().manual_seed(0))
    steps = torch.tensor([0, 3, 3, 1, 900, 2, 0])
    together = row_gumbel(seeds, steps, vocab)
    for b in range(7):
        assert torch.equal(row_gumbel(seeds[b : b + 1], int(steps[b]), vocab)[0], together[b])
    assert torch.equal(row_gumbel(seeds.flip(0), steps.flip(0), vocab).flip(0), together)
    assert torch.equal(row_gumbel(seeds, 3, vocab)[1:3], together[1:3])
    shorter = row_gumbel(seeds, steps, max(1, vocab - 3))
    assert torch.equal(shorter, together[:, : shorter.shape[1]]), "a token's noise depends on the size of the vocabulary"


def test_distribution_is_gumbel():
    values = row_gumbel(torch.arange(40), 5, 5000)
    assert values.isfinite().all()
    assert values.dtype == torch.float32
    assert values.min() > -2.83
    assert values.max() < 16.65
    assert scipy.stats.kstest(values.flatten().double().numpy(), "gumbel_r").pvalue > 1e-3
    across_seeds = row_gumbel(torch.arange(20000), 0, 1).flatten()  # neighbouring seeds are independent too
    assert scipy.stats.kstest(across_seeds.double().numpy(), "gumbel_r").pvalue > 1e-3
    across_steps = row_gumbel(torch.full((20000,), 77), torch.arange(20000), 1).flatten()
    assert scipy.stats.kstest(across_steps.double().numpy(), "gumbel_r").pvalue > 1e-3
    assert abs(np.corrcoef(across_steps[1:], across_steps[:-1])[0, 1]) < 0.03


def test_argmax_samples_the_softmax():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, -3.0])
    draws = 40000
    tokens = (logits + row_gumbel(torch.arange(draws), 11, 5)).argmax(1)
    counts = torch.bincount(tokens, minlength=5).double().numpy()
    assert scipy.stats.chisquare(counts, (logits.double().softmax(0) * draws).numpy()).pvalue > 1e-3


def test_the_seeds_are_left_as_they_were():
    seeds = torch.tensor([5, 6])
    row_gumbel(seeds, torch.tensor([1, 2]), 9)
    assert seeds.tolist() == [5, 6]


def test_empty_batch():
    assert row_gumbel(torch.zeros(0, dtype=torch.int64), 0, 9).shape == (0, 9)


def test_wrong_input_is_refused():
    with pytest.raises(TypeError, match=r"seeds: expected torch.int64, got torch.float32"):
        row_gumbel(torch.zeros(2), 0, 9)
    with pytest.raises(ValueError, match=r"seeds: expected \[B\], got \[1, 2\]"):
        row_gumbel(torch.zeros(1, 2).long(), 0, 9)
    with pytest.raises(ValueError, match=r"step: expected an int or \[2\], got \[3\]"):
        row_gumbel(torch.zeros(2).long(), torch.zeros(3).long(), 9)
    with pytest.raises(ValueError, match=r"vocab: expected a size from 1 to \d+, got 0"):
        row_gumbel(torch.zeros(2).long(), 0, 0)
