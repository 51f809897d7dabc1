"""sample_votes' Triton kernel in the interpreter: votes of the reference, exact probabilities, edges, no company."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from evoctx_kernels import hashing, hashing_triton
from evoctx_kernels.majority_vote import ABSTAIN, LOWEST
from evoctx_kernels.sample_votes import reference
from evoctx_kernels.sample_votes.cpu import vectorized
from evoctx_kernels.sample_votes.reference import SampledVotes
from evoctx_kernels.sample_votes.triton_kernel import launch
from vote_cases import assert_same_samples, logits_and_seeds, same_bits, strange_logits

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy speaks where infinity is what we test


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """Outputs hold an impossible number before the kernel writes them."""
    fresh = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *a, **k: fresh(*a, **k).fill_(-99))


@triton.jit
def bits(seeds, keys, uniforms, upper, step, N: tl.constexpr):
    row = tl.program_id(0)
    counter = tl.arange(0, N)
    key = hashing_triton.row_keys(tl.load(seeds + row), tl.full((), 0, tl.int64) + step)
    tl.store(keys + row, key.to(tl.int64, bitcast=True))
    tl.store(uniforms + row * N + counter, hashing_triton.uniforms(key, counter))
    tl.store(upper + row * N + counter, (hashing_triton.scramble(hashing_triton.counted(key, counter)) >> 33).to(tl.int64))


@pytest.mark.parametrize("step", [0, 7, 4096])
def test_the_hash_is_that_of_torch(step):
    seeds = torch.tensor([0, 1, 12345, 2**63 - 1])
    keys, uniforms, upper = seeds.clone(), torch.zeros(4, 64, dtype=torch.float64), torch.zeros(4, 64, dtype=torch.int64)
    bits[(4,)](seeds, keys, uniforms, upper, step, 64)
    assert torch.equal(keys, hashing.row_keys(seeds, step))
    assert torch.equal(uniforms, hashing.uniforms(seeds, 64, step))
    counters = torch.arange(1, 65) * hashing.GOLDEN
    assert torch.equal(upper, hashing.upper_bits(hashing.scramble(keys[:, None] + counters), 31))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(("rows", "k", "options"), [(1, 1, 1), (2, 5, 2), (33, 4, 2), (5, 6, 3)])
def test_kernel_is_the_reference(rows, k, options, dtype):
    logits, seeds, temperature = logits_and_seeds(rows, options)
    for tie in (LOWEST, ABSTAIN, options - 1) if dtype == torch.float32 else (0,):
        args = (logits.to(dtype), seeds, k, temperature, tie)
        assert_same_samples(SampledVotes(*launch(*args)), reference(*args))


@pytest.mark.parametrize(("rows", "k", "options"), [(2, 64, 2), (2, 33, 1), (2, 9, 4), (1, 8, 6)])
def test_many_votes_and_many_options(rows, k, options):
    logits, seeds, temperature = logits_and_seeds(rows, options, seed=3)
    assert_same_samples(SampledVotes(*launch(logits, seeds, k, temperature, ABSTAIN)), vectorized(logits, seeds, k, temperature, ABSTAIN))


def test_rows_that_cannot_be_sampled_are_flagged():
    logits, seeds, temperature, good = strange_logits()
    got = SampledVotes(*launch(logits, seeds, 6, temperature, LOWEST))
    assert_same_samples(got, reference(logits, seeds, 6, temperature, LOWEST))
    assert (got.winner >= 0).tolist() == (~got.probability.isnan()).all(1).tolist() == good


def test_a_row_has_the_same_bits_alone_and_in_any_batch():
    logits, seeds, temperature = logits_and_seeds(19, 3)
    together, order = launch(logits, seeds, 4, temperature, LOWEST), torch.randperm(19, generator=torch.Generator().manual_seed(2))
    assert same_bits(launch(logits[order], seeds[order], 4, temperature[order], LOWEST), [x[order] for x in together])
    for b in (0, 1, 7, 18):
        alone = launch(logits[b : b + 1], seeds[b : b + 1], 4, temperature[b : b + 1], LOWEST)
        assert same_bits(alone, [x[b : b + 1] for x in together])
    one_for_all = launch(logits, seeds, 4, temperature[:1], LOWEST)
    assert same_bits([x[:1] for x in one_for_all], [x[:1] for x in together])


def test_strides():
    logits, seeds, temperature = logits_and_seeds(4, 3)
    wide = torch.stack((temperature, seeds.double()), 1)[:, 0]
    strided = launch(logits.T.contiguous().T, torch.stack((seeds, seeds), 1)[:, 0], 5, wide, LOWEST)
    assert same_bits(strided, launch(logits, seeds, 5, temperature, LOWEST))
