"""The engine around a Llama of random weights, built from a config: tokens a second, and where the time goes.

    python benchmarks/engine_llama.py --out DIR [--size 1b] [--device cuda] [--batch-size 256] [--max-new-tokens 64]

Nothing is downloaded: weights are random, a token is a word, questions and passages are the packaged world's, the encoder
is the embedded one where it is installed, else one that hashes words. What such a model writes says nothing; how fast, and what it
costs around it, does not depend on that. Writes `engine.json`, and `trace.json` of the recorded ticks.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from evoctx_torch.boundary.controller import BoundaryExecutor
from evoctx_torch.data.corpus import load_corpus
from evoctx_torch.data.datasets import resolve
from evoctx_torch.data.questions import load_questions
from evoctx_torch.engine import Engine
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.profile import ProfileOptions, device_name, profile_engine
from evoctx_torch.generation.hf import HFGenerator
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.methods.evoctx import EvoCtxOptions
from evoctx_torch.operations import Question
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.retrieval.build import make_retriever
from evoctx_torch.retrieval.encoder import Encoder, TextEncoder
from evoctx_torch.retrieval.hashing import HashEncoder

# hidden, intermediate, layers, heads, key-value heads, vocabulary: those of Llama 3.2 1B and 3B and of Llama 3.1 8B
SIZES = {
    "tiny": (32, 64, 2, 4, 2, 500), "1b": (2048, 8192, 16, 32, 8, 128_256), "3b": (3072, 8192, 28, 24, 8, 128_256), "8b": (4096, 14336, 32, 32, 8, 128_256),
}  # fmt: skip


def build_generator(size: str, device: str, max_new_tokens: int, max_batch_tokens: int) -> HFGenerator:
    """A generator of random weights; bfloat16 on CUDA, float32 on the CPU."""
    hidden, intermediate, layers, heads, kv_heads, vocabulary = SIZES[size]
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, max_position_embeddings=8192, bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )
    words = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, vocabulary)}
    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>")
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if device.startswith("cuda") else torch.float32)
    try:
        with torch.device(device):
            model = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(default)
    return HFGenerator(model, tokenizer, Roles(RoleSettings(max_new_tokens)), max_batch_tokens=max_batch_tokens)


def build_encoder(device: str, tiny: bool) -> TextEncoder:
    """The embedded encoder, or one without weights."""
    if not tiny:
        with suppress(UsageError):
            return Encoder(device=device)
    return HashEncoder(384, device=device)


def throughput(engine: Engine, questions: Sequence[Question]) -> dict[str, float]:
    """Seconds, generated tokens a second and prompt tokens a second of whole episodes, all under way at once."""
    began = time.perf_counter()
    records = engine.run(questions)
    seconds = time.perf_counter() - began
    failed = [record for record in records if record.error or record.finish_reason == "over_length"]
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(records)} questions failed, the first: {failed[0].finish_reason}: {failed[0].error}")
    counts = [record.counts() for record in records]
    totals = {name: sum(count[name] for count in counts) for name in ("completion_tokens", "computed_prompt_tokens", "llm_calls", "retrieval_calls")}
    return {
        "questions": len(records), "seconds": seconds, "ticks": engine.ticks, **totals, "questions_per_s": len(records) / seconds,
        "completion_tokens_per_s": totals["completion_tokens"] / seconds, "prompt_tokens_per_s": totals["computed_prompt_tokens"] / seconds,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Build, time, profile, write."""
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--size", choices=SIZES, default="1b" if cuda else "tiny")
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ticks", type=int, default=5)
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    files = resolve("demo")
    few = load_questions(files.queries)
    questions = [replace(question, id=f"{question.id}-{number}") for number, question in enumerate(islice(cycle(few), options.batch_size))]
    model = build_generator(options.size, options.device, options.max_new_tokens, 1 << 18 if options.device.startswith("cuda") else 1 << 13)
    encoder = build_encoder(options.device, options.size == "tiny")
    engine = Engine(
        "evoctx", EvoCtxOptions(rounds=options.rounds, top_k=3), generator=model, retriever=make_retriever(load_corpus(files.corpus), encoder),
        controller=BoundaryExecutor(encoder, options.device), prompts=PromptBook(Family("completion")), batch_size=options.batch_size,
    )  # fmt: skip
    engine.run(questions[:2])  # what loads and compiles at its first call
    found = {
        "device": options.device, "device_name": device_name(options.device), "size": options.size,
        "parameters": sum(p.numel() for p in model.model.parameters()), "dtype": str(model.model.dtype).removeprefix("torch."),
        "encoder": encoder.name, "batch_size": options.batch_size, "max_new_tokens": options.max_new_tokens, "rounds": options.rounds,
        "torch": torch.__version__, "throughput": throughput(engine, questions),
    }  # fmt: skip
    write(options.out, found)  # kept whatever the profiler does
    profiled = profile_engine(engine, questions, options.device, ProfileOptions(options.ticks, 2), options.out / "trace.json", lambda *_: None)
    write(options.out, found | {"profile": profiled})
    rate = found["throughput"]
    print(f"{options.size} on {found['device_name']}: {rate['completion_tokens_per_s']:.0f} new tokens/s, {rate['prompt_tokens_per_s']:.0f} prompt tokens/s")
    print("  ".join(f"{row['phase']} {row['share']:.1%}" for row in profiled["phases"]))


def write(folder: Path, found: dict[str, Any]) -> None:
    """engine.json."""
    (folder / "engine.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
