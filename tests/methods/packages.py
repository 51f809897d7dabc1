"""Packages that register methods, installed for one test: a module and the metadata that an installer would write."""

from __future__ import annotations

import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, package: str, entries: dict[str, str], source: str = "") -> None:
    """Put a package with one module and its entry points on the import path. The module has the package's name with `_` for `-`."""
    module = package.replace("-", "_")
    site, info = folder / package, folder / package / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[evoctx_torch.methods]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items()))
    (site / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, module, raising=False)
    invalidate_caches()
