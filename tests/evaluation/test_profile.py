"""`evoctx profile`: what a range is, whose time is whose, and that nothing of it stays on the engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from evoctx_torch.analysis import roofline
from evoctx_torch.analysis.profile_tables import operator_table, phase_table, quantity
from evoctx_torch.analysis.roofline import Bounds, draw, measure_bounds
from evoctx_torch.analysis.trace import times
from evoctx_torch.boundary.controller import BoundaryExecutor
from evoctx_torch.cli import main
from evoctx_torch.engine import Engine
from evoctx_torch.errors import MissingExtra, UsageError
from evoctx_torch.evaluation import assemble
from evoctx_torch.evaluation.profile import ProfileOptions, profile, profile_engine
from evoctx_torch.evaluation.ranges import Ranges, generating, put_on
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.methods.evoctx import EvoCtxOptions
from evoctx_torch.operations import Failure, Generate, Pending, Question, Retrieved
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.retrieval.hashing import HashEncoder
from evoctx_torch.transcript import Prompt, Segment

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "generation"))
from tiny_lm import generator as tiny_generator
from tiny_lm import roles, tiny_model

EVOCTX_PHASES = ["generate decider", "generate generator", "embed", "search", "decide", "bookkeeping"]


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure the device with little: how much is known of it is no matter here."""
    monkeypatch.setattr(roofline, "measure_bounds", lambda device: measure_bounds(device, copied=1 << 20, size=64))


def quiet(what: str, done: int, total: int) -> None:
    """A report that nobody reads."""


def rows_of(found: dict) -> dict[str, dict]:
    return {row["phase"]: row for row in found["phases"]}


def test_a_profile_has_every_phase_and_accounts_for_every_operation(tmp_path, configure, scripted):
    requests = scripted()
    # Thresholds that nothing reaches: retrieve, decide, think, decide, think, answer, and the questions' places refilled.
    config = configure("evoctx", rounds=2, batch_size=8, tau_near=9, tau_centroid=9, tau_tail=9)
    found = profile(config, ProfileOptions(ticks=8, warmup=0), tmp_path / "out", quiet)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["phases.json", "roofline.png", "trace.json"]
    assert json.loads((tmp_path / "out/phases.json").read_text()) == found
    assert (tmp_path / "out/roofline.png").read_bytes().startswith(b"\x89PNG")
    phases = rows_of(found)
    assert list(phases) == EVOCTX_PHASES
    assert sum(row["share"] for row in phases.values()) == pytest.approx(1) and all(row["seconds"] > 0 for row in phases.values())
    assert phases["bookkeeping"]["calls"] == 8, "one a tick"
    asked = [p.operation.role for p in requests]
    assert phases["generate decider"]["rows"] == asked.count("decider") == 16 and phases["generate decider"]["calls"] == 2
    assert phases["generate generator"]["rows"] == asked.count("generator")
    assert phases["search"]["rows_a_call"] == {"least": 8, "median": 8, "most": 8}
    # An exact search reads the 16 vectors once a call; first_unseen has 2 candidates a row, none seen, and 5 numbers out.
    assert phases["search"]["bytes"] == 16 * 64 * 4 + 8 * (8 * 2 + 9 + 8 * 5)
    assert phases["decide"]["rows"] == 16
    assert found["config"]["method"] == "evoctx" and found["config"]["digests"]["corpus"]


def test_operators_are_priced_by_the_shapes_they_were_called_with(tmp_path, configure, scripted):
    scripted()
    found = profile(configure("evoctx", rounds=1, batch_size=8, limit=3), ProfileOptions(ticks=3, warmup=0), tmp_path / "out", quiet)
    row = next(o for o in found["operators"] if o["operator"] == "boundary_signals")
    # 3 rows of 3 vectors (question and two passages), 64 numbers each: traces, vectors, indptr, slots, thresholds, outputs
    expected = 3 * 64 * 4 + 9 * 64 * 4 + 4 * 8 + 9 * 8 + 3 * 4 + 3 * (4 * 4 + 8 + 1)
    assert row["operator"] == "boundary_signals" and row["calls"] == 1 and row["rows"] == 3 and row["bytes"] == expected
    assert row["flops"] == 3 * 9 * 64 + 4 * 3 * 64
    assert row["bytes_per_s"] == pytest.approx(expected / row["seconds"])
    assert rows_of(found)["decide"]["bytes"] == expected and rows_of(found)["generate decider"]["bytes"] is None


