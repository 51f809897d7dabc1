"""Tiny random encoders on disk, in the layouts in which real ones are published."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3Model

WORDS = ["query", "passage", ":", "represent", "this", "the", "harbor", "froze", "in", "winter", "ships", "bread", "is", "baked", "who", "?", "##s"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def tokenizer(ending: str, side: str, length: int) -> PreTrainedTokenizerFast:
    """Word pieces between [CLS] and [SEP] (`ending` "bert"), or followed by [SEP] alone, as Qwen3-Embedding ends its texts."""
    made = Tokenizer(models.WordPiece({word: i for i, word in enumerate(SPECIAL + WORDS)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    single = "[CLS] $A [SEP]" if ending == "bert" else "$A [SEP]"
    made.post_processor = processors.TemplateProcessing(single=single, special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
                                   padding_side=side, model_max_length=length)


def plain_bert(folder: Path, length: int = 32) -> Path:
    """A checkpoint as Contriever's: transformers files and nothing else."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": length}
    BertModel(BertConfig(vocab_size=len(SPECIAL + WORDS), **sizes)).save_pretrained(folder)
    tokenizer("bert", "right", length).save_pretrained(folder)
    return folder


def plain_qwen(folder: Path) -> Path:
    """A causal decoder that pads on the left."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 32}
    Qwen3Model(Qwen3Config(vocab_size=len(SPECIAL + WORDS), max_position_embeddings=64, **sizes)).save_pretrained(folder)
    tokenizer("qwen", "left", 64).save_pretrained(folder)
    return folder


def with_sentence_transformers(folder: Path, pooling: str, prompts: dict[str, str] | None = None, default: str | None = None) -> Path:
    """Add the files of sentence-transformers, in the form that E5, BGE and Qwen3-Embedding are published in."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (path, kind) in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    for path, _ in kinds[1:]:
        (folder / path).mkdir()
    modes = {f"pooling_mode_{mode}": mode == pooling for mode in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, **modes, "include_prompt": True}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts or {}, "default_prompt_name": default, "similarity_fn_name": "cosine"}))
    return folder
