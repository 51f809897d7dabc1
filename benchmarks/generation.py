"""What batching saves: naive RAG answered eight rows at a time against one at a time, equal texts, CPU seconds of both.

    python benchmarks/generation.py [--questions 16] [--batch-size 8] [--max-new-tokens 48] [--model smollm2] [--data demo]

Prompts hold the gold passages of each question. Stop strings are left out, so that rows run to the same 48 tokens
unless the model ends them. Float32 on the CPU; rows are sorted by length, and each micro-batch and its rows one by one
are timed in turn, so that both see the same machine. On a CPU only decoding gains: the ratio falls with the length of
the prompts, whose padded batch also costs the attention its causal shortcut. Set OMP_NUM_THREADS=1 to compare figures.
Without `--data` the HotpotQA slice of the shared data is used where it is, else the demo world.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoctx_torch.data.corpus import Corpus, load_corpus
from evoctx_torch.data.datasets import resolve
from evoctx_torch.data.questions import load_questions
from evoctx_torch.evidence import Evidence
from evoctx_torch.generation.hf import HFGenerator, load_hf_generator
from evoctx_torch.generation.models import prompt_family
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.operations import Completion, Generate, Pending, Question
from evoctx_torch.prompts import Family

SHARED = Path(os.environ.get("EVOCTX_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data" / "hotpotqa"


@dataclass
class Cost:
    """CPU seconds and tokens of the same rows, together and one by one."""

    together: float = 0.0
    alone: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def ratio(self) -> float:
        return self.alone / self.together


def context(question: Question, corpus: Corpus) -> Evidence:
    """The question with its gold passages."""
    wanted = set(question.metadata["supporting_passage_ids"])
    return Evidence(question.text, [passage for passage in corpus if passage.id in wanted])


def prompts(data: str, questions: int, family: Family) -> list[Pending]:
    """The answer calls of naive RAG, shortest prompt first."""
    files = resolve(data)
    corpus = load_corpus(files.corpus)
    asked = [
        Pending(question.id, 0, Generate("generator", family.prompt("answer", context(question, corpus))[0]))
        for question in load_questions(files.queries, questions)
    ]
    return sorted(asked, key=lambda pending: len(pending.operation.prompt.text))


def answers(generator: HFGenerator, pending: Sequence[Pending]) -> tuple[float, list[Completion]]:
    """CPU seconds and completions; every row must have one."""
    began = time.process_time()
    results = generator.answer(pending)
    spent = time.process_time() - began
    failed = [result for result in results if not isinstance(result, Completion)]
    assert not failed, failed
    return spent, results


def measure(generator: HFGenerator, pending: Sequence[Pending], batch_size: int) -> Cost:
    """Time both ways in turn and hold their texts against each other."""
    cost = Cost()
    answers(generator, [pending[0]._replace(operation=Generate("generator", pending[0].operation.prompt, 1))])  # warm up
    for start in range(0, len(pending), batch_size):
        rows = pending[start:start + batch_size]
        spent, together = answers(generator, rows)
        cost.together += spent
        for row, expected in zip(rows, together, strict=True):
            spent, (alone,) = answers(generator, [row])
            cost.alone += spent
            assert alone.text == expected.text, f"{row.question_id} alone: {alone.text!r}, in a batch: {expected.text!r}"
        cost.prompt_tokens += sum(c.prompt_tokens for c in together)
        cost.completion_tokens += sum(c.completion_tokens for c in together)
    return cost


def prepare(model: str, data: str, questions: int, max_new_tokens: int) -> tuple[HFGenerator, list[Pending]]:
    """The loaded generator, whose budget takes any batch asked for here, and the prompts."""
    roles = Roles(RoleSettings(max_new_tokens))
    generator = load_hf_generator(model, roles, device="cpu", dtype="float32", max_batch_tokens=1 << 30)
    return generator, prompts(data, questions, Family(prompt_family(model)))


def test_batched_generation(benchmark: Any) -> None:
    """For pytest-benchmark: `pytest benchmarks/generation.py`."""
    generator, pending = prepare("smollm2", str(SHARED) if SHARED.is_dir() else "demo", 8, 16)
    cost = benchmark.pedantic(measure, (generator, pending, 8), rounds=1)
    benchmark.extra_info.update(together_s=cost.together, alone_s=cost.alone, ratio=cost.ratio)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--max-new-tokens", type=int, default=48)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--data", default=str(SHARED) if SHARED.is_dir() else "demo")
    options = parser.parse_args(argv)
    generator, pending = prepare(options.model, options.data, options.questions, options.max_new_tokens)
    cost = measure(generator, pending, options.batch_size)
    print(f"{len(pending)} questions of {options.data}, {cost.prompt_tokens} prompt and {cost.completion_tokens} new tokens, texts equal")
    print(f"  one at a time  {cost.alone:7.1f} CPU s")
    print(f"  B = {options.batch_size:<10} {cost.together:7.1f} CPU s")
    print(f"  ratio          {cost.ratio:7.2f}")


if __name__ == "__main__":
    main()
