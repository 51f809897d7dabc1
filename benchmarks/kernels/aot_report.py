"""What boundary_signals compiles to on GPUs that are not here, and how long it can take there at least: aot_report.md.

    python benchmarks/kernels/aot_report.py [FILE]

81 compilations of a few seconds each; Triton caches them. Nothing here is measured: registers and instructions are read
from the machine code, times are bytes divided by published bandwidths.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import torch
import triton
from evoctx_kernels.aot import Compiled
from evoctx_kernels.boundary_signals.aot import ITEMSIZE, compile_backward, compile_forward
from evoctx_kernels.costs import Operand, cost

DIMS, DTYPES, ARCHS = (384, 768, 1024), ("fp32", "fp16", "bf16"), (80, 90, 100)
ROWS, MEAN = (256, 4096, 65536), 32  # batch sizes; vectors of a boundary
BANDWIDTHS = {"A100": 2.0e12, "H100": 3.35e12, "H200": 4.8e12}  # bytes a second: NVIDIA's data sheets, SXM, 80 and 141 GB

HEAD = """# boundary_signals, compiled ahead of time

Made by `python benchmarks/kernels/aot_report.py` with torch {torch} and Triton {triton}. **Nothing on this page is a
measurement.** Registers, shared memory and instructions are read from the machine code that `ptxas` makes for compute
capability 8.0, 9.0 and 10.0; cells with three numbers are in this order. Warps are those that registers and shared memory
let live on one multiprocessor. Loads are instructions of one thread in the whole program, by width in bits: "copies" go
from global to shared memory asynchronously (vectors of the pool 128 bits wide; slots 64), "loads" into registers.
"""

ROOFLINE = """
## Bytes and the time they need at least

Model: every input read once and every output written once, {mean} vectors a boundary, nothing in a cache, at the published
bandwidths of A100 80 GB SXM (2.0 TB/s), H100 SXM (3.35) and H200 (4.8). At B = 256 the latency of a launch and of the
chain slot, vector, sum decides instead.
"""


def section(title: str, compile_one: Callable[[int, str, int], Compiled]) -> Iterator[str]:
    """A table of one kernel: a line for every dimension and dtype, the architectures side by side."""
    yield f"\n## {title}\n"
    yield "| D | dtype | registers | spills | stack | shared, bytes | warps | instructions | copies 128 / 64 | loads 128 / 64 / 32 |"
    yield "|---:|---|---|---|---|---|---|---|---|---|"
    for dim, dtype in product(DIMS, DTYPES):
        compiled = [compile_one(dim, dtype, arch) for arch in ARCHS]
        columns = [" / ".join(str(getattr(c, name)) for c in compiled) for name in (
            "registers", "spills", "stack", "shared", "occupancy", "instructions")]  # fmt: skip
        copies = alike([" / ".join(str(c.copies.get(bits, 0)) for bits in (128, 64)) for c in compiled])
        loads = alike([" / ".join(str(c.loads.get(bits, 0)) for bits in (128, 64, 32)) for c in compiled])
        yield f"| {dim} | {dtype} | {' | '.join(columns)} | {copies} | {loads} |"


def alike(cells: list[str]) -> str:
    """One cell of three, shown once where they agree."""
    return cells[0] if len(set(cells)) == 1 else "; ".join(cells)


def roofline() -> Iterator[str]:
    """Bytes of a forward call and microseconds on each device."""
    yield ROOFLINE.format(mean=MEAN)
    yield "| B | D | bytes an element | MB moved | " + " | ".join(f"{name}, µs" for name in BANDWIDTHS) + " |"
    yield "|---:|---:|---:|---:|" + "---:|" * len(BANDWIDTHS)
    for rows, dim, size in product(ROWS, DIMS, sorted(set(ITEMSIZE.values()), reverse=True)):
        nnz = rows * MEAN
        tensors = Operand((rows, dim), size), Operand((nnz, dim), size), Operand((rows + 1,), 8), Operand((nnz,), 8), Operand((3,), 4)
        known = cost("boundary_signals", [*tensors, Operand(), Operand(value=0.9), Operand(), Operand(), Operand()])
        assert known is not None, "evoctx_kernels.costs knows no boundary_signals"
        times = " | ".join(f"{known.bytes / bandwidth * 1e6:.1f}" for bandwidth in BANDWIDTHS.values())
        yield f"| {rows:,} | {dim} | {size} | {known.bytes / 1e6:.1f} | {times} |"


def report() -> Iterator[str]:
    yield HEAD.format(torch=torch.__version__.split("+")[0], triton=triton.__version__)
    yield from section("Up to 64 vectors: one warp a row", compile_forward)
    yield from section("More than 64 vectors: eight warps a row", lambda *case: compile_forward(*case, long=True))
    yield from section("Backward: one warp a row, atomics into the pool's gradient", compile_backward)
    yield from roofline()


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("aot_report.md")
    file.write_text("\n".join(report()) + "\n", encoding="utf-8")
