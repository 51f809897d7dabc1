"""Chains of thought: sentence by sentence, until one says what the answer is (IRCoT, FLARE, ITER-RETGEN)."""

from __future__ import annotations

import re

from evoctx_torch.methods.steps import WRAPPING, without_period

ANSWER_IS = re.compile(r"\banswer\s+is\b[ \t]*:?[ \t]*", re.IGNORECASE)
END = re.compile(r"[.!?…]+[\"'”’)\]*]*(?=\s|$)|\n")
# After these a period ends no sentence, whatever follows.
ABBREVIATIONS = re.compile(
    r"mr|mrs|ms|dr|prof|rev|hon|st|mt|ft|jr|sr|gen|col|maj|capt|lt|sgt|sen|rep|gov|pres|vs|ca|cf|fig|vol|eds?|pp|al|e\.g|i\.e|"
    r"jan|feb|mar|apr|aug|sept?|oct|nov|dec|inc|ltd|co|corp|bros|dept|univ", re.IGNORECASE)
INITIALS = re.compile(r"(?:\w\.)*[^\W\d_]")


def answer_in(chain: str) -> str | None:
    """What stands after the last "answer is" of a chain, to the end of its line and without the sentence's period; None where
    nothing does."""
    found = list(ANSWER_IS.finditer(chain))
    said = chain[found[-1].end():].splitlines() if found else []
    return (without_period(said[0].strip(WRAPPING)).strip(WRAPPING) if said else "") or None


def joined(chain: str, sentence: str) -> str:
    """The chain with one more sentence."""
    return f"{chain} {sentence}".strip()


def first_sentence(reply: str) -> str:
    """The first sentence of a reply, after any thinking; "" where there is none."""
    begin, end = sentence_span(reply)
    return reply[begin:end]


def sentence_span(reply: str) -> tuple[int, int]:
    """Where the first sentence of a reply begins and ends, after any thinking and white space; both the reply's end where
    there is none. A sentence ends at its line's end at the latest. Periods of abbreviations, initials and list numbers, and
    those before a small letter, end none.
    """
    begin = reply.rfind("</think>") + len("</think>") if "</think>" in reply else 0
    if "<think>" in reply[begin:]:
        return len(reply), len(reply)
    begin += len(reply[begin:]) - len(reply[begin:].lstrip())
    for mark in END.finditer(reply, begin):
        if mark.group() == "\n":
            return begin, begin + len(reply[begin:mark.start()].rstrip())
        if not (mark.group()[0] in ".…" and goes_on(reply[begin:mark.start()], reply[mark.end():])):
            return begin, mark.end()
    return begin, len(reply.rstrip()) if reply[begin:] else begin


def goes_on(before: str, after: str) -> bool:
    """Whether a period between these texts stands inside a sentence."""
    follows, word = after.lstrip(), (before.split() or [""])[-1].lstrip("\"'“‘([*")
    if not follows:
        return False
    number = (before == word and word.isdigit()) or (word.lower() == "no" and follows[0].isdigit())
    return follows[0].islower() or number or any(pattern.fullmatch(word) for pattern in (ABBREVIATIONS, INITIALS))
