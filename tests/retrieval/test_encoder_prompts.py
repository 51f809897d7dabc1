"""Encoders by name: their own pooling, and their own prompts on the side where they belong."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from retrieval_cases import corpus_of
from tiny_encoders import plain_bert, plain_qwen, with_sentence_transformers
from transformers import AutoModel, AutoTokenizer

from evoctx_torch.cli import main
from evoctx_torch.data.corpus import load_corpus
from evoctx_torch.errors import UsageError
from evoctx_torch.retrieval.build import build_index, make_retriever, open_index
from evoctx_torch.retrieval.cache import corpus_vectors
from evoctx_torch.retrieval.encoder import Encoder
from evoctx_torch.retrieval.folder import read_index
from evoctx_torch.retrieval.prompts_of_encoders import Prompts, prompts_of
from evoctx_torch.retrieval.sources import encoder_digest

TEXTS = ["the harbor froze in winter", "bread", "who froze the ships in the harbor ? who baked the bread ?", ""]
SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


def states(folder: Path, text: str) -> torch.Tensor:
    """`[T, D]`: the last layer's vectors of one text alone, from transformers."""
    tokens = AutoTokenizer.from_pretrained(folder)([text], truncation=True, return_tensors="pt")
    with torch.inference_mode():
        return AutoModel.from_pretrained(folder).eval()(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]).last_hidden_state[0]


def unit(vector: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vector, dim=-1)


# ---------------------------------------------------------------- pooling

def test_a_plain_checkpoint_is_pooled_by_its_mean(tmp_path: Path) -> None:
    folder = plain_bert(tmp_path / "contriever")
    vectors = Encoder(str(folder)).encode(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert torch.allclose(vector, unit(states(folder, text).mean(0)), atol=1e-5)


@pytest.mark.parametrize(("pooling", "make", "pick"), [
    ("cls_token", plain_bert, lambda tokens: tokens[0]), ("mean_tokens", plain_bert, lambda tokens: tokens.mean(0)),
    ("lasttoken", plain_qwen, lambda tokens: tokens[-1]),
])
def test_pooling_is_that_of_the_model_s_own_files(tmp_path: Path, pooling: str, make, pick) -> None:
    folder = with_sentence_transformers(make(tmp_path / "m"), pooling)
    vectors = Encoder(str(folder)).encode(TEXTS)  # of several lengths: padding must not move what is picked
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert torch.allclose(vector, unit(pick(states(folder, text))), atol=1e-5)


# ---------------------------------------------------------------- prompts by name and from the files

@pytest.mark.parametrize(("name", "query", "passage"), [
    ("intfloat/e5-base-v2", "query: ", "passage: "), ("intfloat/multilingual-e5-large", "query: ", "passage: "), ("/m/e5-small/", "query: ", "passage: "),
    ("/hub/models--intfloat--e5-large-v2/snapshots/abc", "query: ", "passage: "), ("E5-base-v2", "query: ", "passage: "),
    ("intfloat/multilingual-e5-large-instruct", SEARCH + " ", ""), ("intfloat/e5-mistral-7b-instruct", SEARCH + " ", ""),
    ("BAAI/bge-base-en-v1.5", "Represent this sentence for searching relevant passages: ", ""), ("BAAI/bge-m3", "", ""),
    ("Qwen/Qwen3-Embedding-0.6B", SEARCH, ""), ("facebook/contriever", "", ""), ("all-minilm-l6-v2", "", ""), ("me/my-e5-base-v2-tuned", "", ""),
])
def test_prompts_by_name(tmp_path: Path, name: str, query: str, passage: str) -> None:
    assert prompts_of(name, tmp_path) == Prompts(query, passage)


def test_the_model_s_own_prompts_win_over_its_name(tmp_path: Path) -> None:
    folder = with_sentence_transformers(plain_qwen(tmp_path / "Qwen3-Embedding-0.6B"), "lasttoken", {"query": "who : ", "document": ""})
    assert prompts_of(str(folder), folder) == Prompts("who : ", "")
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "", "document": ""}}')
    assert prompts_of(str(folder), folder) == Prompts(SEARCH, "")
    (folder / "config_sentence_transformers.json").write_text("{")
    with pytest.raises(UsageError, match="no sentence-transformers configuration"):
        prompts_of(str(folder), folder)


# ---------------------------------------------------------------- where prompts stand

@pytest.fixture
def e5(tmp_path: Path) -> Path:
    return with_sentence_transformers(plain_bert(tmp_path / "e5-small-v2"), "mean_tokens", default="query", prompts={"query": "query: ", "passage": "passage: "})


