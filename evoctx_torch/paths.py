"""Whether a place can be written to, asked before anything dear is done."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evoctx_torch.errors import UsageError


def check_writable(path: Path) -> None:
    """Raise `UsageError` if `path` cannot be made or written to: its nearest folder that exists decides. Leaves nothing behind."""
    place = path
    while not place.exists() and place != place.parent:
        place = place.parent
    if path.exists() and not path.is_dir():
        place = path.parent
    if not place.is_dir():
        raise UsageError(f"--out {path}: {place} is a file; expected a folder")
    try:
        tempfile.TemporaryFile(dir=place).close()  # permission bits tell little: root, read-only and virtual file systems
    except OSError as error:
        raise UsageError(f"--out {path}: {place} cannot be written to ({error.strerror})") from None
