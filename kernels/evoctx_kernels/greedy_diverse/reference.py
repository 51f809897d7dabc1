"""The definition of greedy_diverse: one candidate after the other, plain PyTorch, exact in float64."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from evoctx_kernels.pair_dots import work_dtype


class GreedyDiverse(NamedTuple):
    """What each row keeps; fields are described in `greedy_diverse`."""

    kept: Tensor
    count: Tensor
    invalid: Tensor


def reference(pool: Tensor, slots: Tensor, threshold: float, k: int) -> GreedyDiverse:
    """As `greedy_diverse` with pool and slots, inputs unchecked."""
    work = work_dtype(pool)
    kept = torch.full((len(slots), k), -1, dtype=torch.int64, device=pool.device)
    count, invalid = (torch.zeros(len(slots), dtype=torch.int64, device=pool.device) for _ in range(2))
    limit = torch.tensor(threshold, dtype=work, device=pool.device)
    for b, row in enumerate(slots.tolist()):
        chosen: list[Tensor] = []
        for position, slot in enumerate(row):
            if len(chosen) == k:
                break
            if slot == -1:
                continue
            vector = pool[slot].to(work)
            if not vector.isfinite().all():
                invalid[b] += 1
            elif all((vector * other).sum() <= limit for other in chosen):
                kept[b, len(chosen)] = position
                chosen.append(vector)
        count[b] = len(chosen)
    return GreedyDiverse(kept, count, invalid)
