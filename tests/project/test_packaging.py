"""environment.yml, setup.py, Makefile and README agree."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def setup_values() -> dict[str, object]:
    tree = ast.parse((ROOT / "setup.py").read_text())
    return {n.targets[0].id: ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id in ("CORE", "EXTRAS")}


def lower_bounds(requirements: list[str]) -> dict[str, str]:
    return {m[1]: m[2] for r in requirements if (m := re.match(r"([\w.-]+)>=([\d.]+)", r))}


def environment() -> list[str]:
    return re.findall(r"^\s+- (.+)$", (ROOT / "environment.yml").read_text(), re.M)


def test_environment_has_the_versions_of_setup():
    values, lines = setup_values(), environment()
    bounds = lower_bounds(values["CORE"]) | lower_bounds(values["EXTRAS"]["gpu"])
    conda = lower_bounds(lines)
    assert conda["pytorch-gpu"] == bounds["torch"]
    assert conda["faiss-gpu"] == bounds["faiss-gpu"]
    python = next(line for line in lines if line.startswith("python="))
    assert python.split("=")[1] == re.search(r'python_requires=">=([\d.]+)"', (ROOT / "setup.py").read_text())[1]


@pytest.mark.parametrize("name", ["environment.yml", "Makefile", "README.md"])
def test_extras_that_are_named_exist(name):
    known = set(setup_values()["EXTRAS"])
    text = (ROOT / name).read_text()
    named = re.findall(r"-e '?\.\[([\w,-]+)\]", text) + re.findall(r"^EXTRAS := (.+)$", text, re.M)
    assert named, f"{name} installs no extras"
    assert set(",".join(named).split(",")) <= known


def test_error_messages_name_extras_that_exist():
    known = set(setup_values()["EXTRAS"])
    for path in (ROOT / "evoctx_torch").rglob("*.py"):
        for package, extra in re.findall(r'MissingExtra\("([^"]+)", "([^"]+)"', path.read_text()):
            assert extra in known, f"{path.name} sends the user to the extra {extra} for {package}"


def test_the_readme_names_only_commands_and_files_that_exist():
    text = (ROOT / "README.md").read_text()
    from evoctx_torch.cli import build_parser
    commands = set(next(a for a in build_parser()._actions if a.dest == "==SUPPRESS==" or getattr(a, "choices", None)).choices)
    named = set(re.findall(r"(?<![\w.])evoctx ([a-z]+)", text))
    assert named <= commands, named - commands
    for link in re.findall(r"\]\(([\w/.-]+)\)", text):
        assert (ROOT / link).exists(), link
    for script in re.findall(r"python (benchmarks/[\w/]+\.py)", text):
        assert (ROOT / script).exists(), script
