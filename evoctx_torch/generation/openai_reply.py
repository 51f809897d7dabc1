"""What a server's reply means: a completion, a prompt that was too long, or trouble. Bytes in, no client needed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evoctx_torch.generation.backoff import Trouble, retry_after
from evoctx_torch.generation.openai_request import well_formed
from evoctx_torch.generation.openai_tokens import read_tokens
from evoctx_torch.generation.stop import cut
from evoctx_torch.operations import Completion

FINISHED = {"stop": "eos", "eos": "eos", "eos_token": "eos", "stop_sequence": "stop", "length": "length"}
MAY_PASS = frozenset({408, 409, 429})  # statuses worth another try, besides 5xx
HINTS = {
    401: " (is OPENAI_API_KEY set, and right for this server?)",
    403: " (is OPENAI_API_KEY right for this server and model?)",
    404: " (does the server have this model, and is --base-url the root of its interface, often /v1?)",
}
TOO_LONG = re.compile(  # there is no standard: OpenAI, vLLM, SGLang and llama.cpp; newer vLLM; TGI; others
    r"context[ _-]?(length|size|window)|longer than the maximum model length|max_new_tokens.{0,3} must be <=|(prompt|input) (is )?too long",
    re.IGNORECASE,
)


class TooLong(Trouble):
    """The server refused a prompt for its length."""


def read_completion(content: bytes, stop: Sequence[str], dropped: tuple[str, ...] = (), pieces: bool = False) -> Completion:
    """The completion in the body of a reply with status 200.

    Text is cut before the first stop string, whether or not the server did so. The server's `stop` becomes `stop` if
    we cut or it names one of our strings (`stop_reason` of vLLM, `matched_stop` of SGLang), else `eos`: a server that
    stops at a string and does not say so cannot be told from one that ended. A reasoning parser's field goes back in
    front as `<think>…</think>`, as the model wrote it. `computed_prompt_tokens` leaves out what the server reports
    as cached. With `pieces` the server was asked for log-probabilities, which are read (`openai_tokens`).

    Raises `Trouble` for everything else. A reply without `usage` is asked for once more, then its row fails: counts
    of zero would make a run look cheap, and the server's are the only ones there are.
    """
    body = parse(content)
    match body:
        case {"choices": [{"message": {"content": str() | None as written, **message}, "finish_reason": finish, **choice}, *_]}:
            text, stopped = cut(written or "", stop)
            thinking = message.get("reasoning_content") or message.get("reasoning")
            if isinstance(thinking, str):
                text = f"<think>{thinking}</think>{text}"
        case {"choices": [{"text": str() as written, "finish_reason": finish, **choice}, *_]}:
            text, stopped = cut(written, stop)
        case {"error": error} if error:  # some gateways report errors with status 200
            raise Trouble(f"an error in place of a reply: {message_of(body) or error}")
        case _:
            raise Trouble(f"a reply without a choice that has text and a finish_reason: {readable(content)}")
    if not isinstance(finish, str) or finish not in FINISHED:
        raise Trouble(f"the reply ended with finish_reason {finish!r}; expected stop or length", tries=2)
    reason = FINISHED[finish]
    if stopped is None and reason == "eos":
        stopped = next((said for key in ("stop_reason", "matched_stop") if (said := choice.get(key)) in stop), None)
    if stopped is not None:
        reason = "stop"
    if not text.strip():
        reason = "empty"
    texts, logprobs = (read_tokens(choice, written or "") if pieces else None) or (None, None)
    return Completion(well_formed(text), reason, *read_usage(body), logprobs=logprobs, dropped=dropped, pieces=texts, stopped_by=stopped)


def read_usage(body: dict[str, Any]) -> tuple[int, int, int]:
    """(prompt tokens, those not taken from the server's cache, completion tokens)."""
    match body.get("usage"):
        case {"prompt_tokens": int() as prompt, "completion_tokens": int() as completion, **more} if prompt >= 0 <= completion:
            match more.get("prompt_tokens_details"):
                case {"cached_tokens": int() as cached} if 0 <= cached <= prompt:
                    return prompt, prompt - cached, completion
            return prompt, prompt, completion
        case usage:
            raise Trouble(f"the reply has no token counts: usage is {json.dumps(usage)}; expected prompt_tokens and completion_tokens", tries=2)


def refusal(status: int, content: bytes, headers: Mapping[str, str]) -> Trouble:
    """What a reply with an error status means: `TooLong`, or `Trouble` with a hint, tried again if it may pass."""
    try:
        body = parse(content)
    except Trouble:
        body = None
    words = message_of(body)
    match body:
        case {"error": {**error}}:
            labels = f"{error.get('code')} {error.get('type')}"
        case _:
            labels = ""
    if status != 429 and TOO_LONG.search(f"{words} {labels}"):
        return TooLong(f"HTTP {status}: {words}", tries=1)
    message = f"HTTP {status}{HINTS.get(status, '')}: {words or readable(content)}"
    if status in MAY_PASS or status >= 500:
        return Trouble(message, wait_s=retry_after(headers))
    return Trouble(message, tries=1)


def parse(content: bytes) -> Any:
    """JSON, or `Trouble` with what came instead (a proxy's HTML page, half a reply)."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Trouble(f"the reply is no JSON: {readable(content)}") from None


def message_of(body: Any) -> str:
    """The words of an error body, in the shapes `{"error": {"message"}}`, `{"error": text}`, `{"message"}`, `{"detail"}`; "" if none."""
    match body:
        case {"error": {"message": str() as message}} | {"error": str() as message}:
            return message
        case {"message": str() as message} | {"detail": str() as message}:
            return message
    return ""


def readable(content: bytes) -> str:
    return content.decode("utf-8", "replace")
