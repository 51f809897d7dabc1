"""What happened to one question: the record that files, reports, metrics and training read.

The method fills in `bootstrap`, `rounds` and `answer` from what it received; the engine's ledger adds `calls` and
`retrievals`. Everything here is deterministic but `computed_prompt_tokens`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evoctx_torch.operations import Completion, Decision, Passage, Question, Retrieved, Thought
from evoctx_torch.transcript import Prompt


@dataclass(slots=True)
class Round:
    """One round. Keys that its action does not use stay empty; `notes` holds what only some methods have."""

    trace: str = ""
    probe: str = ""
    boundary: tuple[str, ...] = ()
    decision: Decision | None = None
    action: str = ""
    query: str = ""
    passages: tuple[Passage, ...] = ()
    subquery: str = ""
    notes: dict[str, Any] = field(default_factory=dict)

    def to_json(self, number: int) -> dict[str, Any]:
        """The round as one object of `trajectories.jsonl`; `number` counts from 1."""
        d = self.decision
        signals = {"near": finite(d.near), "centroid": finite(d.centroid), "tail": finite(d.tail)} if d else {}
        return {
            "round": number, "trace": self.trace, "probe": self.probe, "boundary": list(self.boundary),
            "signals": signals, "score": finite(d.score) if d else None, "action": self.action, "query": self.query,
            "passages": [passage_json(p) for p in self.passages], "subquery": self.subquery, **self.notes,
        }


@dataclass(frozen=True, slots=True)
class Call:
    """One model call: who was asked, what it cost, how it ended, which passages truncation dropped."""

    role: str
    completion: Completion

    def to_json(self) -> dict[str, Any]:
        """The call as one object of `trajectories.jsonl`."""
        c = self.completion
        return {
            "role": self.role, "prompt_tokens": c.prompt_tokens, "computed_prompt_tokens": c.computed_prompt_tokens,
            "completion_tokens": c.completion_tokens, "finish_reason": c.finish_reason, "dropped": list(c.dropped),
        }


@dataclass(slots=True)
class Trajectory:
    """The full record of one episode.

    `prediction` is set by methods whose answers have a form of their own (tags, "So the final answer is: …"); None leaves
    it to the general rule of extraction. `columns` are what only some methods report of a question (`turns`). `transcript`
    is the whole prompt and reply of methods whose model writes one long reply with observations between (Search-R1);
    training reads it (`transcript.reply_tokens`), files do not hold it.
    """

    question: Question
    method: str
    bootstrap_query: str = ""
    bootstrap: tuple[Passage, ...] = ()
    rounds: list[Round] = field(default_factory=list)
    answer: Completion | None = None
    prediction: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    transcript: Prompt | None = None
    calls: list[Call] = field(default_factory=list)
    retrievals: list[Retrieved] = field(default_factory=list)
    finish_reason: str = ""  # of the answer call, or what ended the episode
    error: str | None = None
    dropped: tuple[str, ...] = ()  # by the call that did not fit (over_length)

    @property
    def actions(self) -> list[str]:
        return [r.action for r in self.rounds if r.action]

    @property
    def passages(self) -> list[Passage]:
        """All passages retrieved, in order, repeats included."""
        return [p for result in self.retrievals for p in result.passages]

    def counts(self) -> dict[str, int]:
        """The efficiency columns of `predictions.jsonl` (metrics.md, Efficiency)."""
        passages = self.passages
        return {
            "retrieval_calls": len(self.retrievals),
            "retrieved_passages": len(passages),
            "unique_passages": len({p.id for p in passages}),
            "dropped_passages": len(set(self.dropped).union(*(c.completion.dropped for c in self.calls))),
            "llm_calls": len(self.calls),
            "prompt_tokens": sum(c.completion.prompt_tokens for c in self.calls),
            "computed_prompt_tokens": sum(c.completion.computed_prompt_tokens for c in self.calls),
            "completion_tokens": sum(c.completion.completion_tokens for c in self.calls),
            "rounds": len(self.rounds),
        }

    def to_json(self) -> dict[str, Any]:
        """The trajectory as one line of `trajectories.jsonl`."""
        answer = self.answer
        return {
            "id": self.question.id, "question": self.question.text, "method": self.method,
            "bootstrap": {"query": self.bootstrap_query, "passages": [passage_json(p) for p in self.bootstrap]},
            "rounds": [r.to_json(i) for i, r in enumerate(self.rounds, 1)],
            "answer": {"text": answer.text, "finish_reason": answer.finish_reason} if answer else {},
            "calls": [c.to_json() for c in self.calls],
            "finish_reason": self.finish_reason, "error": self.error, "dropped": list(self.dropped),
        }


def passage_json(passage: Passage) -> dict[str, Any]:
    """A passage as files show it: without its contents, which the corpus holds; a thought with them, and what it rests on."""
    shown = {"id": passage.id, "doc_id": passage.doc_id, "title": passage.title, "score": finite(passage.score)}
    if isinstance(passage, Thought):
        shown |= {"thought": passage.contents, "level": passage.level, "provenance": list(passage.provenance)}
    return shown


def finite(value: float | None) -> float | str | None:
    """JSON has no NaN or infinity: they are written as the strings "nan", "inf", "-inf"."""
    return value if value is None or abs(value) < float("inf") else str(value)

