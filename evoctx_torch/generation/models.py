"""Language models by name: the embedded one, a local folder, or a model already in the Hugging Face cache.

Everything but `load_model` reads small files only and imports no torch, so that a wrong name ends a run before any
weight is loaded. Weights are safetensors only and a checkpoint's own code is never run. Nothing is downloaded here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evoctx_torch.errors import UsageError
from evoctx_torch.generation import smollm2

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = ("auto", "float32", "float16", "bfloat16")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json")
CAUSAL = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
SAMPLES, SAMPLE_BYTES = 64, 4096


def check_model(name: str) -> None:
    """Raise a one-line `UsageError` when `name` is no usable causal language model; loads no weights."""
    if name == smollm2.NAME:
        smollm2.check()
        return
    folder = model_folder(name)
    architectures = _config(name, folder).get("architectures") or []
    if architectures and not any(a.endswith(CAUSAL) for a in architectures):
        raise UsageError(f"model {name} is a {architectures[0]}; expected a causal language model (…ForCausalLM)")
    if not any((folder / file).is_file() for file in TOKENIZER_FILES):
        raise UsageError(f"model {name}: no tokenizer in {folder}; expected one of {', '.join(TOKENIZER_FILES)}")
    for file in weight_files(name, folder):
        _check_weights(name, file)


def model_folder(name: str) -> Path:
    """The folder of a local or cached model (for the embedded one: where its conversion lies or will lie)."""
    if name == smollm2.NAME:
        return smollm2.folder()
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        raise UsageError(
            f"model {name!r} is neither {smollm2.NAME!r}, nor a folder, nor in the Hugging Face cache: "
            f"check the name, or fetch it first with: hf download {name}"
        ) from None


def weight_files(name: str, folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint, shards in the order of their names. Raises `UsageError` if one is missing."""
    index = folder / "model.safetensors.index.json"
    files = [folder / "model.safetensors"]
    if index.is_file():
        files = [folder / shard for shard in sorted(set(_json(name, index).get("weight_map", {}).values()))]
    missing = [file.name for file in files if not file.is_file()]
    if missing or not files:
        hint = "; it has only pickled weights, which are not loaded: convert them to safetensors" if any(folder.glob("*.bin")) else ""
        raise UsageError(f"model {name}: no {', '.join(missing) or 'shards in ' + index.name} in {folder}{hint}")
    return files


def prompt_family(name: str) -> str:
    """Which templates fit a model: "chat" when its tokenizer has a chat template, else "completion".

    The embedded model has one but answers badly in it (135 M parameters): it gets few-shot completion prompts.
    """
    if name == smollm2.NAME:
        return "completion"
    folder = model_folder(name)
    if any((folder / file).exists() for file in ("chat_template.jinja", "chat_template.json", "additional_chat_templates")):
        return "chat"
    config = folder / "tokenizer_config.json"
    return "chat" if config.is_file() and _json(name, config).get("chat_template") else "completion"


def model_digest(name: str) -> str:
    """A fingerprint (32 hex digits) of a model: its small files whole, of each weight file size, header and samples.

    Samples are 64 blocks of 4 KiB spread evenly, so that a fine-tuned copy with the same shapes differs while a
    70 GB checkpoint takes milliseconds.
    """
    digest = blake2b(digest_size=16)
    if name == smollm2.NAME:
        small, large = [], [smollm2.gguf_file()]
    else:
        folder = model_folder(name)
        large = weight_files(name, folder)
        small = sorted(f for f in folder.iterdir() if f.suffix in (".json", ".jinja", ".model", ".txt") and f.is_file())
    for file in small:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    for file in large:
        digest.update(f"{file.name}\0{file.stat().st_size}".encode())
        for block in _samples(file):
            digest.update(block)
    return digest.hexdigest()


def load_model(name: str, device: str = "auto", dtype: str = "auto") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model in evaluation mode on its device, and its tokenizer.

    `device`: auto | cpu | cuda | cuda:N (auto: CUDA where there is one). `dtype`: auto | float32 | float16 |
    bfloat16 (auto: float32 on the CPU, the checkpoint's own on CUDA). Raises `UsageError` when that cannot be.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    check_model(name)
    where = resolve_device(device)
    if dtype not in DTYPES:
        raise UsageError(f"--dtype is {dtype!r}; expected one of {', '.join(DTYPES)}")
    if dtype == "auto" and where == "cpu":
        dtype = "float32"
    folder = smollm2.converted() if name == smollm2.NAME else model_folder(name)
    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **safe)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True, **safe)
    except (ValueError, OSError) as error:
        raise UsageError(f"model {name} cannot be loaded from {folder}: {' '.join(str(error).split())}") from error
    return model.to(where).eval(), tokenizer


def resolve_device(device: str) -> str:
    """"auto" becomes "cuda" where there is one, else "cpu". Raises `UsageError` for a device that is not there."""
    import torch

    cuda = torch.cuda.device_count()
    if device == "auto":
        return "cuda" if cuda else "cpu"
    kind, _, index = device.partition(":")
    if device != "cpu" and (kind != "cuda" or (index and not index.isdigit())):
        raise UsageError(f"--device is {device!r}; expected auto, cpu, cuda or cuda:N")
    if kind == "cuda" and int(index or 0) >= cuda:
        raise UsageError(f"--device is {device!r}, but this machine shows {cuda} CUDA devices: use --device cpu or install a CUDA build of torch")
    return device


def room_of(model: PreTrainedModel, chosen: int | None) -> int:
    """The tokens that prompt and reply may have together: `chosen`, else the model's positions. Raises `UsageError`."""
    positions = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if chosen is not None and positions is not None and chosen > positions:
        raise UsageError(f"--context-length is {chosen}; expected at most {positions}, the positions of {model.name_or_path}")
    if chosen is None and positions is None:
        raise UsageError(f"the config of {model.name_or_path} has no max_position_embeddings: set --context-length")
    return chosen or positions


def special_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], int]:
    """The eos ids and a pad id. Padding is told by the mask, so any id of the vocabulary serves."""
    defaults = model.generation_config
    eos = defaults.eos_token_id if defaults.eos_token_id is not None else tokenizer.eos_token_id
    eos = [] if eos is None else [eos] if isinstance(eos, int) else list(eos)
    pads = [pad for pad in (defaults.pad_token_id, tokenizer.pad_token_id, *eos) if pad is not None and pad >= 0]  # some write -1
    return eos, pads[0] if pads else 0


def _config(name: str, folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        raise UsageError(f"model {name}: no config.json in {folder}; expected a Hugging Face model folder")
    return _json(name, file)


def _json(name: str, file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except ValueError as error:
        raise UsageError(f"model {name}: {file} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"model {name}: {file} holds no JSON object")
    return content


def _check_weights(name: str, file: Path) -> None:
    """A torn download shows in the header already: it says how long the file must be."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy"):
            pass
    except SafetensorError as error:
        raise UsageError(f"model {name}: {file} is no whole safetensors file: {error}") from error


def _samples(file: Path) -> Iterator[bytes]:
    size = file.stat().st_size
    with file.open("rb") as stream:
        if file.suffix == ".safetensors":  # 8 bytes of little-endian header length, then the header
            start = stream.read(8)
            yield start + stream.read(int.from_bytes(start, "little"))
        for i in range(SAMPLES):
            stream.seek(max(size - SAMPLE_BYTES, 0) * i // (SAMPLES - 1))
            yield stream.read(SAMPLE_BYTES)