def test_warm_up_is_neither_timed_nor_counted(tmp_path, configure, scripted):
    scripted()
    found = profile(configure("evoctx", rounds=1, batch_size=8), ProfileOptions(ticks=1, warmup=2), tmp_path / "out", quiet)
    phases = rows_of(found)
    assert phases["decide"]["calls"] == 1 and "search" not in phases and "generate decider" not in phases
    steps = [e["name"] for e in json.loads((tmp_path / "out/trace.json").read_text())["traceEvents"] if e["name"].startswith("ProfilerStep")]
    assert steps == ["ProfilerStep#2"]


def test_questions_come_again_when_they_run_out_and_an_earlier_profile_is_replaced(tmp_path, configure, scripted):
    requests = scripted()
    config = configure("closed-book", limit=2, batch_size=7)
    for ticks in (5, 3):
        found = profile(config, ProfileOptions(ticks=ticks, warmup=1), tmp_path / "out", quiet)
        assert found["batch_size"] == 2 and rows_of(found)["generate generator"]["rows"] == 2 * ticks
    assert len(requests) == 2 * (5 + 1) + 2 * (3 + 1)
    assert found["operators"] == []


def test_failed_rows_are_counted(tmp_path, configure, scripted):
    scripted(lambda p: Failure("error", "boom") if p.question_id == "q1" else "ok")
    found = profile(configure("closed-book", limit=4, batch_size=4), ProfileOptions(ticks=1, warmup=0), tmp_path / "out", quiet)
    assert rows_of(found)["generate generator"]["failed"] == 1


def engine_of(generator: object, encoder: HashEncoder) -> Engine:
    class Nothing:
        def answer(self, pending):
            return [Retrieved(()) for _ in pending]
    return Engine("evoctx", EvoCtxOptions(rounds=1), generator={"generator": generator, "decider": generator}, retriever=Nothing(),
                  controller=BoundaryExecutor(encoder), prompts=PromptBook(Family("completion")), batch_size=4)


def test_a_real_model_is_told_apart_from_its_tokenizer(tmp_path):
    model = tiny_generator(tiny_model(max_position_embeddings=4096), roles(4))
    engine = engine_of(model, HashEncoder(32))
    questions = [Question(f"q{i}", f"who is {i}?", ()) for i in range(3)]
    found = profile_engine(engine, questions, "cpu", ProfileOptions(ticks=6, warmup=0), tmp_path / "trace.json", quiet)
    phases = rows_of(found)
    assert phases["tokenize"]["calls"] == phases["generate decider"]["rows"] + phases["generate generator"]["rows"]
    assert phases["tokenize"]["prompt_tokens"] == sum(phases[f"generate {role}"]["prompt_tokens"] for role in ("decider", "generator"))
    assert 0 < phases["generate decider"]["completion_tokens"] <= 12
    assert phases["tokenize"]["seconds"] < phases["generate decider"]["seconds"]
    assert phases["embed"]["bytes"] % (32 * 4) == 0 and phases["embed"]["bytes"] > 0


def test_the_engine_is_left_as_it_was(tmp_path):
    model, encoder = ScriptedGenerator(lambda p: "ok"), HashEncoder(32)
    engine = engine_of(model, encoder)
    before = engine.retriever, engine.controller, dict(engine.generators), engine.controller.pool._encode, 4, None
    profile_engine(engine, [Question("q", "who?", ())], "cpu", ProfileOptions(ticks=2, warmup=0), tmp_path / "trace.json", quiet)
    now = engine.retriever, engine.controller, engine.generators, engine.controller.pool._encode, engine.batch_size, engine.on_tick
    assert now == before
    assert "encode" not in vars(encoder)


