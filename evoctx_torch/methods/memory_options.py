"""The options of methods that remember (`Method.remembers`): theirs derive from these, which the assembly of a run reads."""

from __future__ import annotations

from dataclasses import dataclass

from evoctx_torch.errors import UsageError
from evoctx_torch.options import option


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """Where thoughts are kept, who sees them, and when. `wave` counts questions and changes answers, unlike the batch size."""

    memory: str | None = option(None, "file of the thoughts, made if it is not there, shared by runs (default: one in the run's folder)")
    wave: int = option(32, "questions that see the same memory; what they remember is stored together after them", unit="questions",
                       paper="1", low=1)
    freeze_memory: bool = option(False, "only read the memory: distil and store nothing")
    known_thoughts: int | None = option(None, "see only the first N thoughts of --memory, besides this run's own", unit="thoughts", low=0)

    def check(self) -> None:
        """A memory that begins empty has no first thoughts."""
        if self.known_thoughts is not None and self.memory is None:
            raise UsageError("--known-thoughts counts the thoughts of --memory FILE, and none is given: add it, or leave this one out")
