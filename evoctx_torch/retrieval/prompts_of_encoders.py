"""What stands before a query and before a passage, for encoders that were trained with it. Imports no torch."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoctx_torch.errors import UsageError

_SEARCH = "Given a web search query, retrieve relevant passages that answer the query"


@dataclass(frozen=True, slots=True)
class Prompts:
    """Put before the text as they are, blanks and line breaks included."""

    query: str = ""
    passage: str = ""


# By the model's name, for those whose own files do not tell. Sources: the model cards of intfloat/e5-*, BAAI/bge-*-en-v1.5, Qwen/Qwen3-Embedding-*.
# An encoder that is not here (all-MiniLM, Contriever) has none.
BY_NAME = (
    (re.compile(r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?", re.IGNORECASE), Prompts("query: ", "passage: ")),
    (re.compile(r"(multilingual-e5-large|e5-mistral-7b)-instruct", re.IGNORECASE), Prompts(f"Instruct: {_SEARCH}\nQuery: ")),
    (re.compile(r"bge-(small|base|large)-en(-v1\.5)?", re.IGNORECASE), Prompts("Represent this sentence for searching relevant passages: ")),
    (re.compile(r"qwen3-embedding-[\d.]+b", re.IGNORECASE), Prompts(f"Instruct: {_SEARCH}\nQuery:")),
)


def prompts_of(name: str, folder: Path) -> Prompts:
    """The prompts of the encoder `name` whose files lie in `folder`: those of its config_sentence_transformers.json if that
    holds any for queries or passages, else those of `BY_NAME`, by a part of the name or path, else none.

    Raises `UsageError` when the file cannot be read.
    """
    own = _own(folder)
    if own is not None:
        return own
    parts = [part.rpartition("--")[2] for part in Path(name).parts]  # a folder of the hub's cache is models--intfloat--e5-base-v2
    return next((prompts for pattern, prompts in BY_NAME if any(map(pattern.fullmatch, parts))), Prompts())


def _own(folder: Path) -> Prompts | None:
    path = folder / "config_sentence_transformers.json"
    if not path.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")).get("prompts") or {}
        query, passage = found.get("query") or "", next((found[key] for key in ("document", "passage", "corpus") if found.get(key)), "")
    except (ValueError, AttributeError) as error:
        raise UsageError(f"{path} is no sentence-transformers configuration ({error})") from error
    return Prompts(query, passage) if query or passage else None
