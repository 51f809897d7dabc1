"""The thought memory of a run: which file, what is refused before a model is loaded, and what a continued run still sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.config import RunConfig
from evoctx_torch.evaluation.folder import RunFolder
from evoctx_torch.evaluation.inputs import Inputs
from evoctx_torch.memory.opening import open_store
from evoctx_torch.memory.records import EncoderId
from evoctx_torch.memory.store import ThoughtStore

OWN = "memory.sqlite"  # in the run's folder, where no --memory is given


def memory_encoder(inputs: Inputs) -> EncoderId:
    """The encoder whose vectors the run's thoughts have: that of the retrieval."""
    return EncoderId(inputs.encoder or "", inputs.digests["encoder"] or "")


def check_memory(config: RunConfig, inputs: Inputs, processes: int = 1) -> None:
    """Raise `UsageError` for an index without vectors, a memory that cannot be used, and several processes that would write."""
    options = config.options
    if inputs.encoder is None:
        raise UsageError(f"--index {config.common.index} has no vectors (bm25), and {config.method.name} compares those of passages and "
                         "thoughts: give an index of another kind, or none")
    if processes > 1 and not options.freeze_memory:
        raise UsageError(f"{processes} processes would each see the thoughts of their own questions only: add --freeze-memory, "
                         "or use one process")
    if options.memory is None:
        return
    path = Path(options.memory)
    if not path.exists():
        if options.freeze_memory or options.known_thoughts:
            raise UsageError(f"--memory {path}: no such file; --freeze-memory and --known-thoughts are for one that holds thoughts")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"--memory {path}: there is no folder {path.absolute().parent}")
        return
    with closing(ThoughtStore(path, memory_encoder(inputs))) as store:
        if options.known_thoughts is not None and options.known_thoughts > len(store.thoughts):
            raise UsageError(f"--known-thoughts is {options.known_thoughts}, and {path} holds {len(store.thoughts)}")


@contextmanager
def run_memory(config: RunConfig, inputs: Inputs, folder: RunFolder) -> Iterator[tuple[ThoughtStore, dict[str, Any]]]:
    """The run's memory, which no other run may write to meanwhile, and what config.json keeps as `memory_at_start`.

    `run` names this run in the memory, `thoughts` is how many it saw when it began and sees when it is continued, `digest` is
    theirs. Raises `UsageError` when another run has the memory, or when it is not the one that this run began with.
    """
    options = config.options
    path = Path(options.memory) if options.memory else None if options.freeze_memory else folder.path / OWN
    with open_store(path, memory_encoder(inputs), shared=options.freeze_memory) as store:
        began = folder.read_config().get("memory_at_start") if folder.config.exists() else None
        if began is None:
            count = len(store.thoughts) if options.known_thoughts is None else options.known_thoughts
            began = {"run": uuid4().hex, "thoughts": count, "digest": store.digest(count)}
        elif len(store.thoughts) < began["thoughts"] or store.digest(began["thoughts"]) != began["digest"]:
            raise UsageError(f"the memory {path} is not the one that the run in {folder.path} began with: put that back, "
                             "or choose a new folder")
        elif not options.freeze_memory and not store.made and folder.done():
            raise UsageError(f"the memory {path}, which the run in {folder.path} has been writing to, is gone: put it back, "
                             "or choose a new folder")
        yield store, began
