"""Imports point only down the layers of docs/design.md; pure layers import no torch; `kernels` is no package."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "evoctx_torch"
LAYERS = [
    {"options", "cache_folder", "errors", "paths"}, {"metrics", "data", "keys", "operations", "transcript"}, {"evidence"}, {"prompts", "trajectory"},
    {"generation", "retrieval", "boundary", "memory", "isolation", "journal"}, {"methods"}, {"engine", "place"}, {"analysis"}, {"evaluation", "serving"}, {"cli"}, {"__main__", "__init__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
PURE = {"options", "cache_folder", "errors", "metrics", "data", "keys", "operations", "transcript", "evidence", "prompts", "trajectory", "methods"}
HEAVY = {"torch", "transformers", "faiss", "sentence_transformers", "accelerate", "evoctx_kernels"}


def imports(path: Path) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} uses a relative import"
            found.append((node.lineno, node.module))
    return found


def layer(path: Path) -> str:
    part = path.relative_to(PACKAGE).parts[0]
    return part.removesuffix(".py")


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path):
    own = layer(path)
    for line, name in imports(path):
        parts = name.split(".")
        if own in PURE:
            assert parts[0] not in HEAVY, f"{path.name}:{line} imports {name}"
        if parts[0] == "evoctx_torch" and len(parts) > 1 and parts[1] != own:
            assert LEVEL[parts[1]] <= LEVEL[own], f"{path.name}:{line}: {own} imports {parts[1]}, which lies above it"


def test_same_level_packages_do_not_import_in_a_circle():
    edges = {(layer(path), name.split(".")[1]) for path in FILES for _, name in imports(path) if name.startswith("evoctx_torch.")}
    edges = {(a, b) for a, b in edges if a != b and LEVEL[a] == LEVEL[b]}
    assert not {(a, b) for a, b in edges if (b, a) in edges}


def test_kernels_stand_alone_and_leave_the_name_kernels_free():
    assert not (ROOT / "kernels" / "__init__.py").exists()
    for path in (ROOT / "kernels").rglob("*.py"):
        assert not [name for _, name in imports(path) if name.startswith("evoctx_torch")], path


def test_the_command_line_needs_no_torch():
    code = "import sys, evoctx_torch.cli as c; c.build_parser(); print(sorted(set(sys.modules) & {'torch', 'transformers', 'faiss', 'numpy'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_can_be_read_in_one_sitting():
    long = {str(p.relative_to(ROOT)): n for p in [*FILES, *(ROOT / "kernels").rglob("*.py")] if (n := len(p.read_text().splitlines())) > 400}
    assert not long
