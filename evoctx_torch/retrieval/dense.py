"""Exact inner-product search through FAISS, with one order of results whatever the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from evoctx_torch.errors import MissingExtra, UsageError

GPU_MAX_K = 2048  # of FAISS's flat index on a GPU
GPU_TEMPORARY = 512 << 20  # bytes of scratch FAISS may reserve; its default takes a share of the card
SPARE = 16  # candidates fetched beyond k, so that a cut inside a tie is rare
RESCORE = 1 << 24  # numbers held at once while candidates are scored again


class DenseIndex:
    """Unit vectors of a corpus, searched by inner product (= cosine).

    FAISS's scores and its order of ties vary in the last bits with the batch shape. So it only proposes candidates: each
    row's are scored again in float64, always in the same order of additions, and sorted by (-score, position). A row whose
    cut could fall inside a (near-)tie is searched deeper, so the result is the exact top k of the stored vectors.

    Args:
        vectors: `[N, D]` float32, row i belongs to the corpus's passage i.
        device: "cpu", or a CUDA device where FAISS was built with GPU support.
        fp16: on a GPU, hold and search the vectors in half precision (candidates only: results are the same).

    Raises:
        MissingExtra: FAISS, or its GPU build, is not installed.
        UsageError: a vector is not finite.
    """

    def __init__(self, vectors: np.ndarray, device: str | torch.device = "cpu", fp16: bool = False) -> None:
        index = _faiss("cpu").IndexFlatIP(vectors.shape[1])
        for start in range(0, len(vectors), 1 << 16):
            block = np.ascontiguousarray(vectors[start : start + (1 << 16)], dtype=np.float32)
            if not (finite := np.isfinite(block).all(1)).all():
                raise UsageError(f"the vector of passage {start + int(finite.argmin())} (from 0) is not finite; use another encoder or dtype")
            index.add(block)
        self._setup(index, torch.device(device), fp16)

    @classmethod
    def read(cls, path: Path, device: str | torch.device = "cpu", fp16: bool = False) -> DenseIndex:
        """The index of a file written by `write`. Raises `UsageError` when it holds none."""
        faiss, self = _faiss("cpu"), cls.__new__(cls)
        try:
            index = faiss.read_index(str(path))
        except RuntimeError as error:
            raise UsageError(f"{path} is not a FAISS index or is damaged: build it again with evoctx index") from error
        if not isinstance(index, faiss.IndexFlat) or index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise UsageError(f"{path} holds a FAISS {type(index).__name__}; expected an IndexFlatIP")
        self._setup(index, torch.device(device), fp16)
        return self

    def write(self, path: Path) -> None:
        """Write the index in FAISS's own format."""
        _faiss("cpu").write_index(self._flat, str(path))

    def _setup(self, flat: Any, device: torch.device, fp16: bool) -> None:
        faiss = _faiss("cpu")
        self._flat, self._fp16, self._gpu = flat, fp16, None
        # A view of FAISS's own storage, not a copy: `_flat` must live as long as it.
        self.vectors: np.ndarray = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d).reshape(flat.ntotal, flat.d)
        if device.type == "cuda":
            faiss = _faiss("gpu")
            self._resources = faiss.StandardGpuResources()
            self._resources.setTempMemory(GPU_TEMPORARY)
            options = faiss.GpuClonerOptions()
            options.useFloat16 = fp16
            place = torch.cuda.current_device() if device.index is None else device.index
            self._gpu = faiss.index_cpu_to_gpu(self._resources, place, flat, options)

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: torch.Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest of each row of `queries` `[B, D]`: positions int64 and scores float64, both `[B, min(k, N)]`.

        Best first, equal scores in order of position. Raises `ValueError` on a query that is not finite.
        """
        if not torch.isfinite(queries).all():
            raise ValueError("the vector of a query holds NaN or infinity")
        k = min(k, len(self))
        rows = queries.detach().float().cpu().numpy()
        positions, scores = np.empty((len(rows), k), np.int64), np.empty((len(rows), k))
        todo, depth = np.arange(len(rows)), min(k + SPARE, len(self))
        while k and len(todo):
            found, cut = self._propose(queries, rows, todo, depth)
            # All that were left out have at most `cut` plus the rounding error of FAISS's score.
            found, exact = self._rescore(rows[todo], found)
            settled = (depth == len(self)) | (exact[:, k - 1] > cut + self._error(rows[todo]))
            positions[todo[settled]], scores[todo[settled]] = found[settled, :k], exact[settled, :k]
            todo, depth = todo[~settled], min(4 * depth, len(self))
        return positions, scores

    def rank(self, query: torch.Tensor, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Just these passages, ranked for one query `[D]`: their positions `[n]` and scores float64 `[n]`, as `search` orders them."""
        if not torch.isfinite(query).all():
            raise ValueError("the vector of a query holds NaN or infinity")
        found, exact = self._rescore(query.detach().float().cpu().numpy()[None], positions[None])
        return found[0], exact[0]

    def _propose(self, queries: torch.Tensor, rows: np.ndarray, todo: np.ndarray, depth: int) -> tuple[np.ndarray, np.ndarray]:
        """Candidates `[b, depth]` of the rows `todo` and the lowest proposed score of each `[b]`."""
        if self._gpu is None or depth > GPU_MAX_K:
            scores, found = self._flat.search(rows[todo], depth)
        else:  # tensors stay on the device; faiss.contrib.torch_utils orders the streams
            chosen = queries[torch.as_tensor(todo, device=queries.device)].float().contiguous()
            scores, found = (t.cpu().numpy() for t in self._gpu.search(chosen.to(f"cuda:{self._gpu.getDevice()}"), depth))
        if (found < 0).any():  # FAISS's padding: fewer neighbours than asked for
            raise ValueError("the index holds vectors that are not finite: build it again")
        return found, scores[:, -1].astype(np.float64)

    def _rescore(self, rows: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Candidates sorted by (-score, position) with their float64 scores, both `[b, depth]`."""
        flat, owner, exact = found.ravel(), np.arange(found.size) // found.shape[1], np.empty(found.size)
        step = max(1, RESCORE // rows.shape[1])
        for start in range(0, found.size, step):
            part = slice(start, start + step)
            # Each product of two float32 is exact in float64, and numpy adds every row of a contiguous array alike.
            exact[part] = (self.vectors[flat[part]] * rows[owner[part]].astype(np.float64)).sum(-1)
        exact = exact.reshape(found.shape)
        order = np.lexsort((found, -exact))
        return np.take_along_axis(found, order, 1), np.take_along_axis(exact, order, 1)

    def _error(self, rows: np.ndarray) -> np.ndarray:
        """A bound `[b]` on |FAISS's score - exact score|: D·u·|q| for unit vectors (Higham 2002, eq. 3.5), halves on both sides
        for fp16 storage."""
        unit = 2.0**-10 if self._fp16 and self._gpu is not None else rows.shape[1] * 2.0**-24
        return 2 * unit * np.linalg.norm(rows.astype(np.float64), axis=1)


def _faiss(extra: str) -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtra("faiss", extra, "dense retrieval") from None
    if extra == "gpu":
        if not hasattr(faiss, "StandardGpuResources"):
            raise MissingExtra("faiss with GPU support", extra, "dense retrieval on CUDA")
        import faiss.contrib.torch_utils
    return faiss
