"""first_unseen against a loop with a set a row, and against comparing everything with everything in torch.

    OMP_NUM_THREADS=1 python -m pytest benchmarks/kernels/bench_first_unseen.py --benchmark-columns=min,median,rounds

CPU seconds on one thread: the first 5 unseen of a ranking that is as deep as it can be needed, 5 + the most ids seen.
"early" rounds have seen 0 to 10 ids, "late" ones 20 to 60. All contenders give the same ids, ranks and counts of skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch
from evoctx_kernels.first_unseen import first_unseen
from torch import Tensor

WANTED, CORPUS = 5, 2000
SEEN = {"early": (0, 10), "late": (20, 60)}


def inputs(rows: int, fewest: int, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """(candidates, indptr, seen): of the seen ids half stand in the ranking."""
    g = torch.Generator().manual_seed(rows)
    candidates = torch.rand(rows, CORPUS, generator=g).argsort(1)
    counts = torch.randint(fewest, most + 1, (rows,), generator=g)
    columns = torch.rand(rows, 2 * (WANTED + most), generator=g).argsort(1)
    seen = [row[place[:n]] for row, place, n in zip(candidates, columns, counts.tolist(), strict=True)]
    return candidates[:, : WANTED + most].contiguous(), torch.cat((counts.new_zeros(1), counts.cumsum(0))), torch.cat(seen)


def operator(candidates: Tensor, indptr: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
    return tuple(first_unseen(candidates, indptr, seen, WANTED))


def set_loop(candidates: Tensor, indptr: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
    """Row by row."""
    ends, known = indptr.tolist(), seen.tolist()
    ids, ranks, skipped = [], [], []
    for b, row in enumerate(candidates.tolist()):
        own = set(known[ends[b] : ends[b + 1]])
        taken = [(rank, candidate) for rank, candidate in enumerate(row) if candidate not in own][:WANTED]
        ranks.append([rank for rank, _ in taken])
        ids.append([candidate for _, candidate in taken])
        skipped.append(taken[-1][0] + 1 - len(taken))
    return torch.tensor(ids), torch.tensor(ranks), torch.tensor(skipped)


def all_pairs(candidates: Tensor, indptr: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
    """All rows at once: `[B, K, most seen]` comparisons."""
    counts = indptr.diff()
    inside = torch.arange(int(counts.max())) < counts[:, None]
    table = torch.full(inside.shape, -1).masked_scatter_(inside, seen)
    fresh = ~(candidates[:, :, None] == table[:, None]).any(2)
    ranks = torch.where(fresh, torch.arange(candidates.shape[1]), CORPUS).topk(WANTED, dim=1, largest=False).values
    return candidates.gather(1, ranks), ranks, ranks[:, -1] + 1 - WANTED


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("contender", [operator, set_loop, all_pairs], ids=lambda f: f.__name__)
@pytest.mark.parametrize("stage", SEEN)
@pytest.mark.parametrize("rows", [256, 2048])
@pytest.mark.benchmark(timer=time.process_time, warmup=False)
def test_first_unseen(benchmark, rows, stage, contender):
    args = inputs(rows, *SEEN[stage])
    benchmark.group = f"first_unseen, B = {rows}, {stage}"
    benchmark.extra_info |= {"candidates": args[0].shape[1], "torch": torch.__version__}
    for ours, theirs in zip(contender(*args), operator(*args), strict=True):
        assert torch.equal(ours, theirs)
    benchmark.pedantic(contender, args, rounds=15, warmup_rounds=1)