def test_an_error_in_the_loop_reaches_the_caller_and_the_engine_is_left_as_it_was(tmp_path):
    def interrupt(pending):
        raise KeyboardInterrupt
    model = ScriptedGenerator(interrupt)
    engine = engine_of(model, HashEncoder(32))
    with pytest.raises(KeyboardInterrupt):
        profile_engine(engine, [Question("q", "who?", ())], "cpu", ProfileOptions(ticks=9, warmup=0), tmp_path / "trace.json", quiet)
    assert engine.generators["decider"] is model
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):  # refuses to start where another one runs
        torch.ones(1)


def test_roles_that_share_a_model_share_a_wrapper_and_a_batch_is_named_by_its_roles(tmp_path):
    from contextlib import ExitStack

    engine = engine_of(ScriptedGenerator(lambda p: "ok"), HashEncoder(32))
    with ExitStack() as stack:
        put_on(engine, Ranges("cpu"), stack)
        assert engine.generators["decider"] is engine.generators["generator"]
    asks = [Pending("q", 0, Generate(role, Prompt((Segment("?"),)))) for role in ("generator", "decider", "generator")]
    assert generating(asks) == "generate decider+generator" and generating(asks[:1]) == "generate generator"


def event(name: str, start: float, end: float, category: str = "user_annotation", tid: int = 1, **args: object) -> dict:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": end - start, "args": args}


