"""Which candidates are new? Keep those that resemble none kept before, for all rows in one call."""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.expect import expect
from evoctx_kernels.greedy_diverse.checks import check, check_values
from evoctx_kernels.greedy_diverse.cpu import vectorized
from evoctx_kernels.greedy_diverse.reference import GreedyDiverse, reference

__all__ = ["GreedyDiverse", "greedy_diverse", "reference"]


def greedy_diverse(candidates: Tensor, slots: Tensor | None = None, *, threshold: float, k: int) -> GreedyDiverse:
    """Go through each row's candidates in rank order; keep one iff its cosine to every kept one is ≤ threshold, up to k.

    Thought-Retriever's filter at query time (arXiv 2604.12231, section 3; its public code keeps 8 of 40 at 0.85). A
    cosine is the dot product of the vectors as stored (unit norm is the caller's business), accumulated in float32
    (float64 for float64 vectors) and compared with the threshold cast to that.

    Args:
        candidates: `[B, K, D]`, row b's candidates, best first; or, with slots, a pool `[N, D]`, contiguous.
            float32, float16, bfloat16 or float64.
        slots: `[B, K]` int64: row b's candidates are `candidates[slots[b]]`, −1 stands for none and may stand anywhere.
        threshold: not NaN; from 1 on everything is kept.
        k: at most how many are kept, at least 1.

    Returns:
        `kept` `[B, k]` int64, positions in [0, K) in rank order, −1 after the last; `count` `[B]` int64, how many;
        `invalid` `[B]` int64, how many candidates holding NaN or infinity were met before the k-th was kept: these are
        never kept and suppress nothing. A row's outputs do not depend on its company.

    Raises:
        ValueError: a shape, device, layout, slot, threshold or k is wrong. On CUDA slots are not waited for: a candidate
            whose slot lies outside the pool is invalid there.
        TypeError: a dtype is wrong.
    """
    if slots is None:
        expect(candidates.dim() == 3, "greedy_diverse: candidates", "[B, K, D] where no slots are given", list(candidates.shape))
        rows, width, dim = candidates.shape
        slots = torch.arange(rows * width, device=candidates.device).view(rows, width)
        candidates = candidates.reshape(rows * width, dim).contiguous()
    return GreedyDiverse(*operator(candidates, slots, threshold, k))


@torch.library.custom_op("evoctx::greedy_diverse", mutates_args=())
def operator(pool: Tensor, slots: Tensor, threshold: float, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The registered operator, vectorized PyTorch where no kernel is registered below."""
    check(pool, slots, threshold, k)
    check_values(slots, len(pool))
    return tuple(vectorized(pool, slots, threshold, k))


@operator.register_kernel("cuda")
def _(pool, slots, threshold, k):
    from evoctx_kernels.greedy_diverse.triton_kernel import launch, supports  # needs triton, which a CPU install may lack

    check(pool, slots, threshold, k)
    if supports(pool, k) and len(slots):
        return tuple(launch(pool, slots, threshold, k))
    check_values(slots, len(pool))
    return tuple(vectorized(pool, slots, threshold, k))


@operator.register_fake
def _(pool, slots, threshold, k):
    rows = slots.shape[0]
    return slots.new_empty(rows, k), slots.new_empty(rows), slots.new_empty(rows)
