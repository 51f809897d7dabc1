"""From what a model wrote to the answer that is scored: one documented rule (docs/metrics.md, Extraction)."""

from __future__ import annotations

import re

from evoctx_torch.errors import UsageError

RULES = ("first-line", "full")

_TAGS = re.compile(r"(</?think>)")
_PREFIX = re.compile(r"answer:", re.IGNORECASE)


def extract(raw: str, rule: str = "first-line") -> str:
    """The prediction in `raw`, without its thinking; "" when nothing is left.

    `full`: all of it, trimmed. `first-line`: the first non-empty line, trimmed, without a leading `Answer:`
    (which may also stand on a line of its own). Raises `UsageError` for another rule.
    """
    if rule not in RULES:
        raise UsageError(f"--extract is {rule!r}; expected one of {', '.join(RULES)}")
    text = split_thinking(raw)[1].strip()
    if rule == "full":
        return text
    prefix = _PREFIX.match(text)
    lines = text[prefix.end() if prefix else 0:].strip().splitlines()
    return lines[0].strip() if lines else ""


def split_thinking(raw: str) -> tuple[str | None, str]:
    """(text inside `<think>`, trimmed; the text outside, verbatim). The first is None when `raw` has no think tag.

    A block that is not closed reaches to the end. A `</think>` that was not opened closes what stands before it:
    chat templates of thinking models put the opening tag into the prompt. Several blocks are joined by newlines.
    """
    thinking: list[str] = []
    outside: list[str] = []
    inside = False
    pieces = _TAGS.split(raw)
    for piece in pieces:
        if piece == "<think>":
            inside = True
        elif piece == "</think>":
            if not inside:
                thinking.append("".join(outside))
                outside.clear()
            inside = False
        else:
            (thinking if inside else outside).append(piece)
    if len(pieces) == 1:
        return None, raw
    return "\n".join(part.strip() for part in thinking if part.strip()), "".join(outside)
