"""The command line: options from dataclasses, configuration files, presets, roles; wrong calls in one line, exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoctx_torch.cli import build_parser, main
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.config import RECORD, difference, known_options, presets, resolve
from evoctx_torch.methods import METHODS


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What a refused call says on stderr."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and "Traceback" not in err
    return err


BASE = ("eval", "evoctx", "--data", "demo", "--generator", "smollm2", "--out", "never")


@pytest.mark.parametrize(("argv", "words"), [
    ((), "COMMAND"), (("nonsense",), "nonsense"), (("eval",), "METHOD"), (("eval", "no-such-method", "--out", "x"), "no-such-method"),
    ((*BASE, "--no-such-option", "3"), "no-such-option"), ((*BASE, "--rounds", "-1"), "--rounds is -1; expected at least 0"),
    ((*BASE, "--rounds", "two"), "--rounds is 'two'; expected a whole number"), ((*BASE, "--rounds", "2.5"), "expected a whole number"),
    ((*BASE, "--tau-near", "0"), "--tau-near is 0.0; expected greater than 0"), ((*BASE, "--tau-near", "nan"), "finite"),
    ((*BASE, "--top-k", "0"), "--top-k is 0"), ((*BASE, "--limit", "0"), "--limit is 0"), ((*BASE, "--batch-size", "0"), "--batch-size is 0"),
    ((*BASE, "--temperature", "-1"), "--temperature is -1.0"), ((*BASE, "--signals", "far"), "--signals is 'far'; expected one of hybrid"),
    ((*BASE, "--tail-quantile", "1.5"), "at most 1"), ((*BASE, "--backend", "magic"), "expected one of hf, openai"),
    ((*BASE, "--backend", "openai"), "needs --base-url"), ((*BASE, "--decider-backend", "openai"), "decider: --backend openai needs --base-url"),
    ((*BASE, "--decider-top-p", "3"), "decider: --top-p is 3.0"), ((*BASE, "--preset", "dream"), "expected one of ace-paper, evoctx-paper"),
    ((*BASE, "--preset", "naive-rag-paper"), "is for the method naive-rag"), ((*BASE, "--config", "nowhere.toml"), "nowhere.toml"),
    (("eval", "naive-rag", "--data", "demo", "--out", "never"), "--generator is missing"),
    (("eval", "naive-rag", "--generator", "smollm2", "--out", "never"), "no data set"),
    ((*BASE[:2], "--data", "nowhere", *BASE[4:]), "nowhere"), ((*BASE, "--device", "tpu"), "--device is 'tpu'"),
    ((*BASE[:5], "no-such-model", *BASE[6:]), "no-such-model"), ((*BASE, "--encoder", "./no-encoder"), "no-encoder"),
    ((*BASE, "--index", "no-index"), "no-index"), ((*BASE, "--prompts", "no-prompts"), "no-prompts"),
    (("search", "--index", "no-index", "--query", "x"), "no-index"), (("search", "--index", "i", "--query", " "), "--query is blank"),
    (("search", "--index", "i", "--query", "x", "--top-k", "0"), "--top-k is 0"), (("score", "none.jsonl", "--out", "o"), "none.jsonl"),
    (("replay", "no-run", "--id", "q"), "no-run"), (("report", "no-run"), "no-run"), (("index", "no-corpus.jsonl", "--out", "i"), "no-corpus.jsonl"),
    (("index", "c", "--out", "i", "--kind", "magic"), "magic"),
    ((*BASE, "--no-trace", "--actions", "model"), "--actions model obeys the word in the decider's reply, and --no-trace asks for none"),
    ((*BASE, "--base-url", "http://h/v1"), "--base-url http://h/v1 (role generator) is for --backend openai"),
    ((*BASE, "--decider-base-url", "http://h/v1"), "(role decider) is for --backend openai"), ((*BASE, "--decider", ""), "--decider is blank"),
    ((*BASE[:5], " ", *BASE[6:]), "--generator is blank"), ((*BASE, "--encoder", " "), "--encoder is blank"),
    ((*BASE, "--boundary-encoder", ""), "--boundary-encoder is blank"), (("index", "c", "--out", "i", "--encoder", " "), "' ' is blank"),
    (("index", "c", "--out", "i", "--encoder", "e", "--kind", "bm25"), "--kind bm25 uses no encoder"), (("index", "c", "--out", "i", "--dtype", "half"), "half"),
    ((*BASE, "--max-new-tokens", "64", "--context-length", "64"), "--max-new-tokens is 64; expected less than 64 (--context-length)"),
    ((*BASE, "--context-length", "100", "--decider-max-new-tokens", "200"), "decider: --max-new-tokens is 200; expected less than 100"),
    ((*BASE, "--index-fp16"), "add --index-device cuda"), ((*BASE, "--request-timeout", "0"), "--request-timeout is 0.0; expected greater than 0"),
    ((*BASE[:-1], "n" * 300), "a name of 300 bytes; expected at most 240"), ((*BASE[:-1], f"new/{'n' * 300}/run"), "a name of 300 bytes"),
    ((*BASE, "--index", "n" * 300), "too long"), (("index", "c", "--out", "n" * 300), "too long"), (("score", "s", "--out", "n" * 300), "a name of 300 bytes"),
    (("search", "--index", "i", "--query", "caf\udce9"), "'caf\\udce9' is not valid UTF-8"), ((*BASE[:-1], "caf\udce9"), "is not valid UTF-8"),
])
def test_wrong_calls_say_what_to_change_in_one_line(capsys, tmp_path, monkeypatch, argv, words):
    monkeypatch.chdir(tmp_path)
    assert words in said(capsys, *argv)
    assert not any(tmp_path.iterdir()), "a refused call left something behind"


@pytest.mark.parametrize("command", ["eval", "score", "index"])
@pytest.mark.parametrize("place", ["file/out", "/proc/none/out"])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(capsys, tmp_path, monkeypatch, command, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "p.jsonl").write_text('{"id": "a", "prediction": "y", "golden_answers": ["y"]}\n')
    (tmp_path / "corpus.jsonl").write_text('{"id": "a", "contents": "y"}\n')
    argv = {"eval": [*BASE[:-1], place], "score": ["score", "p.jsonl", "--out", place], "index": ["index", "corpus.jsonl", "--kind", "bm25", "--out", place]}
    assert f"--out {place}" in said(capsys, *argv[command])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus.jsonl", "file", "p.jsonl"]


@pytest.mark.parametrize("method", METHODS)
def test_help_lists_every_option_with_its_default(capsys, method):
    with pytest.raises(SystemExit) as end:
        build_parser().parse_args(["eval", method, "--help"])
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name in known_options(METHODS[method]):
        assert f"--{name.replace('_', '-')}" in text
    if method == "evoctx":
        assert "[unit: distance; default: 0.3; paper: 0.3]" in text and "open in the paper" in text


def test_precedence_is_default_preset_file_command_line(tmp_path):
    (tmp_path / "c.toml").write_text("top_k = 7\nrounds = 4\n")
    given = {"generator": "smollm2", "rounds": "2"}
    config = resolve("evoctx", given, config=tmp_path / "c.toml", preset="evoctx-paper")
    assert (config.options.rounds, config.options.top_k, config.options.tau_tail) == (2, 7, 0.4)
    assert config.models == {"generator": "smollm2", "decider": "Qwen/Qwen3-4B-Thinking-2507"}
    assert config.roles["decider"].max_new_tokens == 2048 and config.roles["generator"].max_new_tokens == 64


def test_a_role_takes_the_generators_settings_unless_it_has_its_own():
    config = resolve("evoctx", {"generator": "a", "backend": "openai", "base_url": "http://one/v1", "temperature": "0.5", "decider": "b",
                                "decider_base_url": "http://two/v1", "decider_max_new_tokens": "9"})
    decider, generator = config.roles["decider"], config.roles["generator"]
    assert (decider.backend, decider.base_url, decider.temperature, decider.max_new_tokens) == ("openai", "http://two/v1", 0.5, 9)
    assert (generator.base_url, generator.max_new_tokens) == ("http://one/v1", 64)


def test_the_configuration_of_any_run_is_a_configuration_file(tmp_path):
    first = resolve("evoctx", {"generator": "smollm2", "data": "demo", "rounds": "3", "tau_near": "0.25", "decider_temperature": "0.3", "refill": False})
    record = {**first.flat(), "versions": {}, "digests": {}, "num_processes": 1}
    (tmp_path / "config.json").write_text(json.dumps(record))
    again = resolve("evoctx", {}, config=tmp_path / "config.json")
    assert again.flat() == first.flat()
    assert set(record) - set(RECORD) - {"method"} <= known_options(METHODS["evoctx"])


@pytest.mark.parametrize(("name", "text", "words"), [
    ("c.toml", "top_q = 3", "'top_q', which is no option of evoctx"), ("c.toml", "top_k = ", "flat TOML"), ("c.toml", "top_k = 'x'", "--top-k is 'x'"),
    ("c.toml", "top_k = true", "--top-k is True; expected a whole number"), ("c.toml", "generator = 5", "--generator is 5; expected text"),
    ("c.toml", "tau_near = true", "--tau-near is True; expected a number"), ("c.toml", "refill = 1", "--refill is 1; expected true or false"),
    ("c.toml", "refill = 'yes'", "--refill is 'yes'; expected true or false"), ("c.toml", "rounds = 2.0", "--rounds is 2.0; expected a whole number"),
    ("c.toml", "decider = ['a']", "--decider is ['a']; expected text"), ("c.toml", "[data]\nx = 1", "--data is {'x': 1}; expected text"), ("c.json", "[1]", "config.json of a run"), ("c.toml", 'method = "naive-rag"', "for the method naive-rag"),
])
def test_bad_configuration_files_are_refused(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as error:
        resolve("evoctx", {} if "generator" in text else {"generator": "smollm2"}, config=tmp_path / name)
    assert words in str(error.value)


def test_a_configuration_file_may_hold_every_type(tmp_path):
    (tmp_path / "c.toml").write_text('generator = "g"\ntau_near = 1\ntau_tail = 0.5\nrefill = false\nrounds = 3\n')
    config = resolve("evoctx", {"prompts": tmp_path}, config=tmp_path / "c.toml")
    assert (config.options.tau_near, config.options.tau_tail, config.options.refill, config.options.rounds) == (1.0, 0.5, False, 3)
    assert config.common.prompts == str(tmp_path)


def test_an_address_serves_every_role_that_has_no_own():
    one, two = "http://one/v1", "http://two/v1"
    both = resolve("evoctx", {"generator": "g", "base_url": one, "decider_backend": "openai"})
    assert both.roles["decider"].base_url == one and both.roles["generator"].backend == "hf"
    again = resolve("evoctx", {name: value for name, value in both.flat().items() if name != "method"})
    assert again.flat() == both.flat()
    with pytest.raises(UsageError, match=r"--base-url http://one/v1 \(role generator\) is for --backend openai"):
        resolve("evoctx", {"generator": "g", "base_url": one, "decider_backend": "openai", "decider_base_url": two})


def test_every_preset_resolves():
    import tomllib

    from evoctx_torch.evaluation.config import PRESETS
    assert presets()
    for name in presets():
        method = tomllib.loads((PRESETS / f"{name}.toml").read_text())["method"]
        assert resolve(method, {}, preset=name).method.name == method


def test_difference_names_what_changes_an_answer_only():
    config = resolve("naive-rag", {"generator": "g", "data": "demo", "limit": "5"}).flat()
    assert difference(config, {**config, "batch_size": 1, "device": "cuda", "max_batch_tokens": 5}) is None
    assert difference(config, {**config, "limit": 9}) is None and difference(config, {**config, "limit": None}) is None
    assert "limit" in difference(config, {**config, "limit": 4})
    assert difference(config, {**config, "top_k": 2}).startswith("top_k is 2 here and 5 there")
    assert "temperature" in difference({**config, "temperature": 0.5}, config)


def test_ls_lists_methods_presets_and_data(capsys):
    assert main(["ls"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in [*METHODS, *presets(), "demo"])


def test_score_prints_the_means(tmp_path, capsys):
    rows = [{"id": "a", "prediction": "Rush", "golden_answers": ["rush"]}, {"id": "b", "prediction": "no", "golden_answers": ["yes"]}]
    source = Path(tmp_path / "p.jsonl")
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["score", str(source), "--out", str(tmp_path / "s.jsonl")]) == 0
    out = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert out["questions"] == "2" and out["em"] == "0.5000"
