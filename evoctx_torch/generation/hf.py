"""Batched generation with transformers: every row as if it were alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from evoctx_torch.errors import UsageError
from evoctx_torch.generation.batching import micro_batches
from evoctx_torch.generation.endings import RowEnding, RowEndings, Vocabulary
from evoctx_torch.generation.models import load_model
from evoctx_torch.generation.sampling import RowSampler
from evoctx_torch.generation.settings import Roles
from evoctx_torch.generation.tokens import PromptTokenizer
from evoctx_torch.keys import row_seed
from evoctx_torch.operations import Completion, Failure, Generate, Pending
from evoctx_torch.transcript import OverLength

log = logging.getLogger(__name__)

GREEDY = Roles()


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


class HFGenerator:
    """Answers `Generate` operations with one transformers causal language model.

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
        max_batch_tokens: int = 8192,
        context_length: int | None = None,
        canonical: bool = False,
    ) -> None:
        self.model = model.eval()
        self.tokens = PromptTokenizer(tokenizer)
        self.roles = roles
        self.seed = seed
        self.max_batch_tokens = max_batch_tokens
        self.context_length = _context_length(model, context_length)
        self.canonical = canonical
        eos, self._pad = _special_ids(model, tokenizer)
        self._vocabulary = Vocabulary(tokenizer, eos)
        self._said_out_of_memory = False

    def answer(self, pending: Sequence[Pending]) -> list[Completion | Failure]:
        """One completion or failure a row, in the order of `pending`, which holds `Generate` operations only."""
        results: list[Completion | Failure | None] = [None] * len(pending)
        requests: dict[int, Request] = {}
        for row, item in enumerate(pending):
            request = self._request(item)
            if isinstance(request, Failure):
                results[row] = request
            else:
                requests[row] = request
        rows = list(requests)
        sizes = [(len(requests[row].ids), requests[row].max_new_tokens) for row in rows]
        for batch in micro_batches(sizes, 1 if self.canonical else self.max_batch_tokens):
            chosen = [rows[i] for i in batch]
            for row, result in zip(chosen, self._complete([requests[row] for row in chosen]), strict=True):
                results[row] = result
        return results  # type: ignore[return-value]  # every row was filled in above

    def _request(self, item: Pending) -> Request | Failure:
        operation = item.operation
        assert isinstance(operation, Generate), f"a generator was asked for {type(operation).__name__}"
        settings, limit = self.roles.of(operation), self.roles.max_new_tokens(operation)
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
        return Request(ids, dropped, operation.stop, limit, settings.temperature, settings.top_p, seed)

    def _complete(self, requests: list[Request]) -> list[Completion | Failure]:
        """Generate one micro-batch; when memory runs out, its halves."""
        try:
            return self._generate(requests)
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

    def _generate(self, requests: list[Request]) -> list[Completion | Failure]:
        device = self.model.device
        width = max(len(r.ids) for r in requests)
        input_ids = torch.full((len(requests), width), self._pad, dtype=torch.long)
        mask = torch.zeros_like(input_ids)
        for row, request in enumerate(requests):
            input_ids[row, width - len(request.ids):] = torch.tensor(request.ids)
            mask[row, width - len(request.ids):] = 1
        endings = [RowEnding(self._vocabulary, r.max_new_tokens, r.stop) for r in requests]
        sampler = RowSampler([r.seed for r in requests], [r.temperature for r in requests], [r.top_p for r in requests], device)
        config = GenerationConfig(
            max_new_tokens=max(r.max_new_tokens for r in requests), do_sample=False, use_cache=True,
            eos_token_id=sorted(self._vocabulary.eos) or None, pad_token_id=self._pad,
        )
        # `generate` derives the positions from the mask: a row's first token has position 0 wherever it stands.
        with torch.inference_mode(), _own_defaults_only(self.model):
            self.model.generate(
                input_ids=input_ids.to(device), attention_mask=mask.to(device), generation_config=config,
                logits_processor=[sampler], stopping_criteria=[RowEndings(endings, sampler)],
            )
        return [_result(request, ending) for request, ending in zip(requests, endings, strict=True)]


def load_hf_generator(
    name: str, roles: Roles = GREEDY, seed: int = 0, *, device: str = "auto", dtype: str = "auto", max_batch_tokens: int = 8192,
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
        stopped_by=ending.stopped_by,
    )


def _context_length(model: PreTrainedModel, chosen: int | None) -> int:
    positions = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if chosen is not None and positions is not None and chosen > positions:
        raise UsageError(f"--context-length is {chosen}; expected at most {positions}, the positions of {model.name_or_path}")
    if chosen is None and positions is None:
        raise UsageError(f"the config of {model.name_or_path} has no max_position_embeddings: set --context-length")
    return chosen or positions


def _special_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], int]:
    """The eos ids and a pad id. Padding is told by the mask, so any id of the vocabulary serves."""
    defaults = model.generation_config
    eos = defaults.eos_token_id if defaults.eos_token_id is not None else tokenizer.eos_token_id
    eos = [] if eos is None else [eos] if isinstance(eos, int) else list(eos)
    pads = [pad for pad in (defaults.pad_token_id, tokenizer.pad_token_id, *eos) if pad is not None and pad >= 0]  # some write -1
    return eos, pads[0] if pads else 0


@contextmanager
def _own_defaults_only(model: PreTrainedModel) -> Iterator[None]:
    """`generate` fills what a GenerationConfig leaves open from the checkpoint's: hide that one for the call."""
    checkpoint, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = checkpoint
