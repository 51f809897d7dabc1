"""Triton decides at import whether it compiles or interprets: these tests have a process of their own.

`tests/kernels/test_interpreter.py` starts it; by hand: `TRITON_INTERPRET=1 python -m pytest tests/kernels/interpreter`.
"""

from __future__ import annotations

import os

INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
collect_ignore_glob = [] if INTERPRETING else ["test_*.py"]


def patch_once_a_launch() -> None:
    """Make the interpreter twice as fast: it patches triton.language anew at every call between jit functions."""
    from triton.runtime import interpreter

    patch, launch, patched = interpreter._patch_lang, interpreter.GridExecutor.__call__, {}

    def patch_once(fn):
        module = id(fn.__globals__)
        if module not in patched:
            patched[module] = patch(fn)
        return patched[module]

    def launch_afresh(*args, **kwargs):
        patched.clear()
        return launch(*args, **kwargs)

    interpreter._patch_lang, interpreter.GridExecutor.__call__ = patch_once, launch_afresh


if INTERPRETING:
    patch_once_a_launch()
