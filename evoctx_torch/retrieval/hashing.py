"""An encoder that costs nothing: for tests and for measuring everything around an encoder. Not for real retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import torch

from evoctx_torch.errors import UsageError
from evoctx_torch.retrieval.windows import WINDOWS, Pieces, split


class HashEncoder:
    """Counts of a text's lower-cased words in `dimension` bins (crc32 of the word), as a unit vector.

    Deterministic, without weights, bitwise the same in any company. Texts that share words are near each other; a text
    without words is the first axis. Follows `TextEncoder`; a word is its word piece and `max_length` words are read.
    """

    def __init__(self, dimension: int = 256, max_length: int = 256, device: str | torch.device = "cpu") -> None:
        self.dimension, self.max_length, self.device = dimension, max_length, torch.device(device)
        self.name, self.dtype = f"hash-{dimension}", "float32"
        self.query_prompt = self.passage_prompt = ""

    @property
    def digest(self) -> str:
        return f"hash-{self.dimension}-{self.max_length}"

    def encode(self, texts: Sequence[str], window: str = "head") -> torch.Tensor:
        """Unit vectors `[n, D]` float32."""
        parts = [self._windows(text, window) for text in texts]
        words = [part.lower().split() or [""] for windows in parts for part in windows]
        cells = [row * self.dimension + self._bin(word) for row, group in enumerate(words) for word in group]
        counts = torch.bincount(torch.tensor(cells, dtype=torch.long), minlength=len(words) * self.dimension)
        vectors = torch.nn.functional.normalize(counts.view(len(words), self.dimension).float(), dim=-1)
        if window == "mean" and parts:
            means = torch.stack([rows.mean(0) for rows in vectors.split([len(windows) for windows in parts])])
            vectors = torch.nn.functional.normalize(means, dim=-1)
        return vectors.to(self.device)

    def encode_queries(self, texts: Sequence[str]) -> torch.Tensor:
        """As `encode`."""
        return self.encode(texts)

    def encode_passages(self, texts: Sequence[str], window: str = "head") -> torch.Tensor:
        """As `encode`."""
        return self.encode(texts, window)

    def probe(self, text: str, window: str = "head") -> str:
        return text if window == "mean" else self._windows(text, window)[0]

    def _windows(self, text: str, window: str) -> list[str]:
        if window not in WINDOWS:
            raise UsageError(f"window is {window!r}; expected one of {', '.join(WINDOWS)}")
        # A text cannot hold more words than characters: the usual short text needs no splitting.
        return [text] if len(text) <= self.max_length else split(text, window, self.max_length, _words)

    def _bin(self, word: str) -> int:
        return crc32(word.encode()) % self.dimension


def _words(text: str) -> Pieces:
    spans, end = [], 0
    for number, word in enumerate(text.split()):
        start = text.index(word, end)
        end = start + len(word)
        spans.append((start, end, number))
    return spans
