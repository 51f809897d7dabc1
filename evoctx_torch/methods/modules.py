"""The test-time modules that any retrieving method may switch on (arXiv 2603.12396)."""

from __future__ import annotations

from dataclasses import dataclass

from evoctx_torch.options import option


@dataclass(frozen=True, slots=True)
class Modules:
    """De-duplication comes first where both are on (hybrid; the order is open in the paper)."""

    dedup: bool = option(False, "never show a document twice: a seen one gives way to the next-ranked unseen one", paper="a module")
    contextualize: bool = option(False, "a contextualizer extracts what new passages say on the question; extracts are kept for the episode",
                                 paper="a module")

    @property
    def templates(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What their own prompts are made of, as `Method.templates`."""
        return (("head", ("contextualize",)),) if self.contextualize else ()


NO_MODULES = Modules()
