"""A memory for a run: read, and locked against other writers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from evoctx_torch.errors import UsageError
from evoctx_torch.memory.records import EncoderId
from evoctx_torch.memory.store import ThoughtStore


@contextmanager
def open_store(path: Path | None, encoder: EncoderId | None = None, *, shared: bool = False) -> Iterator[ThoughtStore]:
    """A memory for a run: nobody else may write to it meanwhile, unless `shared` (which only reads).

    Raises `UsageError` when another run has it, and as `ThoughtStore` does.
    """
    if path is None or shared or not path.parent.is_dir():  # a folder that is still to be made is this run's own
        with closing(ThoughtStore(path, encoder)) as store:
            yield store
        return
    path = path.expanduser().resolve()  # two names of one file are one memory
    beside = path.with_name(f".{path.name}.lock")
    lock = FileLock(beside)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(f"another run is using the memory {path}: wait for it, or read it with --freeze-memory") from None
    try:
        with closing(ThoughtStore(path, encoder)) as store:
            yield store
    finally:
        beside.unlink(missing_ok=True)  # while it is held
        lock.release()
