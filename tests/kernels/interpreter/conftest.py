"""Triton decides at import whether it compiles or interprets: these tests have a process of their own.

`tests/kernels/test_interpreter.py` starts it; by hand: `TRITON_INTERPRET=1 python -m pytest tests/kernels/interpreter`.
"""

import os

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]
