"""Whether a place can be written to, asked before anything dear is done; and writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from evoctx_torch.errors import UsageError

NAME_BYTES = 240  # of a file's name: file systems take 255, and a draft's name is longer than the file's


def check_writable(path: Path) -> None:
    """Raise `UsageError` if `path` cannot be made or written to: its nearest folder that exists decides. Leaves nothing behind."""
    for name in path.parts:
        if len(os.fsencode(name)) > NAME_BYTES:
            raise UsageError(f"--out {name[:40]}…: a name of {len(os.fsencode(name))} bytes; expected at most {NAME_BYTES}")
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


def replace(path: Path, text: str, *, make_folder: bool = True) -> None:
    """Write a file as UTF-8 so that it is there whole or not at all; folders above it are made unless that is switched off."""
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".draft")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
