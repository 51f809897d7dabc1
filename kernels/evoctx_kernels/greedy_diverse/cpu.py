"""greedy_diverse in vectorized PyTorch: the CPU path, and the path of any device or dtype that has no kernel of its own.

A matrix product gives all cosines of a row. Its bits depend on the batch, so the few that lie within rounding of the
threshold are computed again one by one (`pair_dots`): what a row keeps does not depend on its company.
"""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.greedy_diverse.reference import GreedyDiverse
from evoctx_kernels.pair_dots import pair_dots, product_error, work_dtype

GATHERED = 1 << 22  # numbers gathered at a time: 16 MiB in float32


def vectorized(pool: Tensor, slots: Tensor, threshold: float, k: int) -> GreedyDiverse:
    """As `greedy_diverse` with pool and slots, inputs unchecked."""
    if len(pool) == 0 or slots.shape[1] == 0:
        return GreedyDiverse(slots.new_full((len(slots), k), -1), slots.new_zeros(len(slots)), slots.new_zeros(len(slots)))
    limit = torch.tensor(threshold, dtype=work_dtype(pool), device=pool.device)
    block = max(1, GATHERED // max(1, slots.shape[1] * pool.shape[1]))
    parts = [of_block(pool, some, limit, k) for some in slots.split(block)]
    return GreedyDiverse(*(torch.cat(column) for column in zip(*parts, strict=True)))


def of_block(pool: Tensor, slots: Tensor, limit: Tensor, k: int) -> GreedyDiverse:
    """The same of a few rows: candidate after candidate, each closing those too near to it."""
    (rows, width), there = slots.shape, slots != -1
    vectors = pool[slots.clamp(min=0)].to(limit.dtype)
    product = vectors @ vectors.mT
    valid = product.diagonal(dim1=1, dim2=2).isfinite()
    valid[~valid] = vectors[~valid].isfinite().all(1)  # squares of finite numbers can overflow
    valid &= there
    far = apart(vectors, product, valid, limit)

    kept, open_, count = torch.zeros_like(valid), valid.clone(), slots.new_zeros(rows)
    for position in range(width):
        new = open_[:, position] & (count < k)
        kept[:, position] = new
        count += new
        open_ &= far[:, position] | ~new[:, None]

    ranks = torch.arange(width, device=slots.device).expand(rows, width)
    places = torch.where(kept, kept.cumsum(1) - 1, k)
    positions = slots.new_full((rows, k + 1), -1).scatter_(1, places, ranks)[:, :k]  # the last column takes the others
    last = torch.where(count < k, width, positions[:, -1])
    return GreedyDiverse(positions, count, (there & ~valid & (ranks < last[:, None])).sum(1))


def apart(vectors: Tensor, product: Tensor, valid: Tensor, limit: Tensor) -> Tensor:
    """Whether the dot product of vectors i and j is at most `limit`: `[R, K, K]` bool for `[R, K, D]`, of valid pairs."""
    far = product <= limit
    longest = torch.where(valid, product.diagonal(dim1=1, dim2=2), 0).amax(1).sqrt()
    doubtful = (product - limit).abs_() <= 3 * product_error(vectors, longest, longest)[:, None, None]
    row, i, j = doubtful.nonzero().unbind(1)
    alone = torch.arange(len(row) + 1, device=row.device)
    far[row, i, j] = pair_dots(vectors[row, i], vectors.flatten(0, 1), alone, row * vectors.shape[1] + j) <= limit
    return far
