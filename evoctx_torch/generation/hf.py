"""Batched generation with transformers: every row as if it were alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from transformers import GenerationConfig, LogitsProcessor, PreTrainedModel, PreTrainedTokenizerBase, StoppingCriteria

from evoctx_torch.generation.batching import micro_batches
from evoctx_torch.generation.endings import RowEnding, RowEndings, Vocabulary
from evoctx_torch.generation.models import load_model, room_of, special_ids
from evoctx_torch.generation.sampling import RowSampler
from evoctx_torch.generation.scoring import Choice, LabelReader, Labels, draw, label_tokens
from evoctx_torch.generation.settings import MAX_BATCH_TOKENS, Roles
from evoctx_torch.generation.tokens import PromptTokenizer
from evoctx_torch.keys import row_seed
from evoctx_torch.operations import Completion, Failure, Generate, Pending, Score, Scored
from evoctx_torch.transcript import OverLength, Prompt

log = logging.getLogger(__name__)

GREEDY = Roles()
ENDLESS = 1 << 30  # a budget that every prompt fits


@dataclass(frozen=True, slots=True)
class Request:
    """One row, ready for the model."""

    ids: list[int]
    dropped: tuple[str, ...]
    stop: tuple[str, ...]
    max_new_tokens: int
    temperature: float
    top_p: float
    seed: int
    pieces: bool = False
    choice: Choice | None = None  # of a row that is scored, not generated

    @property
    def kind(self) -> tuple[int, int] | None:
        """Rows of one kind go into one batch: None for those to be generated, (options, draws) for those to be scored."""
        return self.choice and (len(self.choice.labels), self.choice.samples)


class HFGenerator:
    """Answers `Generate` and `Score` operations with one transformers causal language model.

    Rows are generated in left-padded, length-sorted micro-batches of at most `max_batch_tokens` padded tokens. In
    float32 on the CPU a row's tokens do not depend on the others; `canonical` generates row by row, which makes that
    exact in every precision. Decoding is governed by `roles` alone: of the checkpoint's generation_config only eos and
    pad are used (not its repetition penalty, temperature or top-k).

    `context_length` (tokens, prompt and completion together) defaults to the model's positions. Raises `UsageError`
    when the model does not tell, or has fewer.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        roles: Roles = GREEDY,
        seed: int = 0,
        *,
        max_batch_tokens: int = MAX_BATCH_TOKENS,
        context_length: int | None = None,
        canonical: bool = False,
    ) -> None:
        self.model = model.eval()
        self.tokens = PromptTokenizer(tokenizer)
        self.roles = roles
        self.seed = seed
        self.max_batch_tokens = max_batch_tokens
        self.context_length = room_of(model, context_length)
        self.canonical = canonical
        eos, self._pad = special_ids(model, tokenizer)
        self._vocabulary = Vocabulary(tokenizer, eos)
        self._said_out_of_memory = False
        self._label_tokens = lru_cache(self._read_labels)
        self._prior = lru_cache(self._read_prior)

    def answer(self, pending: Sequence[Pending]) -> list[Completion | Scored | Failure]:
        """One result a row, in the order of `pending`."""
        results: list[Completion | Scored | Failure | None] = [None] * len(pending)
        requests: dict[int, Request] = {}
        for row, item in enumerate(pending):
            request = self._request(item)
            if isinstance(request, Failure):
                results[row] = request
            else:
                requests[row] = request
        for kind in dict.fromkeys(request.kind for request in requests.values()):
            rows = [row for row, request in requests.items() if request.kind == kind]
            sizes = [(len(requests[row].ids), requests[row].max_new_tokens) for row in rows]
            for batch in micro_batches(sizes, 1 if self.canonical else self.max_batch_tokens):
                chosen = [rows[i] for i in batch]
                for row, result in zip(chosen, self._complete([requests[row] for row in chosen]), strict=True):
                    results[row] = result
        return results  # type: ignore[return-value]  # every row was filled in above

    def check(self, operation: Generate | Score) -> None:
        """Raise `UsageError` where the model's chat template cannot carry the prompt, or its tokens cannot tell the options apart."""
        self.tokens.encode(operation.prompt, ENDLESS)
        if isinstance(operation, Score):
            self._labels(operation.prompt, operation.options)

    def _labels(self, prompt: Prompt, options: tuple[str, ...]) -> Labels:
        """The tokens of the options after a prompt: they depend on its end alone."""
        return self._label_tokens(replace(prompt, segments=prompt.segments[-1:], turns=prompt.turns[-1:]), options)

    def _read_labels(self, end: Prompt, options: tuple[str, ...]) -> Labels:
        return label_tokens(self.tokens.tokenizer, self.tokens.encode(end, ENDLESS)[0], options)

    def _request(self, item: Pending) -> Request | Failure:
        operation = item.operation
        assert isinstance(operation, (Generate, Score)), f"a generator was asked for {type(operation).__name__}"
        settings, labels = self.roles.of(operation), self._labels(operation.prompt, operation.options) if isinstance(operation, Score) else None
        limit = self.roles.max_new_tokens(operation) if labels is None else len(labels.shared) + 1
        if limit < 1:
            return Failure("error", f"max_new_tokens of role {operation.role} is {limit}; expected at least 1")
        try:
            ids, dropped = self.tokens.encode(operation.prompt, self.context_length - limit)
        except OverLength as error:
            message = f"{error} (context of {self.context_length} tokens less {limit} new ones)"
            return Failure("over_length", message, operation.prompt.passage_ids)
        if not ids:
            return Failure("error", f"the prompt of role {operation.role} is empty")
        seed = row_seed(self.seed, item.question_id, item.number)
        if labels is not None:
            choice = Choice(labels.tokens, operation.samples, self._prior(operation.baseline, operation.options))
            return Request([*ids, *labels.shared], dropped, (), 1, settings.temperature, 1.0, seed, choice=choice)
        return Request(ids, dropped, operation.stop, limit, settings.temperature, settings.top_p, seed, operation.pieces)

    def _read_prior(self, baseline: Prompt | None, options: tuple[str, ...]) -> tuple[float, ...]:
        """What the options' log-probabilities are on a content-free prompt; zeros without one. Alone, so that company never changes it."""
        if baseline is None:
            return (0.0,) * len(options)
        ids, labels = self.tokens.encode(baseline, self.context_length)[0], self._labels(baseline, options)
        reader = LabelReader([labels.tokens])
        self._run([Request([*ids, *labels.shared], (), (), 1, 0.0, 1.0, 0)], reader)
        return tuple(reader.logits[0].double().log_softmax(0).tolist())

    def _complete(self, requests: list[Request]) -> list[Completion | Scored | Failure]:
        """Answer one micro-batch; when memory runs out, its halves."""
        try:
            return self._generate(requests) if requests[0].choice is None else self._score(requests)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            reason = " ".join(str(error).split())
        # Out of the handler: the traceback held the tensors that filled the memory.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        prompt, new = max(len(r.ids) for r in requests), max(r.max_new_tokens for r in requests)
        if len(requests) == 1:
            return [Failure("error", f"out of memory for one row of {prompt} + {new} tokens: {reason}", requests[0].dropped)]
        self.max_batch_tokens = min(self.max_batch_tokens, max(1, len(requests) * (prompt + new) // 2))
        if not self._said_out_of_memory:
            log.warning("out of memory with %d rows of %d + %d tokens: going on with halves; a --max-batch-tokens of %d avoids this",
                        len(requests), prompt, new, self.max_batch_tokens)
            self._said_out_of_memory = True
        half = (len(requests) + 1) // 2
        return self._complete(requests[:half]) + self._complete(requests[half:])

    def _score(self, requests: list[Request]) -> list[Scored | Failure]:
        choices = [r.choice for r in requests if r.choice is not None]
        reader = LabelReader([choice.labels for choice in choices])
        self._run(requests, reader)
        costs = [(len(r.ids), r.dropped) for r in requests]
        return draw(reader.logits, choices, [r.seed for r in requests], [r.temperature for r in requests], costs)

    def _generate(self, requests: list[Request]) -> list[Completion | Failure]:
        endings = [RowEnding(self._vocabulary, r.max_new_tokens, r.stop) for r in requests]
        sampler = RowSampler([r.seed for r in requests], [r.temperature for r in requests], [r.top_p for r in requests], self.model.device)
        self._run(requests, sampler, RowEndings(endings, sampler))
        return [_result(request, ending) for request, ending in zip(requests, endings, strict=True)]

    def _run(self, requests: list[Request], processor: LogitsProcessor, *stopping: StoppingCriteria) -> None:
        """Run the model on the left-padded prompts, as many steps as the longest row may take; `processor` sees each step's logits."""
        device = self.model.device
        width = max(len(r.ids) for r in requests)
        input_ids = torch.full((len(requests), width), self._pad, dtype=torch.long)
        mask = torch.zeros_like(input_ids)
        for row, request in enumerate(requests):
            input_ids[row, width - len(request.ids):] = torch.tensor(request.ids)
            mask[row, width - len(request.ids):] = 1
        config = GenerationConfig(
            max_new_tokens=max(r.max_new_tokens for r in requests), do_sample=False, use_cache=True,
            eos_token_id=sorted(self._vocabulary.eos) or None, pad_token_id=self._pad,
        )
        # `generate` derives the positions from the mask: a row's first token has position 0 wherever it stands.
        with torch.inference_mode(), _own_defaults_only(self.model):
            self.model.generate(
                input_ids=input_ids.to(device), attention_mask=mask.to(device), generation_config=config,
                logits_processor=[processor], stopping_criteria=list(stopping),
            )


def load_hf_generator(
    name: str, roles: Roles = GREEDY, seed: int = 0, *, device: str = "auto", dtype: str = "auto", max_batch_tokens: int = MAX_BATCH_TOKENS,
    context_length: int | None = None, canonical: bool = False,
) -> HFGenerator:
    """Load a model by name (see `models.load_model`) and wrap it. Raises `UsageError`."""
    model, tokenizer = load_model(name, device, dtype)
    return HFGenerator(model, tokenizer, roles, seed, max_batch_tokens=max_batch_tokens, context_length=context_length, canonical=canonical)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the device or on the host (torch raises a plain RuntimeError for the latter)."""
    words = str(error).lower()
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "not enough memory" in words or "can't allocate memory" in words


def _result(request: Request, ending: RowEnding) -> Completion | Failure:
    if ending.reason == "nan":
        message = f"the model gave NaN logits at new token {len(ending.ids) + 1}: try --dtype bfloat16 or float32"
        return Failure("error", message, request.dropped)
    reason = ending.finish_reason
    assert reason is not None, "generate returned before every row had ended"
    return Completion(
        text=ending.text, finish_reason=reason, prompt_tokens=len(request.ids), computed_prompt_tokens=len(request.ids),
        completion_tokens=len(ending.ids), token_ids=tuple(ending.ids), logprobs=tuple(ending.logprobs), dropped=request.dropped,
        pieces=ending.vocabulary.pieces(ending.ids) if request.pieces else None, stopped_by=ending.stopped_by,
    )


@contextmanager
def _own_defaults_only(model: PreTrainedModel) -> Iterator[None]:
    """`generate` fills what a GenerationConfig leaves open from the checkpoint's: hide that one for the call."""
    checkpoint, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = checkpoint