def test_own_times_and_kernels_go_to_the_innermost_phase():
    signals = {"Input Dims": [[2, 4], [9, 4], [3], [5], [3], [], [], []], "Input type": ["c10::Half", "c10::Half", "long int", "long int", "float", "", "Scalar", ""],
               "Concrete Inputs": ["", "", "", "", "", "", "0.9", ""]}
    events = [
        event("kernel a", 500, 530, "kernel", 7, correlation=1), event("kernel b", 530, 540, "kernel", 7, correlation=2),
        event("Memcpy DtoH", 560, 565, "gpu_memcpy", 7, correlation=3), event("phase/decide", 500, 600, "gpu_user_annotation", 7),
        event("ProfilerStep#3", 0, 1000),
        event("phase/decide", 100, 400), event("phase/embed", 100, 200), event("cudaLaunchKernel", 110, 111, "cuda_runtime", correlation=1),
        event("evoctx::boundary_signals", 250, 300, "cpu_op", **signals), event("cuLaunchKernelEx", 260, 262, "cuda_driver", correlation=2),
        event("cudaMemcpyAsync", 350, 352, "cuda_runtime", correlation=3), event("cudaDeviceSynchronize", 360, 362, "cuda_runtime"),
        event("phase/decide", 100, 900, tid=2),  # another thread's is none of ours
        event("aten::add", 700, 701, "cpu_op"), {"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {}},
    ]  # fmt: skip
    for order in (events, events[::-1]):
        found = times(order)
        assert list(found.phases) == ["bookkeeping", "decide", "embed"]
        us = {name: round(spent.seconds * 1e6, 6) for name, spent in found.phases.items()}
        assert us == {"bookkeeping": 700, "decide": 200, "embed": 100}
        decide, embed, operator = found.phases["decide"], found.phases["embed"], found.operators["boundary_signals"]
        assert (decide.launches, embed.launches, operator.launches) == (1, 1, 1)
        assert decide.device_seconds == pytest.approx(15e-6) and embed.device_seconds == pytest.approx(30e-6)
        assert operator.device_seconds == pytest.approx(10e-6) and operator.rows == 2
        assert decide.bytes == operator.bytes == 2 * 4 * 2 + 5 * 4 * 2 + 3 * 8 + 5 * 8 + 3 * 4 + 2 * (16 + 8 + 1)


def test_tables_fit_a_terminal_and_print_names_as_they_are(tmp_path, configure, scripted):
    scripted()
    found = profile(configure("evoctx", rounds=1), ProfileOptions(ticks=4, warmup=0), tmp_path / "out", quiet)
    found["phases"][0]["phase"] = "generate [/]"
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(phase_table(found))
    console.print(operator_table(found))
    text = console.export_text()
    assert "generate [/]" in text and "boundary_signals" in text and "100.0%" in text and "…" not in text
    found["device"] = "cuda"
    wide = Console(width=110, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    wide.print(phase_table(found))
    assert "launches" in wide.export_text() and "launches" not in text


@pytest.mark.parametrize(("number", "unit", "words"), [
    (0.00123456, "s", "1.23 ms"), (93.4, "s", "93.4 s"), (999.6, "s", "1.00 ks"), (1234567890, "B/s", "1.23 GB/s"), (5, "B", "5.00 B"), (2e15, "FLOP/s", "2.00 PFLOP/s"), (None, "B", "–"),
])
def test_quantities_have_three_digits_and_a_prefix(number, unit, words):
    assert quantity(number, unit) == words


def test_the_roofline_is_drawn_from_bounds_measured_here(tmp_path):
    bounds = measure_bounds("cpu", copied=1 << 22, size=128)
    assert 1e7 < bounds.copy_bytes_per_s < 1e14 and 1e7 < bounds.matmul_flops_per_s < 1e16
    operators = [{"operator": "a", "bytes": 1000, "flops": 10, "seconds": 1e-6}, {"operator": "votes", "bytes": 1000, "flops": 0, "seconds": 1e-6},
                 {"operator": "unknown", "bytes": None, "flops": None, "seconds": 1e-6}]
    for number, some in enumerate((operators, [])):
        draw(some, Bounds(1e10, 1e12), tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.models
def test_the_command_prints_both_tables_and_leaves_the_three_files(tmp_path, data, shared, capsys):
    out, model = tmp_path / "out", str(shared / "models/tiny-llama")
    options = ["--rounds", "1", "--top-k", "2", "--max-new-tokens", "3", "--limit", "3", "--ticks", "4", "--warmup", "0"]
    assert main(["profile", "evoctx", "--data", str(data), "--generator", model, "--out", str(out), *options]) == 0
    said = capsys.readouterr().out
    for words in ("evoctx: 4 ticks, 3 questions at once", "generate decider", "tokenize", "embed", "search", "decide", "bookkeeping", "boundary_signals", "roofline.png"):
        assert words in said, words
    assert sorted(p.name for p in out.iterdir()) == ["phases.json", "roofline.png", "trace.json"]


@pytest.mark.parametrize(("given", "words"), [
    (["--ticks", "0"], "--ticks is 0; expected at least 1"), (["--ticks", "-3"], "--ticks is -3; expected at least 1"),
    (["--ticks", "few"], "--ticks is 'few'; expected a whole number"), (["--warmup", "-1"], "--warmup is -1; expected at least 0"),
    (["--rounds", "-1"], "--rounds is -1"), (["--data", "nowhere"], "nowhere"), (["--nonsense"], "--nonsense"),
])
def test_wrong_calls_are_one_line_and_code_2(tmp_path, data, capsys, given, words):
    out = tmp_path / "out"
    code = main(["profile", "evoctx", "--data", str(data), "--generator", "smollm2", "--out", str(out), *given])
    error = capsys.readouterr().err
    assert code == 2 and words in error and error.count("\n") == 1 and not out.exists()


def test_a_folder_with_other_files_is_refused_and_kept(tmp_path, configure, scripted):
    scripted()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep me")
    with pytest.raises(UsageError, match=r"notes\.txt, which is no part of a profile"):
        profile(configure(), ProfileOptions(), tmp_path / "mine", quiet)
    with pytest.raises(UsageError, match="is a file"):
        profile(configure(), ProfileOptions(), tmp_path / "mine/notes.txt", quiet)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_a_missing_plotting_library_is_said_before_a_model_is_loaded(tmp_path, configure, scripted, monkeypatch):
    requests = scripted()
    monkeypatch.setattr(assemble, "build_engine", lambda *_: pytest.fail("models were loaded"))
    monkeypatch.setattr("evoctx_torch.evaluation.profile.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"evoctx-torch\[report\]"):
        profile(configure(), ProfileOptions(), tmp_path / "out", quiet)
    assert not requests and not (tmp_path / "out").exists()


def test_help_lists_the_evaluations_options_and_needs_no_torch():
    code = ("import sys\nfrom evoctx_torch.cli import main\ntry:\n main(['profile', 'evoctx', '--help'])\nfinally:\n"
            " print(sorted(set(sys.modules) & {'torch', 'transformers', 'numpy', 'matplotlib', 'rich'}))")
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout
    assert "--ticks N" in text and "--tau-near X" in text and "--decider-dtype" in text and text.rstrip().endswith("[]")
