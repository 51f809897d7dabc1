"""`evoctx judge`: a model judges the predictions of a finished run, alone (LLM match) or against another run's (win rate)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

from evoctx_torch.analysis.runs import read_predictions
from evoctx_torch.data.datasets import digest_file
from evoctx_torch.engine import Engine
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.config import EvalOptions, ModelOptions, RunConfig
from evoctx_torch.evaluation.folder import line
from evoctx_torch.evaluation.judging.methods import MATCH, SCORE, JudgeOptions
from evoctx_torch.evaluation.judging.verdicts import match_line, match_summary, said_something, score_line, score_summary
from evoctx_torch.operations import Question
from evoctx_torch.options import typed
from evoctx_torch.paths import check_writable, replace
from evoctx_torch.trajectory import Trajectory

# What of a run's options makes sense for a judge, besides its model's.
KEPT = ("prompts", "seed", "deterministic", "batch_size", "max_batch_tokens", "device", "request_timeout")
SKIPPED = tuple(f.name for f in fields(EvalOptions) if f.name not in KEPT)


def resolve_judge(model: str | None, given: Mapping[str, Any], *, against: bool = False) -> RunConfig:
    """The configuration of a judge. Raises `UsageError`; a judge has no default model."""
    if not model:
        raise UsageError("--judge is missing: name the model that judges (smollm2 is the embedded one, and too small to judge)")
    settings = typed(ModelOptions, given)
    common = typed(EvalOptions, {name: value for name, value in given.items() if name in KEPT} | {"generator": model})
    if settings.base_url is not None and settings.backend != "openai":
        raise UsageError(f"--base-url {settings.base_url} is for --backend openai: add that, or leave it out")
    method, roles = SCORE if against else MATCH, ("generator", "judge")  # every run has a generator; here it is the judge
    return RunConfig(method, JudgeOptions(), common, settings, dict.fromkeys(roles, model), dict.fromkeys(roles, settings))


def judge(folder: Path, config: RunConfig, against: Path | None = None) -> tuple[dict[str, Any], Path]:
    """Judge the run in `folder`; the summary, and the JSON file that it was written to (a line a question beside it).

    LLM match goes to `judge.json`, a win rate to `judge-against-<name of the other folder>.json`; an earlier result of
    the same name is replaced, the run's own files stay as they are, and an interrupted judge leaves nothing. An empty
    prediction needs no call. Raises `UsageError` before a model is loaded.
    """
    check_writable(folder)
    rows = read_predictions(folder)[1]
    answers = {row["id"]: (row["prediction"],) for row in rows}
    if against is not None:
        answers = {i: (*mine, other) for (i, mine), other in zip(answers.items(), others(folder, rows, against), strict=True)}
    questions = [Question(row["id"], row["question"], tuple(row["golden_answers"]), {"answers": answers[row["id"]]})
                 for row in rows if all(map(said_something, answers[row["id"]]))]
    records, digest, seconds = ask(config, questions)
    to_line, summarize = (match_line, match_summary) if against is None else (score_line, score_summary)
    lines = [to_line(row, answers[row["id"]], records.get(row["id"])) for row in rows]
    path = folder / ("judge.json" if against is None else f"judge-against-{against.resolve().name}.json")
    summary = {
        **summarize(lines), "judge": {**described(config), "digest": digest}, "against": None if against is None else str(against),
        "predictions_digest": digest_file(folder / "predictions.jsonl"), "timing": {"wall_s": seconds},
    }
    replace(path.with_suffix(".jsonl"), "".join(map(line, lines)))
    replace(path, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    return summary, path


def judged_already(folder: Path, config: RunConfig) -> dict[str, Any] | None:
    """The LLM match that a judge with these settings gave the run as it is now; None where it has to be asked."""
    path = folder / "judge.json"
    if not path.is_file():
        return None
    summary = json.loads(path.read_text(encoding="utf-8"))
    same = {name: value for name, value in summary["judge"].items() if name != "digest"} == described(config)
    return summary["llm_match"] if same and summary["predictions_digest"] == digest_file(folder / "predictions.jsonl") else None


def others(folder: Path, rows: list[dict[str, Any]], against: Path) -> list[str]:
    """The other run's predictions in the order of `rows`. Raises `UsageError` unless it has the same questions."""
    found = {row["id"]: row for row in read_predictions(against)[1]}
    for row in rows:
        other = found.pop(row["id"], None)
        if other is None or any(other[name] != row[name] for name in ("question", "golden_answers")):
            wrong = "lacks" if other is None else "asks something else in"
            raise UsageError(f"--against {against} {wrong} question {row['id']!r} of {folder}: expected a run on the same questions")
        found[row["id"]] = other
    if len(found) > len(rows):
        extra = next(i for i in found if i not in {row["id"] for row in rows})
        raise UsageError(f"--against {against} has question {extra!r}, which {folder} lacks: expected a run on the same questions")
    return [found[row["id"]]["prediction"] for row in rows]


def ask(config: RunConfig, questions: list[Question]) -> tuple[dict[str, Trajectory], str | None, float]:
    """Let the judge answer; records by question id, the digest of its model, wall-clock seconds of the loop."""
    from evoctx_torch.evaluation import assemble, inputs
    from evoctx_torch.evaluation.progress import RunProgress
    from evoctx_torch.generation.models import resolve_device

    device, digest = resolve_device(config.common.device), inputs.check_generator(config, "judge")
    prompts = inputs.prompt_book(config)
    prompts.check(config.method.templates)
    if not questions:
        return {}, digest, 0.0
    with ExitStack() as stack:
        generators = assemble.build_generators(config, config.roles["judge"].backend, prompts, device, stack)
        progress = RunProgress(len(questions), 0, config.method.name)
        engine = Engine(config.method, config.options, generator={"judge": generators["judge"]}, prompts=prompts,
                                 batch_size=config.common.batch_size, on_tick=progress.on_tick)
        began, records = time.monotonic(), {}
        with progress:
            for _, record in engine.stream(questions):
                records[record.question.id] = record
                progress.finished(record)
    return records, digest, time.monotonic() - began


def described(config: RunConfig) -> dict[str, Any]:
    """The judge's options as `judge.json` holds them."""
    flat = config.flat()
    names = [*KEPT, *(f.name for f in fields(ModelOptions))]
    return {"model": config.models["judge"], **{name: flat[name] for name in names if name in flat}}
