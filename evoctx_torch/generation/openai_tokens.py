"""The text and log-probability of every generated token, as OpenAI-compatible servers send them."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import Any

from evoctx_torch.generation.backoff import Trouble

Tokens = tuple[tuple[str, ...], tuple[float, ...]]


def read_tokens(choice: Mapping[str, Any], written: str) -> Tokens | None:
    """(text, natural log-probability) of each token of a reply whose text is `written`; None where the server sent none.

    Chat completions have `logprobs.content`, a list of `{token, logprob, bytes}`; completions have the lists
    `logprobs.tokens` and `logprobs.token_logprobs`. The texts together are `written`: what tokens say besides (an eos, a stop
    string that the server cut, thinking that it moved to a field of its own) is left out of their texts. A character made of
    several tokens belongs to the one that completes it. Raises `Trouble` for lists that do not give the text.
    """
    match choice.get("logprobs"):
        case {"content": [*tokens]}:
            texts = decoded(tokens)
            logprobs = [token.get("logprob") if isinstance(token, dict) else None for token in tokens]
        case {"tokens": [*texts], "token_logprobs": [*logprobs]}:
            pass
        case _:
            return None
    if len(texts) != len(logprobs) or not all(type(p) in (int, float) for p in logprobs) or not all(isinstance(t, str) for t in texts):
        raise Trouble("the reply's logprobs are not a text and a number for each token", tries=1)
    begin = "".join(texts).find(written)
    if begin < 0:
        raise Trouble("the tokens in the reply's logprobs do not give its text", tries=1)
    return tuple(clipped(texts, begin, begin + len(written))), tuple(map(float, logprobs))


def decoded(tokens: Sequence[Any]) -> list[str]:
    """What each token adds to the text, by its bytes, which may be a part of a character; by its text where it has none."""
    decoder, texts = codecs.getincrementaldecoder("utf-8")("replace"), []
    for token in tokens:
        match token:
            case {"bytes": [*numbers]} if all(isinstance(n, int) and 0 <= n < 256 for n in numbers):
                texts.append(decoder.decode(bytes(numbers)))
            case {"token": str() as text}:
                texts.append(decoder.decode(b"", final=True) + text)
                decoder.reset()
            case _:
                raise Trouble("the reply's logprobs hold a token without text", tries=1)
    if texts:
        texts[-1] += decoder.decode(b"", final=True)
    return texts


def clipped(texts: Sequence[str], begin: int, end: int) -> list[str]:
    """The part of each text that lies between two places of their concatenation."""
    kept, place = [], 0
    for text in texts:
        kept.append(text[max(begin - place, 0):max(end - place, 0)])
        place += len(text)
    return kept
