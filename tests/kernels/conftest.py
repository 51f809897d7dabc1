"""Helpers of this folder are importable by name, and their assertions explain themselves."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("boundary_rules")


@pytest.fixture(scope="module", params=["single_pass", "vectorized"])
def each_cpu_path(request: pytest.FixtureRequest) -> Iterator[None]:
    """boundary_signals as it is with numba and without."""
    from evoctx_kernels.boundary_signals import registration
    from evoctx_kernels.boundary_signals.cpu import vectorized

    if request.param == "single_pass":
        pytest.importorskip("numba")
        yield
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(registration, "fastest_of_cpu", lambda: vectorized)
            yield
