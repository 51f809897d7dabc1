"""`evoctx score`: the answer metrics of any predictions file."""

from __future__ import annotations

import json
from pathlib import Path

from evoctx_torch.data.checks import require_golds, require_new
from evoctx_torch.data.jsonl import read_jsonl
from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.long_answers import LongAnswers
from evoctx_torch.metrics.answers import ANSWER_METRICS, score_answers
from evoctx_torch.metrics.multihoprag import multihoprag_acc
from evoctx_torch.paths import check_writable, replace


def score_file(source: Path | str, out: Path | str, long_answers: LongAnswers | None = None) -> dict[str, float]:
    """Score `{id, prediction, golden_answers}` a line of `source`; write `{id, em, f1, acc, …}` a line to `out`.

    `long_answers` adds its columns after the others. Returns `questions` (a count), the mean of every metric, and
    `multihoprag_acc`. `out` appears whole or not at all. Raises `UsageError` with file, line and field for bad input. A
    line with a `finish_reason` comes from a run: there an empty prediction is no answer and scores 0, as in the run's own
    columns.
    """
    source, out = Path(source), Path(out)
    check_writable(out)
    if out.is_dir() or out.resolve() == source.resolve():
        raise UsageError(f"--out {out} is {'a folder' if out.is_dir() else 'the file to be scored'}; expected another file")
    rows, lines, texts = [], {}, []
    for number, row in read_jsonl(source, {"id": str, "prediction": str, "golden_answers": list}):
        line = f"{source} line {number}"
        require_new(row["id"], lines, number, line)
        golds = require_golds(row, line, blank=True)
        failed = not row["prediction"] and "finish_reason" in row
        rows.append({"id": row["id"], **score_answers(row["prediction"], golds, failed=failed)})
        texts.append((row["prediction"], golds))
    columns = ANSWER_METRICS
    if long_answers is not None:
        columns += long_answers.columns
        for row, more in zip(rows, long_answers.score(*zip(*texts, strict=True)), strict=True):
            row |= more
    replace(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    means = {name: sum(row[name] for row in rows) / len(rows) for name in columns}
    return {"questions": len(rows), **means, "multihoprag_acc": multihoprag_acc([row["multihoprag_hit"] for row in rows])}
