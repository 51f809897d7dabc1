"""Metrics of long answers that cost a library or a model, and are computed where they are asked for (`--metrics`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evoctx_torch.errors import UsageError
from evoctx_torch.metrics.rouge import ROUGE_METRICS, rouge, rouge_scorer

if TYPE_CHECKING:
    from evoctx_torch.evaluation.bertscore import BertScore

COLUMNS = {"rouge": ROUGE_METRICS, "bertscore": ("bertscore",)}
LONG_METRICS = tuple(column for columns in COLUMNS.values() for column in columns)


class LongAnswers:
    """The long-answer metrics of a list of names (`rouge`, `bertscore`); none is as good as any.

    Everything that can be refused is refused here: a name that is no metric, a missing library (`MissingExtra`, with
    the command that installs it), BERTScore without a model or with an unusable one (`UsageError`). Weights are loaded
    by the first `score`. Parameters of BERTScore: `evaluation.bertscore.BertScore`.
    """

    def __init__(
        self, names: Sequence[str], *, bertscore_model: str | None = None, bertscore_layers: int | None = None, device: str = "auto"
    ) -> None:
        if unknown := [name for name in names if name not in COLUMNS]:
            raise UsageError(f"--metrics has {unknown[0]!r}; expected some of {', '.join(COLUMNS)}")
        self.names = [name for name in COLUMNS if name in names]
        self.columns = tuple(column for name in self.names for column in COLUMNS[name])
        if "rouge" in self.names:
            rouge_scorer()
        self._bertscore: BertScore | None = None
        if "bertscore" in self.names:
            if not bertscore_model:
                raise UsageError("--metrics bertscore needs --bertscore-model M: all-minilm-l6-v2, a folder, or a hub name in the local cache")
            from evoctx_torch.evaluation.bertscore import BertScore
            self._bertscore = BertScore(bertscore_model, bertscore_layers, device)
        elif bertscore_model or bertscore_layers is not None:
            raise UsageError("--bertscore-model and --bertscore-layers are for --metrics bertscore: add that, or leave them out")

    def score(self, predictions: Sequence[str], golds: Sequence[Sequence[str]]) -> list[dict[str, float]]:
        """The columns of each row, floats in [0, 1] (BERTScore may be a little below 0); an empty prediction scores 0."""
        rows: list[dict[str, float]] = [{} for _ in predictions]
        if "rouge" in self.names:
            for row, prediction, several in zip(rows, predictions, golds, strict=True):
                row |= rouge(prediction, several)
        if self._bertscore is not None:
            for row, value in zip(rows, self._bertscore.score(predictions, golds), strict=True):
                row["bertscore"] = value
        return rows

    def add_to(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add the columns to lines of `predictions.jsonl`."""
        scores = self.score([row["prediction"] for row in rows], [row["golden_answers"] for row in rows])
        for row, columns in zip(rows, scores, strict=True):
            row |= columns
