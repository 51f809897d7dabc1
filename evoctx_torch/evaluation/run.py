"""`evoctx eval`: from a configuration to a complete run folder, continuing what is there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoctx_torch.analysis.report import write_report
from evoctx_torch.evaluation.claims import Claims
from evoctx_torch.evaluation.config import RunConfig
from evoctx_torch.evaluation.folder import Lines, RunFolder, line
from evoctx_torch.evaluation.inputs import Inputs, check_inputs, record
from evoctx_torch.evaluation.long_answers import LongAnswers
from evoctx_torch.evaluation.processes import ALONE, Processes
from evoctx_torch.evaluation.remembering import check_memory, run_memory
from evoctx_torch.evaluation.results import prediction_row, summarize
from evoctx_torch.evaluation.sharing import Part
from evoctx_torch.journal import record_in
from evoctx_torch.operations import Question


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call of `evaluate` left behind: `ran` questions were answered by it, the others were there already."""

    folder: Path
    config: dict[str, Any]
    metrics: dict[str, Any]
    ran: int


class Interrupted(Exception):
    """Ctrl-C: what is finished is written, the same command continues."""

    def __init__(self, folder: Path, done: int, total: int) -> None:
        super().__init__(f"interrupted: {done} of {total} questions are finished and written to {folder}; the same command continues")


def evaluate(config: RunConfig, out: Path, *, label: str | None = None, processes: Processes = ALONE) -> Outcome:
    """Answer the questions of a configuration and write the run's folder (design, section 5).

    A finished run is left as it is and no model is loaded (a report that is missing is written again); finished questions of
    an interrupted one are not answered again. `processes`: of several that are called alike, each takes part and returns when
    the run is complete (`sharing.Part`). Raises `UsageError` before anything is written, `Interrupted` after Ctrl-C.
    """
    inputs = check_inputs(config)
    common = config.common
    besides = LongAnswers([name.strip() for name in (common.metrics or "").split(",") if name.strip()],
                          bertscore_model=common.bertscore_model, bertscore_layers=common.bertscore_layers, device=common.device)
    if config.method.remembers:
        check_memory(config, inputs, processes.count)
    folder, asked = RunFolder(out), [question.id for question in inputs.questions]
    resolved = record(config, inputs, processes.count)
    if processes.first:
        folder.check(resolved | {"limit": inputs.limit})
    if folder.complete(asked):
        if processes.first and not folder.report.exists():
            write_report(out)
        return Outcome(out, folder.read_config(), folder.read_metrics(), 0)
    done = folder.done() if processes.first else {}
    todo = [question for question in inputs.questions if question.id not in done]
    with ExitStack() as held:  # the journals: nobody else works on the run until its files are written
        # The last wave of a memory may still have to end, though all its questions are finished.
        session = Session(0.0, True, 0)
        part = held.enter_context(closing(Part(folder, processes, inputs.questions))) if processes.count > 1 and todo else None
        if todo or config.method.remembers:
            session = answer(config, inputs, done, folder, resolved, label or config.method.name, held, processes, part)
        if not session.whole:
            if processes.first:
                folder.write(done, asked)
            raise Interrupted(out, len(done), len(asked))
        if part is not None:
            if not part.writes():
                return Outcome(out, folder.read_config(), folder.read_metrics(), session.ran)
            done, todo = done | part.gather(), part.todo
        besides.add_to([done[i][0] for i in asked])
        rows = folder.write(done, asked)
        metrics = summarize(rows, timing(session.seconds, rows, todo), measured=config.method.decides and getattr(config.options, "actions", "signals") == "signals")
        folder.finish(metrics)
        write_report(out)
        if part is not None:
            part.clear()
        Claims(folder.claims).remove()  # of an earlier launch that was killed
    return Outcome(out, resolved, metrics, session.ran)


@dataclass(frozen=True, slots=True)
class Session:
    """What `answer` did: wall-clock seconds of its loop, whether it ran to its end (Ctrl-C ends it early), questions that it answered."""

    seconds: float
    whole: bool
    ran: int


def answer(
    config: RunConfig, inputs: Inputs, done: dict[str, Lines], folder: RunFolder, resolved: dict[str, Any], label: str, held: ExitStack,
    processes: Processes, part: Part | None,
) -> Session:
    """Answer what is not in `done`, or this process's part of it, and add each finished question to `done` and to a journal, which
    stays open in `held`.
    """
    from evoctx_torch.evaluation.assemble import build_engine
    from evoctx_torch.evaluation.progress import RunProgress
    with ExitStack() as stack:
        progress = RunProgress(len(inputs.questions), len(done), label, elsewhere=part and part.elsewhere, shown=processes.first)
        began: float | None = None
        whole, before = False, len(done)
        try:
            memory = stack.enter_context(run_memory(config, inputs, folder)) if config.method.remembers else None
            if memory:
                resolved["memory_at_start"] = memory[1]
            processes.take_device(config.common.device)
            engine = build_engine(config, inputs, stack, progress.preparing, progress.on_tick, memory)
            if part is None:
                journal = held.enter_context(folder.start(resolved))
                turns: Iterable[tuple[Iterable[Question], frozenset[str]]] = [(inputs.questions, frozenset(done))]  # waves need their finished ones, too
            elif part.begin(resolved, done):
                journal, turns = part.journal, ((questions, frozenset()) for questions in part.turns())
            else:
                return Session(0.0, True, 0)
            began = time.monotonic()
            record_in(journal, engine)
            stack.enter_context(progress)
            for questions, skip in turns:
                with closing(engine.stream(questions, skip=skip)) as stream:
                    for _, trajectory in stream:
                        lines = prediction_row(trajectory, config.common.extract), trajectory.to_json()
                        journal.finish(trajectory.question.id, *map(line, lines))
                        done[trajectory.question.id] = lines
                        progress.finished(trajectory)
                        if part is not None:
                            part.finished()
            whole = True
        except KeyboardInterrupt:
            if began is None:  # models were still loading: the folder is as it was
                raise
        return Session(time.monotonic() - began, whole, len(done) - before)


def timing(seconds: float, rows: list[dict[str, Any]], todo: list[Question]) -> dict[str, float]:
    """The wall-clock figures of this session: they alone differ between equal runs."""
    asked = {question.id for question in todo}
    tokens = sum(row["completion_tokens"] for row in rows if row["id"] in asked)
    speed = {"questions_per_s": len(todo) / seconds, "completion_tokens_per_s": tokens / seconds} if seconds else {}
    return {"wall_s": seconds, "questions": len(todo), **speed}
