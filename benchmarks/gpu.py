"""Everything that needs a GPU, in under seven minutes: tests on the device, operators, the engine around a real-sized model.

    python benchmarks/gpu.py [--size 1b] [--out benchmarks/results]

Writes `summary.json`, `tests.xml`, `operators.json`, `engine.json`, plots and a log a step to benchmarks/results/<device name>/.
Every step is a process with a time limit of its own; one that fails is reported and the others go on (exit code 1 at the end).
What is aimed at (TARGETS) is compared with what was measured and changes no exit code. `--tiny` runs everything on the CPU on
tiny shapes, with TRITON_INTERPRET=1 the kernels in Triton's interpreter: it shows that the script works, its times say nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


class Step(NamedTuple):
    """A command and how many seconds it may take."""

    name: str
    command: tuple[str | Path, ...]
    limit: float


class Target(NamedTuple):
    """What a row of operators.json should reach; `rows` None: at every size that has the key."""

    words: str
    operator: str
    rows: int | None
    key: str
    least: float | None = None
    most: float | None = None


TARGETS = (
    Target("boundary_signals: at least 70 % of the measured copy at B = 4,096", "boundary_signals", 4096, "share_of_copy", least=0.7),
    Target("boundary_signals: at least 70 % of the measured copy at B = 65,536", "boundary_signals", 65536, "share_of_copy", least=0.7),
    Target("boundary_signals: at most 12 us at B = 256", "boundary_signals", 256, "seconds", most=12e-6),
    Target("boundary_signals: at least 5 times as fast as eager PyTorch", "boundary_signals", None, "eager_ratio", least=5),
    Target("boundary_signals: at least twice as fast as torch.compile", "boundary_signals", None, "compiled_ratio", least=2),
)


def steps(folder: Path, device: str, size: str, tiny: bool) -> list[Step]:
    """Limits add up to less than seven minutes."""
    python = sys.executable
    tests = (ROOT / "tests" / "kernels" / "test_gpu.py", "-k", "empty_batch") if tiny else (ROOT / "tests",)
    few = ("--batch-size", "4", "--max-new-tokens", "4", "--rounds", "1", "--ticks", "3") if tiny else ()
    return [
        Step("tests", (python, "-m", "pytest", "-m", "gpu", *tests, "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors",
                       f"--junitxml={folder / 'tests.xml'}"), 130),
        Step("operators", (
            python, HERE / "kernels" / "operators.py", "--device", device, "--out", folder / "operators.json", *(("--tiny",) if tiny else ()),
        ), 160),
        Step("engine", (python, HERE / "engine_llama.py", "--device", device, "--size", "tiny" if tiny else size, "--out", folder, *few), 100),
        Step("plots", (python, HERE / "gpu_plots.py", folder), 20),
    ]  # fmt: skip


def run(step: Step, folder: Path, environment: Mapping[str, str], stretch: float = 1.0) -> dict[str, Any]:
    """Run a step; at its limit it ends with all it started. What it printed goes to `<step>.log` and to the terminal."""
    began, limit, log = time.monotonic(), step.limit * stretch, folder / f"{step.name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(step.command, cwd=ROOT, env=dict(environment), stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    print(log.read_text(encoding="utf-8", errors="replace"), end="", flush=True)
    result: dict[str, Any] = {"step": step.name, "ok": code == 0, "seconds": round(time.monotonic() - began, 1), "limit": limit}
    if code != 0:
        result["error"] = f"ended at its limit of {limit:g} s" if code is None else f"exit code {code}"
    return result


def read(path: Path) -> Any:
    """The JSON that a step left, None where it left none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def read_tests(path: Path) -> dict[str, int] | None:
    """Counts of a JUnit file."""
    if not path.exists():
        return None
    suites = list(ElementTree.parse(path).iter("testsuite"))
    counts = {name: sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")}
    return counts | {"passed": counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"]}


def reached(target: Target, cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The target with what was measured (the worst of several sizes) and whether it is met; None where nothing was measured."""
    rows = [row for row in cases if row["operator"] == target.operator and target.rows in (None, row["rows"])]
    values = [row[target.key] for row in rows if target.key in row]
    worst = (min if target.most is None else max)(values, default=None)
    met = None if worst is None else (target.least is None or worst >= target.least) and (target.most is None or worst <= target.most)
    return {"target": target.words, "measured": worst, "met": met}


def main(argv: Sequence[str] | None = None) -> int:
    """Run all steps, write the summary, print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=("tiny", "1b", "3b", "8b"), default="1b", help="the Llama of random weights [default: 1b]")
    parser.add_argument("--out", type=Path, default=HERE / "results", metavar="DIR", help="where the device's folder goes [default: benchmarks/results]")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes on the CPU, to try the script")
    options = parser.parse_args(argv)
    import torch
    if not options.tiny and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device: run it where there is one, or with --tiny to try the script")
    name = "tiny" if options.tiny else torch.cuda.get_device_name()
    folder = options.out.resolve() / re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    for old in ("tests.xml", "operators.json", "engine.json", "summary.json"):
        (folder / old).unlink(missing_ok=True)  # a step that fails leaves nothing of an earlier run behind
    device = "cpu" if options.tiny else "cuda"
    environment = os.environ | {"EVOCTX_GPU_TEST_DEVICE": device, "PYTHONUNBUFFERED": "1"}
    done = []
    for step in steps(folder, device, options.size, options.tiny):
        print(f"== {step.name} (at most {step.limit:g} s)", flush=True)
        done.append(run(step, folder, environment, stretch=5 if options.tiny else 1))  # a shared CPU may be slow
    operators = read(folder / "operators.json")
    summary = {
        "device": name, "tiny": options.tiny, "interpreted": os.environ.get("TRITON_INTERPRET") == "1", "torch": torch.__version__,
        "cuda": torch.version.cuda, "driver": driver(), "commit": commit(), "steps": done, "tests": read_tests(folder / "tests.xml"),
        "targets": [reached(target, operators["cases"] if operators and not options.tiny else []) for target in TARGETS],
    }  # fmt: skip
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    (folder / "trace.json").unlink(missing_ok=True)  # hundreds of megabytes; `evoctx profile` makes one when it is wanted
    print("== summary")
    for result in done:
        print(f"{result['step']:<10} {'ok' if result['ok'] else 'FAILED: ' + result['error']} ({result['seconds']} s)")
    if summary["tests"]:
        print("tests      " + ", ".join(f"{count} {kind}" for kind, count in summary["tests"].items()))
    for target in summary["targets"]:
        words = {True: "met", False: "NOT met", None: "not measured"}[target["met"]]
        print(f"{words:<13} {target['target']}" + ("" if target["measured"] is None else f" ({target['measured']:.3g})"))
    print(f"Results: {folder}")
    return int(not all(result["ok"] for result in done))


def driver() -> str | None:
    """The NVIDIA driver's version, None without one."""
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError):
        return None


def commit() -> str | None:
    """The commit that was measured, None outside a checkout."""
    try:
        return subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


if __name__ == "__main__":
    sys.exit(main())
