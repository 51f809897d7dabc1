"""The Triton kernels on CPU tensors, in Triton's interpreter, in the process of its own that it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "interpreter"


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="this process interprets already and collects the folder itself")
def test_every_kernel_in_the_interpreter():
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", str(FOLDER), "-q", "--durations=5", "-p", "no:cacheprovider"]
    run = subprocess.run(command, env=environment, cwd=FOLDER.parents[2], capture_output=True, text=True)
    print(run.stdout[-2000:])  # what was slow, shown with -s
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
