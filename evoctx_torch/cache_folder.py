"""Where what is dear to compute is kept between runs: converted models and corpus embeddings."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`EVOCTX_CACHE`, else `XDG_CACHE_HOME/evoctx_torch`, else `~/.cache/evoctx_torch`; not created here."""
    if chosen := os.environ.get("EVOCTX_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evoctx_torch"
