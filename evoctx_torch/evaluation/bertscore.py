"""BERTScore (Zhang et al. 2020) through the library `bert-score`, with a model that lies on this machine.

The library's own loader takes any checkpoint format and does not know the tokenizers of transformers 5: it fails on an
empty text and drops the leading blank that RoBERTa's words need. So model and tokenizer are loaded here, and texts
without a word are answered here; the matching is the library's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from evoctx_torch.errors import MissingExtra, UsageError
from evoctx_torch.generation.models import model_folder, resolve_device
from evoctx_torch.retrieval.sources import DEFAULT_ENCODER, check_encoder, encoder_folder

BATCH = 64
SAFE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
UNLIMITED = 1_000_000  # a tokenizer that names no longest text says something larger than this


class BertScore:
    """F of greedy cosine matching of token vectors, without idf weights and without rescaling, the best over the golds.

    `model`: all-minilm-l6-v2, a folder, or a hub name in the local cache. `layers`: whose output is compared, counted
    from 1 (default: the library's choice for models it knows by name, else the last). Raises `UsageError` for a model
    that cannot be used and `MissingExtra` without the library, both before weights are loaded.
    """

    def __init__(self, model: str, layers: int | None = None, device: str = "auto") -> None:
        if find_spec("bert_score") is None:
            raise MissingExtra("bert-score", "metrics", "--metrics bertscore")
        self.name, self.device = model, resolve_device(device)
        self.folder = encoder_folder(model) if model == DEFAULT_ENCODER else model_folder(model)
        check_encoder(str(self.folder))
        self.layers = check_layers(model, self.folder, layers)
        self._loaded: tuple[Any, Any] | None = None

    def score(self, predictions: Sequence[str], golds: Sequence[Sequence[str]]) -> list[float]:
        """One F a prediction, at most 1; 0 where prediction or gold has no word."""
        from bert_score.utils import bert_cos_score_idf

        pairs = [(row, prediction, gold) for row, (prediction, several) in enumerate(zip(predictions, golds, strict=True))
                 for gold in several if prediction.strip() and gold.strip()]
        best = [0.0] * len(predictions)
        if not pairs:
            return best
        model, tokenizer = self._load()
        weights = defaultdict(lambda: 1.0, {tokenizer.cls_token_id: 0.0, tokenizer.sep_token_id: 0.0})
        found = bert_cos_score_idf(
            model, [gold for *_, gold in pairs], [prediction for _, prediction, _ in pairs], tokenizer, weights,
            batch_size=BATCH, device=self.device,
        )
        for (row, *_), f in zip(pairs, found[:, 2].tolist(), strict=True):
            best[row] = max(best[row], min(f, 1.0))  # a cosine of equal vectors may pass 1 in the last bit
        return best

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            from transformers import AutoModel, AutoTokenizer, GPT2Tokenizer, RobertaTokenizer

            tokenizer = AutoTokenizer.from_pretrained(self.folder, **SAFE)
            if isinstance(tokenizer, (GPT2Tokenizer, RobertaTokenizer)):
                tokenizer = AutoTokenizer.from_pretrained(self.folder, add_prefix_space=True, **SAFE)
            if tokenizer.pad_token_id is None:
                raise UsageError(f"--bertscore-model {self.name} has no padding token; expected an encoder such as BERT or RoBERTa")
            model = AutoModel.from_pretrained(self.folder, dtype="float32", use_safetensors=True, **SAFE)
            if tokenizer.model_max_length > UNLIMITED:
                tokenizer.model_max_length = model.config.max_position_embeddings - 2  # RoBERTa's first two places are taken
            self._loaded = OneLayer(model.to(self.device).eval(), self.layers), tokenizer
        return self._loaded


class OneLayer(torch.nn.Module):
    """A model that gives the output of one of its layers, as the library asks for it."""

    def __init__(self, model: torch.nn.Module, layer: int) -> None:
        super().__init__()
        self.model, self.layer = model, layer

    def forward(self, ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any) -> tuple[torch.Tensor]:
        """Token ids `[B, L]` to vectors `[B, L, D]`."""
        return (self.model(ids, attention_mask=attention_mask, output_hidden_states=True).hidden_states[self.layer],)


def check_layers(name: str, folder: Path, layers: int | None) -> int:
    """The layer that is used. Raises `UsageError` unless the model is an encoder with that many."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, **SAFE)
    if config.is_encoder_decoder or not hasattr(config, "num_hidden_layers"):
        raise UsageError(f"--bertscore-model {name} is a {config.model_type}; expected an encoder such as BERT, RoBERTa or DeBERTa")
    if layers is None:
        from bert_score.utils import model2layers
        layers = model2layers.get(name, config.num_hidden_layers)
    if not 1 <= layers <= config.num_hidden_layers:
        raise UsageError(f"--bertscore-layers is {layers}; expected 1 to {config.num_hidden_layers}, the layers of {name}")
    return layers
