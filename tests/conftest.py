"""Fixtures that several test folders use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: spinning threads starve each other on a shared machine

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data sets, oracles and the tiny model; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("EVOCTX_SHARED", ROOT.parent / "shared"))
    if not (folder / "oracles").is_dir():
        pytest.skip(f"no shared data at {folder}: set EVOCTX_SHARED")
    return folder.resolve()


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests leave the user's embedding cache alone."""
    monkeypatch.setenv("EVOCTX_CACHE", os.environ.get("EVOCTX_TEST_CACHE", str(tmp_path_factory.getbasetemp() / "cache")))
