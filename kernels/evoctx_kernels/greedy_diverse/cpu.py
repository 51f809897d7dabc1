"""greedy_diverse in vectorized PyTorch: all rows look at their first candidate, then at their second, until all have k.

Bits of a cosine depend on its two vectors alone (`pair_dots`), so a row's choice does not depend on its company.
"""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.greedy_diverse.reference import GreedyDiverse
from evoctx_kernels.pair_dots import pair_dots, work_dtype


def vectorized(pool: Tensor, slots: Tensor, threshold: float, k: int) -> GreedyDiverse:
    """As `greedy_diverse` with pool and slots, inputs unchecked."""
    limit = torch.tensor(threshold, dtype=work_dtype(pool), device=pool.device)
    kept = torch.full((len(slots), k), -1, dtype=torch.int64, device=pool.device)
    kept_slots = kept.clone()
    count, invalid = kept.new_zeros(len(slots)), kept.new_zeros(len(slots))
    for position, column in enumerate(slots.unbind(1)):
        hungry = count < k
        if not hungry.any():
            break
        row = (hungry & (column != -1)).nonzero()[:, 0]
        slot, others = column[row], kept_slots[row]
        vectors, counts = pool[slot], count[row]
        new = vectors.isfinite().all(1)
        invalid[row] += ~new

        indptr = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
        close = ~(pair_dots(vectors, pool, indptr, others[others != -1]) <= limit)
        new[torch.repeat_interleave(counts)[close]] = False
        row, slot = row[new], slot[new]
        kept[row, count[row]], kept_slots[row, count[row]] = position, slot
        count[row] += 1
    return GreedyDiverse(kept, count, invalid)
