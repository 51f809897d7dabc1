"""Every vector that decisions need lives once on the device (design, section 6)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from evoctx_torch.errors import UsageError

log = logging.getLogger(__name__)

FIRST_ROWS = 1024

Encode = Callable[[Sequence[str]], Tensor]
Known = Callable[[str], "Tensor | np.ndarray | None"]


class VectorPool:
    """Texts interned as rows of `vectors`, the least recently used ones evicted beyond `capacity` texts.

    `encode` turns n texts into `[n, dim]` unit vectors; `known` may supply a text's vector `[dim]` that exists
    already (a passage that the index has embedded). Counted: `hits` and `misses` (distinct texts of each call) and
    `encoded` (the misses that `encode` was asked for).
    """

    def __init__(
        self, encode: Encode, dim: int, device: torch.device | str = "cpu", capacity: int = 65536, known: Known | None = None
    ) -> None:
        if capacity < 1:
            raise UsageError(f"the vector pool's capacity is {capacity}; expected at least 1")
        self.dim, self.capacity, self._configured = dim, capacity, capacity
        self.hits = self.misses = self.encoded = 0
        self._encode, self._known = encode, known
        self._slots: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self._vectors = torch.zeros((min(FIRST_ROWS, capacity), dim), dtype=torch.float32, device=device)

    @property
    def vectors(self) -> Tensor:
        """`[N, dim]` float32, N at least every slot + 1. Growth replaces the tensor: read it after `slots`."""
        return self._vectors

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, text: str) -> bool:
        return text in self._slots

    @torch.inference_mode(False)  # rows written here must stay writable in any later mode
    @torch.no_grad()
    def slots(self, texts: Sequence[str]) -> list[int]:
        """The row of each text. All missing ones are embedded in one batch; none of `texts` is evicted by this call,
        any other text may be. An exception of `encode` leaves the pool as it was."""
        wanted = dict.fromkeys(texts)
        missing = [text for text in wanted if text not in self._slots]
        vectors = self._embed(missing) if missing else None
        for text in wanted:
            if text in self._slots:
                self._slots.move_to_end(text)
        self.hits += len(wanted) - len(missing)
        self.misses += len(missing)
        if vectors is not None:
            places = self._places(len(missing), len(wanted))
            self._vectors[torch.tensor(places, device=self._vectors.device)] = vectors
            self._slots.update(zip(missing, places, strict=True))
        return [self._slots[text] for text in texts]

    def _embed(self, texts: list[str]) -> Tensor:
        """`[n, dim]` on the pool's device, from what is known and one call of `encode` for the rest."""
        vectors = self._vectors.new_empty((len(texts), self.dim))
        unknown = []
        for row, text in enumerate(texts):
            vector = self._known(text) if self._known else None
            if vector is None:
                unknown.append(row)
            else:
                vectors[row] = self._checked(torch.as_tensor(vector), (self.dim,), "the vector known for a text")
        if unknown:
            fresh = self._encode([texts[row] for row in unknown])
            rows = torch.tensor(unknown, device=vectors.device)
            vectors[rows] = self._checked(fresh, (len(unknown), self.dim), "the encoder's output")
            self.encoded += len(unknown)
        return vectors

    def _checked(self, vectors: Tensor, shape: tuple[int, ...], what: str) -> Tensor:
        if vectors.shape != shape:
            raise UsageError(f"{what} has shape {list(vectors.shape)}; expected {list(shape)}: use one encoder for all")
        return vectors.to(self._vectors)

    def _places(self, count: int, wanted: int) -> list[int]:
        """`count` rows to write to, of evicted texts first; the `wanted` most recently used texts stay."""
        if wanted > self.capacity:
            if self.capacity == self._configured:  # said once
                log.warning("one call needs %d vectors: the vector pool grows beyond its capacity of %d", wanted, self.capacity)
            self.capacity = wanted
        used = len(self._slots)
        freed = [self._slots.popitem(last=False)[1] for _ in range(max(0, used + count - self.capacity))]
        end = used + count - len(freed)
        if end > len(self._vectors):
            size = min(self.capacity, max(end, 2 * len(self._vectors)))
            self._vectors = torch.cat((self._vectors, self._vectors.new_zeros((size - len(self._vectors), self.dim))))
        return freed + list(range(used, end))
