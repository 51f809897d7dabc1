"""Agents of one model that differ by their system prompt."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from evoctx_torch.errors import UsageError
from evoctx_torch.transcript import Prompt, Segment


def assign(agents: int, file: str | None) -> Counter[str | None]:
    """System prompt -> how many agents have it, taken from the first again where there are fewer; None is the role's own.

    Raises `UsageError` for a file that cannot be used.
    """
    texts = [None] if file is None else read(Path(file))
    return Counter(texts[agent % len(texts)] for agent in range(agents))


def read(path: Path) -> list[str]:
    """The system prompts of a file: a JSON list of texts, or one a line. Raises `UsageError`."""
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
        found = json.loads(text) if text.startswith(("[", "{")) else [line.strip() for line in text.splitlines() if line.strip()]
    except OSError as error:
        raise UsageError(f"--personas {path}: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, or not the JSON that it begins as
        raise UsageError(f"--personas {path}: expected a system prompt a line, or a JSON list of them: {error}") from None
    if isinstance(found, dict):
        raise UsageError(f"--personas {path} is a JSON object; expected a list of texts, or a system prompt a line")
    if not found:
        raise UsageError(f"--personas {path} is empty; expected a system prompt a line, or a JSON list of them")
    if wrong := [persona for persona in found if not isinstance(persona, str) or not persona.strip()]:
        raise UsageError(f"--personas {path} holds {wrong[0]!r}; expected texts that are not blank")
    return found


def speaking(prompt: Prompt, system: str | None) -> Prompt:
    """The prompt as that agent gets it: a chat's system message, or the first words of a text to be continued."""
    if system is None:
        return prompt
    return replace(prompt, system=system) if prompt.chat else replace(prompt, segments=(Segment(f"{system}\n\n"), *prompt.segments))
