"""sample_votes against a generator a row, which is what keeps rows apart in a script, and against one torch.multinomial.

    OMP_NUM_THREADS=1 python -m pytest benchmarks/kernels/bench_sample_votes.py --benchmark-columns=min,median,rounds

CPU seconds on one thread: 5 votes on 2 options. Only the operator also gives the probability of each outcome, and
`multinomial` draws from one stream, so that its votes depend on the batch. Before anything is timed, the share of each
option among all votes is checked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from evoctx_kernels.sample_votes import sample_votes
from torch import Tensor

VOTES, OPTIONS = 5, 2


def operator(logits: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor]:
    return sample_votes(logits, seeds, VOTES, tie=0)[:2]


def generator_loop(logits: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor]:
    """Row by row, each with numpy's generator of its own seed."""
    votes = np.empty((len(logits), VOTES), dtype=np.int64)
    for b, (row, seed) in enumerate(zip(logits.double().numpy(), seeds.tolist(), strict=True)):
        weights = np.exp(row - row.max())
        votes[b] = np.random.default_rng(seed).choice(OPTIONS, VOTES, p=weights / weights.sum())
    return torch.from_numpy(votes), torch.from_numpy(np.array([np.bincount(row, minlength=OPTIONS).argmax() for row in votes]))


def multinomial(logits: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor]:
    """All rows at once."""
    votes = torch.multinomial(logits.softmax(1), VOTES, replacement=True)
    return votes, votes.mode(1).values


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("contender", [operator, generator_loop, multinomial], ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [256, 4096])
@pytest.mark.benchmark(timer=time.process_time, warmup=False)
def test_sample_votes(benchmark, rows, contender):
    g = torch.Generator().manual_seed(rows)
    logits, seeds = torch.randn(rows, OPTIONS, generator=g), torch.randint(0, 2**63 - 1, (rows,), generator=g)
    benchmark.group = f"sample_votes, B = {rows}"
    benchmark.extra_info |= {"votes": VOTES, "options": OPTIONS, "torch": torch.__version__, "numpy": np.__version__}
    votes, winner = contender(logits, seeds)
    assert abs((votes == 1).double().mean() - logits.softmax(1)[:, 1].mean()) < 4 * (0.25 / votes.numel()) ** 0.5
    assert torch.equal(winner, (votes.double().mean(1) > 0.5).long())  # 5 votes on 2 options: no ties
    benchmark.pedantic(contender, (logits, seeds), rounds=15, warmup_rounds=1)
