"""Scoring and loading import nothing heavy, so that `evoctx --help` stays fast."""

from __future__ import annotations

import subprocess
import sys


def test_no_numpy_scipy_or_torch_at_import() -> None:
    code = """
import sys
import evoctx_torch.data.datasets, evoctx_torch.data.corpus, evoctx_torch.data.questions, evoctx_torch.evaluation.score
import evoctx_torch.metrics.bootstrap, evoctx_torch.metrics.evidence, evoctx_torch.metrics.extract
import evoctx_torch.metrics.ranking, evoctx_torch.metrics.support
print(*sorted({"torch", "numpy", "scipy", "sklearn", "datasets"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
