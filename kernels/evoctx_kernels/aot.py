"""Compile Triton kernels for GPUs that are not here, and read from the machine code what they will cost there."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler as nvidia
from triton.compiler import ASTSource

BIN = Path(nvidia.__file__).parent / "bin"
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w\s+)?([A-Z][\w.]*)")
WIDTHS = {"256": 256, "128": 128, "64": 64, "U16": 16, "S16": 16, "U8": 8, "S8": 8}

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" and "Occupancy": what one multiprocessor has.
REGISTERS, REGISTER_UNIT, MAX_WARPS, MAX_BLOCKS = 65536, 256, 64, 32
SHARED = {80: 164 * 1024, 90: 228 * 1024, 100: 228 * 1024}
SHARED_RESERVED, SHARED_UNIT = 1024, 128  # of every block; size of an allocation


@dataclass(frozen=True)
class Compiled:
    """The cost of one kernel on one architecture, as its machine code states it."""

    arch: int
    warps: int
    registers: int  # a thread
    stack: int  # bytes a thread
    shared: int  # bytes a block
    spills: int  # instructions that read or write local memory
    loads: dict[int, int]  # bits a thread reads from global memory into registers: instructions that do
    copies: dict[int, int]  # the same of asynchronous copies from global into shared memory
    instructions: int
    mnemonics: Counter[str] = field(repr=False)
    ptx: str = field(repr=False)

    @property
    def occupancy(self) -> int:
        """Warps that fit on one multiprocessor at a time, by registers, shared memory, warps and blocks."""
        per_warp = -(-self.registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
        per_block = -(-(self.shared + SHARED_RESERVED) // SHARED_UNIT) * SHARED_UNIT
        by_registers = REGISTERS // per_warp // self.warps
        return self.warps * min(by_registers, SHARED[self.arch] // per_block, MAX_WARPS // self.warps, MAX_BLOCKS)


def compile_for(
    kernel: triton.JITFunction,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Any],
    arch: int,
    divisible: Collection[str] | None = None,
    *,
    num_warps: int = 4,
    enable_fp_fusion: bool = False,
    **options: Any,
) -> Compiled:
    """Compile `kernel` for compute capability `arch` (80, 90, 100) and measure its machine code; needs no GPU.

    Args:
        kernel: a `triton.jit` function.
        signature: the type of every argument that is no constexpr: `*fp16`, `*i64`, `i32`, `fp32`, `u1` …
        constexprs: the value of every constexpr argument; None for a pointer that is absent.
        divisible: arguments known to be multiples of 16, as launches find them to be (default: all pointers).
        num_warps, enable_fp_fusion, options: as a launch of the kernel has them.
    """
    names = list(kernel.arg_names)
    divisible = [name for name, kind in signature.items() if kind.startswith("*")] if divisible is None else divisible
    source = ASTSource(
        fn=kernel,
        signature={name: signature.get(name, "constexpr") for name in names},
        constexprs=dict(constexprs),
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in divisible},
    )
    options = {"num_warps": num_warps, "enable_fp_fusion": enable_fp_fusion, **options}
    return measure(triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options), arch)


def measure(compiled: Any, arch: int) -> Compiled:
    """Read the cubin of a compiled kernel with the disassemblers that come with Triton."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = run("cuobjdump", "--dump-resource-usage", file.name)
        listing = run("nvdisasm", "-c", file.name)
    # The kernel's line stands behind a line of globals and has `REG:64 STACK:0 SHARED:0 LOCAL:0 …`.
    numbers = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    mnemonics = Counter(m for m in INSTRUCTION.findall(listing) if m != "NOP")
    return Compiled(
        arch=arch,
        warps=compiled.metadata.num_warps,
        registers=numbers["REG"],
        stack=numbers["STACK"] + numbers["LOCAL"],
        shared=compiled.metadata.shared,
        spills=sum(count for m, count in mnemonics.items() if m.split(".")[0] in ("LDL", "STL")),
        loads=by_width(mnemonics, "LDG"),
        copies=by_width(mnemonics, "LDGSTS"),
        instructions=mnemonics.total(),
        mnemonics=mnemonics,
        ptx=compiled.asm["ptx"],
    )


def by_width(mnemonics: Counter[str], kind: str) -> dict[int, int]:
    """How many instructions of a kind move how many bits a thread, widest first."""
    widths: Counter[int] = Counter()
    for mnemonic, count in mnemonics.items():
        name, *suffixes = mnemonic.split(".")
        if name == kind:
            widths[next((WIDTHS[suffix] for suffix in suffixes if suffix in WIDTHS), 32)] += count
    return dict(sorted(widths.items(), reverse=True))


def run(tool: str, *arguments: str) -> str:
    """Standard output of one of Triton's CUDA tools."""
    return subprocess.run([BIN / tool, *arguments], check=True, capture_output=True, text=True).stdout
