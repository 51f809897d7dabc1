"""gumbel_argmax against noise for all tokens followed by argmax and logsumexp, which is what it replaces.

    OMP_NUM_THREADS=1 python -m pytest benchmarks/kernels/bench_row_gumbel.py --benchmark-columns=min,median,rounds

CPU seconds on one thread, 49,152 tokens in float32 (SmolLM2's vocabulary), temperature 0.7. All contenders choose the
same tokens, which is checked before anything is timed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch
from evoctx_kernels.row_gumbel import gumbel_argmax, row_gumbel
from torch import Tensor

VOCAB, TEMPERATURE, STEP = 49_152, 0.7, 3


def operator(logits: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor]:
    return gumbel_argmax(logits, seeds, STEP, TEMPERATURE)


def noise_then_argmax(logits: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor]:
    """`[B, V]` temporaries for the noise and for the scores."""
    token = (logits / TEMPERATURE + row_gumbel(seeds, STEP, logits.shape[1])).argmax(1)
    return token, logits.gather(1, token[:, None])[:, 0] - logits.logsumexp(1)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("contender", [operator, noise_then_argmax], ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [1, 32])
@pytest.mark.benchmark(timer=time.process_time, warmup=False)
def test_row_gumbel(benchmark, rows, contender):
    g = torch.Generator().manual_seed(rows)
    logits, seeds = torch.randn(rows, VOCAB, generator=g) * 3, torch.randint(0, 2**63 - 1, (rows,), generator=g)
    benchmark.group = f"B = {rows}"
    benchmark.extra_info |= {"tokens": VOCAB, "torch": torch.__version__}
    (token, logprob), expected = contender(logits, seeds), operator(logits, seeds)
    assert torch.equal(token, expected[0])
    torch.testing.assert_close(logprob, expected[1], rtol=0, atol=1e-5)
    benchmark.pedantic(contender, (logits, seeds), rounds=15, warmup_rounds=1)
