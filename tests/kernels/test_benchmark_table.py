"""The table of kernel timings: what is measured again replaces the old line, what is not stays."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("kernel_timings", Path(__file__).parents[2] / "benchmarks/kernels/common.py")
common = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(common)


def test_lines_are_replaced_and_kept(tmp_path):
    table = tmp_path / "results" / "kernels.csv"
    assert common.read(table) == []
    old, other = common.Line("op", "256", "a CPU, 1 thread", "torch-1", 1, 2, 3), common.Line("op", "256", "a GPU", "torch-1", 4, 5, 6)
    common.record([old, other], table)
    common.record([old._replace(versions="torch-2", p50=2.5)], table)
    assert common.read(table) == [old._replace(versions="torch-2", p50=2.5), other]
    assert table.read_text().splitlines()[0] == "operator,case,device,versions,p20,p50,p80"


def test_the_device_and_what_times_depend_on_are_named():
    assert "thread" in common.device_name()
    assert {part.split("-")[0] for part in common.versions().split()} == {"torch", "triton", "numpy"}
