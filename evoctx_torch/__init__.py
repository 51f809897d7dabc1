"""evoctx_torch: thousands of retrieve-or-think question-answering loops in lockstep.

The names below are imported at first use, so that `import evoctx_torch` and `evoctx --help` need no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evoctx_torch.data.corpus import Corpus, load_corpus
    from evoctx_torch.data.questions import load_questions
    from evoctx_torch.engine import Engine
    from evoctx_torch.generation.hf import HFGenerator
    from evoctx_torch.generation.openai_client import OpenAIGenerator
    from evoctx_torch.retrieval.encoder import Encoder
    from evoctx_torch.retrieval.executor import Retriever

_HOMES = {
    "Corpus": "data.corpus", "load_corpus": "data.corpus", "load_questions": "data.questions", "Engine": "engine",
    "HFGenerator": "generation.hf", "OpenAIGenerator": "generation.openai_client", "Encoder": "retrieval.encoder",
    "Retriever": "retrieval.executor",
}
__all__ = ["Corpus", "Encoder", "Engine", "HFGenerator", "OpenAIGenerator", "Retriever", "load_corpus", "load_questions"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evoctx_torch' has no attribute {name!r}")
    return getattr(importlib.import_module(f"evoctx_torch.{_HOMES[name]}"), name)