def test_queries_passages_and_plain_texts_are_encoded_each_in_their_way(e5: Path) -> None:
    encoder, bare = Encoder(str(e5)), Encoder(str(e5), query_prompt="", passage_prompt="")
    assert (encoder.query_prompt, encoder.passage_prompt) == ("query: ", "passage: ")
    for made, prompt in ((encoder.encode_queries(TEXTS), "query: "), (encoder.encode_passages(TEXTS), "passage: "), (encoder.encode(TEXTS), "")):
        assert torch.allclose(made, torch.stack([unit(states(e5, prompt + text).mean(0)) for text in TEXTS]), atol=1e-5)
    assert torch.equal(bare.encode_queries(TEXTS), bare.encode(TEXTS))  # also against the model's default prompt
    assert not torch.allclose(encoder.encode_queries(TEXTS), encoder.encode(TEXTS), atol=1e-2)
    assert encoder.encode_queries([]).shape == encoder.encode_passages([]).shape == (0, 16)


def test_windows_leave_room_for_the_prompt(tmp_path: Path) -> None:
    folder = plain_bert(tmp_path / "m", length=12)
    encoder = Encoder(str(folder), passage_prompt="passage : ")
    text = "the harbor froze in winter ships bread is baked who froze the bread in winter"
    windows = encoder._windows(text, "mean", "passage : ")
    assert " ".join(windows) == text and [len(window.split()) for window in windows] == [8, 7]  # 12 less [CLS], [SEP] and two of the prompt
    expected = unit(torch.stack([unit(states(folder, f"passage : {window}").mean(0)) for window in windows]).mean(0))
    assert torch.allclose(encoder.encode_passages([text], "mean")[0], expected, atol=1e-5)
    with pytest.raises(UsageError, match="leaves none for the text"):
        Encoder(str(folder), passage_prompt="the " * 10).encode_passages([text], "tail")


# ---------------------------------------------------------------- what the prompt changes is kept apart

def test_cached_vectors_of_two_passage_prompts_are_not_mixed_up(e5: Path, tmp_path: Path) -> None:
    corpus = corpus_of(TEXTS[:3])
    own, bare = Encoder(str(e5)), Encoder(str(e5), passage_prompt="")
    first, second = (corpus_vectors(corpus, encoder, folder=tmp_path / "c") for encoder in (own, bare))
    assert abs(first - second).max() > 1e-3
    assert torch.allclose(torch.tensor(first), own.encode_passages(corpus.contents), atol=1e-6)
    assert own.digest == encoder_digest(str(e5)) == encoder_digest(str(e5), passage_prompt="passage: ")
    assert bare.digest == encoder_digest(str(e5), passage_prompt="") == Encoder(str(e5), query_prompt="who", passage_prompt="").digest != own.digest
    assert len({encoder_digest(str(e5), "float16"), encoder_digest(str(e5)), encoder_digest(str(e5), passage_prompt="a"), bare.digest}) == 4


def test_an_index_remembers_its_prompts(e5: Path, tmp_path: Path) -> None:
    corpus = corpus_of(TEXTS[:3])
    info = build_index(corpus, "flat", Encoder(str(e5), query_prompt="who ", passage_prompt="bread "), tmp_path / "i")
    assert info.prompts == {"query_prompt": "who ", "passage_prompt": "bread "}
    retriever = open_index(tmp_path / "i")
    assert (retriever.encoder.query_prompt, retriever.encoder.passage_prompt) == ("who ", "bread ")
    query = "ships in winter"
    found = {p.contents: p.score for p in retriever.search_one(query, 3)}
    for text, score in found.items():
        cosine = unit(states(e5, f"who {query}").mean(0)) @ unit(states(e5, f"bread {text}").mean(0))
        assert score == pytest.approx(float(cosine), abs=1e-5)
    with pytest.raises(UsageError, match="another encoder"):
        open_index(tmp_path / "i", Encoder(str(e5)))
    assert make_retriever(corpus, Encoder(str(e5))).search_one(query, 1)[0].score != pytest.approx(max(found.values()), abs=1e-6)


def test_the_index_command_takes_prompts(e5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "a", "contents": "the harbor froze"}\n{"id": "b", "contents": "bread is baked"}\n')
    command = ["index", str(corpus), "--encoder", str(e5), "--device", "cpu", "--out"]
    assert main([*command, str(tmp_path / "own")]) == 0
    assert read_index(tmp_path / "own").prompts == {"query_prompt": "query: ", "passage_prompt": "passage: "}
    assert main([*command, str(tmp_path / "other"), "--passage-prompt", "the ", "--query-prompt", ""]) == 0
    assert read_index(tmp_path / "other").prompts == {"query_prompt": "", "passage_prompt": "the "}
    assert main([*command, str(tmp_path / "own"), "--passage-prompt", "the "]) == 2
    assert "another encoder" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "own"), "--query-prompt", "the "]) == 2
    assert "for the query prompt 'query: '" in capsys.readouterr().err
    assert main(["index", str(corpus), "--kind", "bm25", "--passage-prompt", "x", "--out", str(tmp_path / "b")]) == 2
    assert "bm25 uses no encoder" in capsys.readouterr().err
    assert load_corpus(tmp_path / "own" / "corpus.jsonl").ids == ("a", "b")
