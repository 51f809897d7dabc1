"""Each operator in plain PyTorch as one would write it for a GPU: padded, of static shapes, nothing waits for the device.

Same results as the operators (keys and ties included), so that they can be compared and compiled whole.
"""

from __future__ import annotations

import torch
from evoctx_kernels.hashing import row_keys, uniforms
from evoctx_kernels.row_gumbel.reference import counters, gumbel
from torch import Tensor


def padded(indptr: Tensor, values: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """CSR as `[B, longest]`: which cells are inside, and their values (any value outside)."""
    position = torch.arange(longest, device=indptr.device)
    return position < indptr.diff()[:, None], values[(indptr[:-1, None] + position).clamp_(max=len(values) - 1)]


def boundary_signals(
    traces: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor, thresholds: Tensor, quantile: float, longest: int
) -> tuple[Tensor, ...]:
    """near, argmin, centroid, tail, score, action of rows with at least one vector; linear interpolation."""
    inside, index = padded(indptr, slots, longest)
    vectors = pool[index].float() * inside[:, :, None]
    trace = traces.float()
    distances = (1 - torch.bmm(vectors, trace[:, :, None])[:, :, 0]).masked_fill(~inside, torch.inf)
    total = vectors.sum(1)
    centroid = 1 - (total * trace).sum(1) / total.norm(dim=1)
    ordered, order = distances.sort(dim=1, stable=True)
    position = quantile * (inside.sum(1) - 1).double()
    low, high = (ordered.gather(1, x.long()[:, None])[:, 0] for x in (position.floor(), position.ceil()))
    signals = torch.stack((ordered[:, 0], centroid, low + (high - low) * position.frac().float()), dim=1)
    near, far, last = (signals / thresholds).unbind(1)
    score = torch.maximum(torch.minimum(near, far), last)
    return signals[:, 0], order[:, 0], centroid, signals[:, 2], score, (score >= 1).to(torch.int8)


def boundary_signals_backward(
    coefficients: Tensor, positions: Tensor, traces: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor, total: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of traces and pool, of rows with at least one vector whose sum is not zero."""
    length = total.norm(dim=1, keepdim=True)
    picked = slots[indptr[:-1, None] + positions]
    scale, t = coefficients[:, 3:] / length, traces.float()
    grad_traces = -(pool[picked].float() * coefficients[:, :3, None]).sum(1) - scale * total
    pushes = scale * ((t * total).sum(1, keepdim=True) / length.square() * total - t)
    grad_pool = torch.zeros(pool.shape, dtype=torch.float32, device=pool.device)
    owners = torch.arange(len(t), device=t.device).repeat_interleave(indptr.diff(), output_size=len(slots))
    grad_pool.index_add_(0, slots, pushes[owners])
    grad_pool.index_add_(0, picked.flatten(), (-coefficients[:, :3, None] * t[:, None]).flatten(0, 1))
    return grad_traces.to(traces.dtype), grad_pool.to(pool.dtype)


def majority_vote(votes: Tensor, options: int) -> tuple[Tensor, Tensor, Tensor]:
    """winner, counts, margin; ties go to the lowest option."""
    counts = (votes[:, :, None] == torch.arange(options, device=votes.device)).sum(1)
    best, leader = counts.max(1)
    second = counts.scatter(1, leader[:, None], 0).amax(1)
    return torch.where(best == 0, -1, leader), counts, best - second


def sample_votes(logits: Tensor, seeds: Tensor, k: int, temperature: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """votes, winner, counts, margin (not the probabilities of the outcomes)."""
    weights = ((logits.double() - logits.double().amax(1, keepdim=True)) / temperature[:, None]).exp()
    borders = weights.cumsum(1)
    votes = (uniforms(seeds, k)[:, :, None] * borders[:, None, -1:] >= borders[:, None, :-1]).sum(2)
    return votes, *majority_vote(votes, logits.shape[1])


def first_unseen(candidates: Tensor, indptr: Tensor, seen: Tensor, k: int, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """ids, ranks, skipped; an id that was taken is seen from there on."""
    inside, table = padded(indptr, seen, longest)
    known = ((candidates[:, :, None] == table[:, None]) & inside[:, None]).any(2)
    earlier = (candidates[:, :, None] == candidates[:, None]).tril(-1).any(2)
    fresh = (candidates >= 0) & ~known & ~earlier
    ordinal = fresh.cumsum(1)
    column = torch.where(fresh & (ordinal <= k), ordinal - 1, k)
    empty = candidates.new_full((len(candidates), k + 1), -1)
    ranks = torch.arange(candidates.shape[1], device=candidates.device).expand_as(candidates)
    skipped = ((candidates >= 0) & ~fresh & (ordinal < k)).sum(1)
    return empty.scatter(1, column, candidates)[:, :k], empty.scatter(1, column, ranks)[:, :k], skipped


def greedy_diverse(pool: Tensor, slots: Tensor, threshold: float, k: int) -> tuple[Tensor, Tensor]:
    """kept, count of candidates that are all there and finite."""
    vectors = pool[slots].float()
    far = torch.bmm(vectors, vectors.mT) <= threshold
    kept, count = torch.zeros(slots.shape, dtype=torch.bool, device=slots.device), slots.new_zeros(len(slots))
    for column in range(slots.shape[1]):
        new = (far[:, column] | ~kept).all(1) & (count < k)
        kept[:, column], count = new, count + new
    places = torch.where(kept, kept.cumsum(1) - 1, k)
    ranks = torch.arange(slots.shape[1], device=slots.device).expand_as(slots)
    return slots.new_full((len(slots), k + 1), -1).scatter(1, places, ranks)[:, :k], count


def max_similarity(queries: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
    """similarity, argmax over the whole pool; products are rounded to the vectors' dtype, which leaves the argmax to chance."""
    best, at = (queries @ pool.T).max(1)
    return best.float(), at


def gumbel_argmax(logits: Tensor, seeds: Tensor, steps: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
    """token, logprob; every temperature above 0."""
    noise = gumbel(row_keys(seeds, steps)[:, None] + counters(logits.shape[1], logits.device))
    token = (logits.float() / temperature[:, None] + noise).argmax(1, keepdim=True)
    return token[:, 0], logits.float().log_softmax(1).gather(1, token)[:, 0]
