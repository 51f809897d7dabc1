"""Reading what models write: the reply formats that the prompts ask for (design, section 5)."""

from __future__ import annotations

import re

from evoctx_torch.metrics.extract import split_thinking
from evoctx_torch.operations import RETRIEVE, THINK

ACTION = re.compile(rf"\b({RETRIEVE}|{THINK})\b", re.IGNORECASE)
UNPARSABLE = "unparsable"


def action_word(text: str) -> str:
    """The first RETRIEVE or THINK in a reply, whatever its case, what stands after any thinking first (and never the tag
    `<think>`); anything else is `unparsable`."""
    thinking, rest = split_thinking(text)
    found = ACTION.search(rest) or ACTION.search(thinking or "")
    return found.group(1).upper() if found else UNPARSABLE


def reasoning(text: str) -> str:
    """The trace of a decision call: what stands inside <think>, else the whole reply (PAPERS section 1)."""
    thinking, rest = split_thinking(text)
    return (thinking or rest).strip()


def one_line(text: str, label: str) -> str:
    """The first non-empty line after any thinking, without a leading `label:` (`Sub-question: …`)."""
    _, rest = split_thinking(text)
    line = next((line.strip() for line in rest.splitlines() if line.strip()), "")
    return re.sub(rf"^[*_]*{re.escape(label)}[\s*_]*:[\s*_]*", "", line, flags=re.IGNORECASE).strip()


def subquery_pair(text: str) -> tuple[str, str]:
    """`Sub-query: …` and `Sub-answer: …` of a reply (ACE's thinking), both empty unless it has both.

    The first label may be missing: a prompt may end with it.
    """
    before, *after = re.split(r"^[\s*]*sub-answer[\s*]*:", split_thinking(text)[1], maxsplit=1, flags=re.IGNORECASE | re.MULTILINE)
    asked = re.split(r"^[\s*]*sub-query[\s*]*:", before, maxsplit=1, flags=re.IGNORECASE | re.MULTILINE)[-1]
    found = tuple(one_line(part.lstrip("* "), "") for part in (asked, *after))
    return found if len(found) == 2 and all(found) else ("", "")
