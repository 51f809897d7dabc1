"""majority_vote against a Counter a row, as a script has it, and against one-hot counting in torch.

    OMP_NUM_THREADS=1 python -m pytest benchmarks/kernels/bench_majority_vote.py --benchmark-columns=min,median,rounds

CPU seconds on one thread: 5 votes on 2 options, some of them invalid, ties to option 0 (ACE). All contenders give the same
winners, which is checked before anything is timed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from evoctx_kernels.majority_vote import majority_vote
from torch import Tensor
from torch.nn.functional import one_hot

VOTES, OPTIONS, TIE = 5, 2, 0


def operator(votes: Tensor) -> Tensor:
    return majority_vote(votes, OPTIONS, tie=TIE).winner


def counter_loop(votes: Tensor) -> Tensor:
    """Row by row."""
    winners = []
    for row in votes.tolist():
        counts = Counter(vote for vote in row if 0 <= vote < OPTIONS).most_common(2)
        tied = len(counts) == 2 and counts[0][1] == counts[1][1]
        winners.append(-1 if not counts else TIE if tied else counts[0][0])
    return torch.tensor(winners)


def one_hot_torch(votes: Tensor) -> Tensor:
    """All rows at once: `[B, k, O + 1]`, the last column for what is invalid."""
    valid = (votes >= 0) & (votes < OPTIONS)
    counts = one_hot(torch.where(valid, votes, OPTIONS), OPTIONS + 1).sum(1)[:, :OPTIONS]
    top = counts.topk(2, dim=1)
    winner = torch.where(top.values[:, 0] == top.values[:, 1], TIE, top.indices[:, 0])
    return torch.where(top.values[:, 0] == 0, -1, winner)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("contender", [operator, counter_loop, one_hot_torch], ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [256, 4096])
@pytest.mark.benchmark(timer=time.process_time, warmup=False)
def test_majority_vote(benchmark, rows, contender):
    votes = torch.randint(-1, OPTIONS, (rows, VOTES), generator=torch.Generator().manual_seed(rows))
    benchmark.group = f"majority_vote, B = {rows}"
    benchmark.extra_info |= {"votes": VOTES, "options": OPTIONS, "torch": torch.__version__}
    assert torch.equal(contender(votes), operator(votes))
    benchmark.pedantic(contender, (votes,), rounds=15, warmup_rounds=1)
