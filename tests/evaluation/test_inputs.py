"""What is refused before a model is loaded, what is accepted as the same run, and what reaches the parts of a run."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from evoctx_torch.data.corpus import load_corpus
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation import assemble, inputs
from evoctx_torch.evaluation.config import difference, resolve
from evoctx_torch.evaluation.inputs import check_inputs
from evoctx_torch.evaluation.run import evaluate
from evoctx_torch.generation import openai_client
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.retrieval.build import build_index
from evoctx_torch.retrieval.hashing import HashEncoder


def test_a_bm25_index_takes_no_encoder_and_no_device(tmp_path, configure, scripted, data, monkeypatch):
    scripted()
    monkeypatch.setattr(inputs, "resolve_device", lambda device: device)
    build_index(load_corpus(data / "corpus.jsonl"), "bm25", None, tmp_path / "i")
    for given, words in (({"encoder": "e"}, "--encoder is e, and --index .* is a bm25 index"), ({"index_device": "cuda"}, "--index-device is cuda")):
        with pytest.raises(UsageError, match=words):
            check_inputs(configure(index=tmp_path / "i", **given))
    assert check_inputs(configure(index=tmp_path / "i")).encoder is None


def test_a_damaged_index_is_refused_before_a_generator_is_loaded(tmp_path, configure, scripted, data, monkeypatch):
    scripted()
    build_index(load_corpus(data / "corpus.jsonl"), "flat", HashEncoder(64), tmp_path / "i")
    (tmp_path / "i/index.faiss").write_bytes(b"not faiss")
    monkeypatch.setattr(assemble, "build_generator", lambda *_: pytest.fail("a generator was loaded"))
    with pytest.raises(UsageError, match="damaged"):
        evaluate(configure(index=tmp_path / "i"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_servers_are_asked_before_the_corpus_is_embedded(tmp_path, configure, scripted, monkeypatch):
    scripted()
    monkeypatch.setattr(assemble, "make_retriever", lambda *_, **__: pytest.fail("the corpus was embedded"))

    def unreachable(*_):
        raise UsageError("no server")
    monkeypatch.setattr(assemble, "build_generator", unreachable)
    with pytest.raises(UsageError, match="no server"):
        evaluate(configure(backend="openai", base_url="http://127.0.0.1:1/v1"), tmp_path / "run")


def test_an_index_is_searched_with_the_number_format_it_was_built_with(tmp_path, configure, scripted, data, monkeypatch):
    class Half(HashEncoder):
        def __init__(self, dtype: str) -> None:
            super().__init__(64)
            self.dtype = dtype

        @property
        def digest(self) -> str:
            return f"hash-{self.dtype}"
    scripted()
    monkeypatch.setattr(inputs, "encoder_digest", lambda name, dtype="float32", prompt=None: f"hash-{dtype}")
    monkeypatch.setattr(assemble, "Encoder", lambda name, device, dtype, canonical, **prompts: Half(dtype))
    build_index(load_corpus(data / "corpus.jsonl"), "flat", Half("float16"), tmp_path / "i")
    assert evaluate(configure("evoctx", index=tmp_path / "i", rounds=1), tmp_path / "run").ran == 8
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert (config["digests"]["encoder"], config["digests"]["boundary_encoder"]) == ("hash-float16", "hash-float32")


@pytest.mark.parametrize("given", [{"data": None, "queries": "towns/queries.jsonl"}, {}])
def test_closed_book_needs_no_corpus(tmp_path, configure, scripted, data, given, monkeypatch):
    scripted()
    (data / "corpus.jsonl").unlink()
    monkeypatch.chdir(tmp_path)
    assert evaluate(configure("closed-book", **given), tmp_path / "run").ran == 8
    with pytest.raises(UsageError, match=r"corpus"):
        evaluate(configure("naive-rag", **given), tmp_path / "other")


def test_a_report_that_is_missing_is_written_again_without_a_model(tmp_path, configure, scripted):
    scripted()
    evaluate(configure(), tmp_path / "run")
    before = (tmp_path / "run/report.html").read_bytes()
    (tmp_path / "run/report.html").unlink()
    requests = scripted()
    assert evaluate(configure(), tmp_path / "run").ran == 0 and not requests
    assert (tmp_path / "run/report.html").read_bytes() == before


@pytest.mark.parametrize(("first", "then"), [(None, 8), (8, None), (None, 20), (20, 8), (8, 20)])
def test_limits_that_cover_all_questions_are_the_same_run(tmp_path, configure, scripted, first, then):
    scripted()
    evaluate(configure(limit=first), tmp_path / "run")
    requests = scripted()
    assert evaluate(configure(limit=then), tmp_path / "run").ran == 0 and not requests
    with pytest.raises(UsageError, match="limit is 7 here"):
        evaluate(configure(limit=7), tmp_path / "run")


def model_folder(folder: Path, **config: object) -> Path:
    """The outside of a model: its weights are never read here."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": ["XForCausalLM"], **config}))
    (folder / "tokenizer.json").write_text("{}")
    save_file({"w": np.zeros(1, np.float32)}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("config", [{"max_position_embeddings": 64}, {"n_positions": 64}, {"text_config": {"max_position_embeddings": 64}}])
def test_a_reply_as_long_as_the_context_is_refused_before_weights_are_loaded(tmp_path, configure, config):
    model = model_folder(tmp_path / "model", **config)
    with pytest.raises(UsageError, match=r"generator: --max-new-tokens is 64; expected less than 64 \(the context length of .*model\)"):
        check_inputs(configure("closed-book", generator=model, max_new_tokens=64))
    check_inputs(configure("closed-book", generator=model, max_new_tokens=63))


def test_a_config_that_tells_no_context_length_leaves_it_to_the_loader(tmp_path, configure):
    check_inputs(configure("closed-book", generator=model_folder(tmp_path / "model"), max_new_tokens=10**6))


def test_the_time_limit_reaches_the_server_and_does_not_make_another_run(configure, monkeypatch):
    made = {}

    class Server:
        def __init__(self, *_: object, **how: object) -> None:
            made.update(how)

        def check_reachable(self) -> None:
            pass

        close = check_reachable
    monkeypatch.setattr(openai_client, "OpenAIGenerator", Server)
    config = configure(backend="openai", base_url="http://h/v1", request_timeout="5")
    with ExitStack() as stack:
        assemble.build_generators(config, "openai", PromptBook(Family("chat")), "cpu", stack)
    assert made["timeout_s"] == 5.0
    other = configure(backend="openai", base_url="http://h/v1", index_device="cuda", index_fp16=True)
    assert difference(config.flat(), other.flat()) is None


@pytest.mark.parametrize("own", [{}, {"chat": "answer.j2", "completion": "passage.j2"}, {"": "head.j2"}])
def test_a_folder_of_prompts_must_hold_one_that_the_run_uses(tmp_path, configure, scripted, own):
    scripted()
    folder = tmp_path / "prompts"
    for name in ("answr.j2", "completion/nothing.txt", "chat/answer.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("some text")
    for place, name in own.items():
        (folder / place / name).write_text("some text")
    if own:
        check_inputs(configure(prompts=folder))
    else:
        with pytest.raises(UsageError, match=r"holds no template of this run; expected at least one of head\.j2, passage\.j2, .*answer\.j2"):
            check_inputs(configure(prompts=folder))


def test_decide_is_no_template_of_a_run_that_never_decides(tmp_path, configure, scripted):
    scripted()
    (tmp_path / "decide.j2").write_text("{{ question }}")
    check_inputs(configure("evoctx", prompts=tmp_path))
    with pytest.raises(UsageError, match="no template of this run"):
        check_inputs(configure("naive-rag", prompts=tmp_path))


def test_an_option_class_checks_itself():
    with pytest.raises(UsageError, match=r"--actions model .* --no-trace"):
        resolve("evoctx", {"generator": "g", "trace": False, "actions": "model"})
    assert resolve("evoctx", {"generator": "g", "trace": False}).options.trace is False


def test_prompts_of_the_encoder_are_given_or_the_indexs(tmp_path, configure, scripted, data):
    scripted()
    assert check_inputs(configure()).encoder_prompts == {}
    given = check_inputs(configure(query_prompt="query: ", passage_prompt="")).encoder_prompts
    assert given == {"query_prompt": "query: ", "passage_prompt": ""}
    build_index(load_corpus(data / "corpus.jsonl"), "flat", HashEncoder(64), tmp_path / "i")
    assert check_inputs(configure(index=tmp_path / "i", query_prompt="ask: ")).encoder_prompts["query_prompt"] == "ask: "
    with pytest.raises(UsageError, match="--passage-prompt is for passages that this run embeds"):
        check_inputs(configure(index=tmp_path / "i", passage_prompt="told: "))
