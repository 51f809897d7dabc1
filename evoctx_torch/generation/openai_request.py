"""What is asked of an OpenAI-compatible server: prompt and settings as the body of one request."""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

from evoctx_torch.errors import UsageError
from evoctx_torch.generation.settings import Roles
from evoctx_torch.keys import row_seed
from evoctx_torch.operations import Generate, Pending
from evoctx_torch.transcript import Prompt, Segment, truncate

APIS = ("chat", "completions")
BYTES_PER_TOKEN = 2.5  # see estimated_tokens
MARKUP_TOKENS = 32  # allowance for a chat template and a begin-of-text token


def check_api(api: str, chat: bool = False) -> None:
    """`UsageError` unless `api` is an endpoint that takes these prompts: chat messages need the chat endpoint."""
    if api not in APIS:
        raise UsageError(f"--api is {api!r}; expected one of {', '.join(APIS)}")
    if chat and api == "completions":
        raise UsageError("--api completions continues plain text, but the prompts are chat messages: use --api chat, or completion templates")


def request_body(p: Pending, roles: Roles, seed: int, model: str, limit: str = "max_tokens") -> dict[str, Any]:
    """What both endpoints share: all but the prompt. `limit` is the server's name for the most tokens to generate.

    The seed is 31 bits (what servers store in an int32) of the row's: `keys.row_seed(seed, question id, number)`.
    """
    settings = roles.of(p.operation)
    body: dict[str, Any] = {
        "model": model,
        "temperature": settings.temperature,
        limit: roles.max_new_tokens(p.operation),
        "seed": row_seed(seed, p.question_id, p.number) & 0x7FFFFFFF,
    }
    if settings.top_p != 1:
        body["top_p"] = settings.top_p
    if p.operation.stop:
        body["stop"] = list(p.operation.stop)
    return body


def messages(prompt: Prompt) -> list[dict[str, str]]:
    """The prompt for the chat endpoint: its system text, if any, and one user message; then its turns, what the model
    wrote as the assistant's messages and observations as the user's (a server takes no half-written reply).
    """
    said = [] if prompt.system is None else [("system", prompt.system)]
    said.append(("user", "".join(segment.text for segment in prompt.segments)))
    for policy, turn in groupby(prompt.turns, lambda segment: segment.source == "policy"):
        said.append(("assistant" if policy else "user", "".join(segment.text for segment in turn)))
    return [{"role": role, "content": well_formed(content)} for role, content in said]


def fitted(operation: Generate, roles: Roles, context_length: int | None) -> tuple[Prompt, tuple[str, ...]]:
    """The prompt without the oldest passages that exceed the context (tokens), and their ids; `OverLength` as `truncate`."""
    prompt = operation.prompt
    if context_length is None:
        return prompt, ()
    extra = MARKUP_TOKENS + estimated_tokens(Segment(prompt.system or ""))
    return truncate(prompt, context_length - roles.max_new_tokens(operation), estimated_tokens, extra)


def estimated_tokens(segment: Segment) -> int:
    """An estimate on the safe side of a segment's tokens, since a server's tokenizer is not here: UTF-8 bytes / 2.5.

    Measured with SmolLM2's tokenizer (49,152 entries, every digit a token) on 3,600 passages of six data sets: 3.5 to
    4.5 bytes a token on average; the leanest prompt of ten passages had 2.8.
    """
    return math.ceil(len(well_formed(segment.text).encode()) / BYTES_PER_TOKEN)


def well_formed(text: str) -> str:
    """Text that UTF-8 can hold: half a surrogate pair, which JSON can smuggle in, becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")
