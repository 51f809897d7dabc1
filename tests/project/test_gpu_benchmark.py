"""benchmarks/gpu.py without a GPU: every step runs end to end, a step that fails or hangs costs nobody else anything."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "kernels")]
import gpu  # noqa: E402


def registered() -> set[str]:
    """The operators that evoctx_kernels registers."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "kernels").rglob("*.py"))
    return set(re.findall(r'custom_op\(\s*"evoctx::(\w+)"', text))


def test_every_registered_operator_has_a_case_and_a_cost():
    import cases
    from evoctx_kernels.costs import COSTS

    assert registered() == set(cases.CASES) == set(COSTS)


def test_every_case_agrees_with_its_alternative_and_its_reference():
    import cases
    from operators import agree

    for name, timed in cases.CASES.items():
        case = timed.build("cpu", 5, cases.TINY)
        outputs = case.run()
        agree(case, outputs, case.eager(), "eager")
        agree(case, outputs, case.reference(), "reference")
        assert case.cost.rows == 5 and case.cost.bytes > 0, name


@pytest.mark.parametrize("interpreted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_everything_runs_end_to_end_on_tiny_shapes(tmp_path, interpreted):
    """In Triton's interpreter, and (slow) on the operators' CPU path with everything on."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | ({"TRITON_INTERPRET": "1"} if interpreted else {})
    done = subprocess.run([sys.executable, BENCHMARKS / "gpu.py", "--tiny", "--out", tmp_path], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    folder = tmp_path / "tiny"
    assert {p.name for p in folder.iterdir()} == {
        "summary.json", "tests.xml", "operators.json", "engine.json", "operators.png", "roofline.png", "phases.png",
        "tests.log", "operators.log", "engine.log", "plots.log",
    }  # fmt: skip
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["tiny"] and summary["interpreted"] is interpreted and [step["ok"] for step in summary["steps"]] == [True] * 4
    assert summary["tests"]["passed"] >= len(registered()) - 1 and summary["tests"]["failures"] == 0
    assert all(target["met"] is None for target in summary["targets"]), "tiny times say nothing"
    rows = json.loads((folder / "operators.json").read_text())["cases"]
    assert {row["operator"] for row in rows} == registered()
    for row in rows:
        assert set(row["microseconds"]) == {"ours", "eager", "compiled"}, row
        assert all(t["p20"] <= t["p50"] <= t["p80"] and t["how"] == "cpu" for t in row["microseconds"].values())
    engine = json.loads((folder / "engine.json").read_text())
    assert engine["throughput"]["completion_tokens_per_s"] > 0 and engine["throughput"]["questions"] == 4
    assert sum(row["share"] for row in engine["profile"]["phases"]) == pytest.approx(1)


@pytest.mark.slow
def test_the_tests_for_the_device_pass_on_the_cpu_path():
    environment = os.environ | {"EVOCTX_GPU_TEST_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-m", "gpu", ROOT / "tests/kernels/test_gpu.py", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]


def test_without_cuda_it_says_so_in_one_line(tmp_path, capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(SystemExit) as stop:
        gpu.main(["--out", str(tmp_path / "out")])
    assert stop.value.code == 2 and "no CUDA device" in capsys.readouterr().err.splitlines()[-1] and not (tmp_path / "out").exists()


def step(name: str, code: str, limit: float = 30) -> gpu.Step:
    return gpu.Step(name, (sys.executable, "-c", code), limit)


def test_a_step_that_hangs_ends_with_all_it_started(tmp_path):
    code = "import subprocess, time\nprint('begun', flush=True)\nchild = subprocess.Popen(['sleep', '300'])\nprint(child.pid, flush=True)\ntime.sleep(300)"
    began = time.monotonic()
    result = gpu.run(step("hangs", code, limit=5), tmp_path, os.environ)
    assert time.monotonic() - began < 20 and not result["ok"] and "limit of 5 s" in result["error"]
    begun, child = (tmp_path / "hangs.log").read_text().split()
    assert begun == "begun"
    time.sleep(0.2)
    stat = Path(f"/proc/{child}/stat")
    assert not stat.exists() or stat.read_text().split()[2] == "Z"


def test_a_failing_step_loses_none_of_the_others(tmp_path, monkeypatch, capsys):
    tests = "import pathlib; pathlib.Path({!r}, 'tests.xml').write_text('<testsuites><testsuite tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\"/></testsuites>')"
    def steps(folder, *_):
        return [step("tests", tests.format(str(folder))), step("operators", "raise SystemExit('no operators')"), step("engine", "print('engine fine')")]
    monkeypatch.setattr(gpu, "steps", steps)
    assert gpu.main(["--tiny", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "no operators" in said and "engine fine" in said and "operators  FAILED: exit code 1" in said
    summary = json.loads((tmp_path / "tiny/summary.json").read_text())
    assert [s["ok"] for s in summary["steps"]] == [True, False, True]
    assert summary["tests"] == {"tests": 3, "failures": 1, "errors": 0, "skipped": 1, "passed": 1}


def test_the_limits_leave_it_under_seven_minutes(tmp_path):
    assert sum(step.limit for step in gpu.steps(tmp_path, "cuda", "1b", False)) <= 415


def row(rows: int, **values: float) -> dict:
    return {"operator": "boundary_signals", "rows": rows, **values}


def test_targets_are_compared_with_the_worst_that_was_measured():
    cases = [
        row(256, seconds=13e-6, share_of_copy=0.2, eager_ratio=9.0), row(4096, seconds=4e-5, share_of_copy=0.71, eager_ratio=4.9, compiled_ratio=2.0),
        {"operator": "majority_vote", "rows": 4096, "share_of_copy": 0.1, "eager_ratio": 1.0}, row(65536, error="boom"),
    ]  # fmt: skip
    assert [gpu.reached(target, cases)["met"] for target in gpu.TARGETS] == [True, None, False, False, True]
    assert gpu.reached(gpu.TARGETS[3], cases)["measured"] == 4.9
