"""A small language model and tokenizer made on the spot, and short ways to ask a generator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from evoctx_torch.generation.hf import HFGenerator
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.operations import Completion, Failure, Generate, Pending
from evoctx_torch.transcript import Prompt, Segment

LINES = [
    "Question: who is the mayor of the harbour town? Answer: Tobin Hale\n",
    "The bridge over the river Ostra was built in 1871 and is 120 metres long.\n\n",
    "Naïve cafés serve 日本茶 and jalapeño — said Zoë, 25 °C 🙂.\n",
]
TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'system' and refuse is defined %}{{ raise_exception('no system role') }}{% endif %}"
    "<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
QUESTIONS = [
    "Question: who is the mayor? Answer:",
    "The river is",
    "Question: how long is the bridge over the river Ostra, which was built in 1871, in metres? Answer:",
    "and",
    "Zoë said: 25 °C. The harbour town was built in",
    "Question: what? Answer: that. Question: where? Answer:",
    "Tobin Hale is the mayor of the harbour town of Ostra. Who is Tobin Hale? Answer: the",
    "The bridge",
]


@lru_cache(maxsize=1)
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE of about 300 tokens; pad is eos, as with SmolLM2."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
    backend.train_from_iterator(LINES * 4, trainers.BpeTrainer(vocab_size=240, special_tokens=special, show_progress=False))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<|begin|>", eos_token="<|end|>", pad_token="<|end|>", chat_template=TEMPLATE,
        extra_special_tokens=["<|user|>", "<|assistant|>", "<|system|>"],
    )


def tiny_model(**changes: object) -> PreTrainedModel:
    """Random weights, always the same; large enough in scale that its greedy text varies."""
    tokenizer = tiny_tokenizer()
    config = LlamaConfig(**{
        "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.4, "tie_word_embeddings": False,
        "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.eos_token_id, **changes,
    })
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return LlamaForCausalLM(config).eval()


def roles(max_new_tokens: int = 16, temperature: float = 0.0, top_p: float = 1.0, **by_role: RoleSettings) -> Roles:
    return Roles(RoleSettings(max_new_tokens, temperature, top_p), by_role)


def generator(model: PreTrainedModel | None = None, settings: Roles | None = None, **options: object) -> HFGenerator:
    return HFGenerator(model or tiny_model(), tiny_tokenizer(), settings or roles(), **options)


def ask(text: str, name: str = "q", role: str = "generator", number: int = 0, **options: object) -> Pending:
    """One waiting completion of plain text."""
    return Pending(name, number, Generate(role, Prompt((Segment(text),)), **options))


def ask_all(texts: Sequence[str] = QUESTIONS, **options: object) -> list[Pending]:
    return [ask(text, f"q{i}", **options) for i, text in enumerate(texts)]


def completions(results: Sequence[Completion | Failure]) -> list[Completion]:
    """The results, none of which may be a failure."""
    for result in results:
        assert isinstance(result, Completion), result
    return list(results)


def outcome(completion: Completion) -> tuple:
    """All of a completion that company may not change (log-probabilities differ in the last bits)."""
    c = completion
    return c.text, c.finish_reason, c.prompt_tokens, c.completion_tokens, c.token_ids, c.dropped


