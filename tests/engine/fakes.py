"""Executors that cost nothing and say exactly what they are told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evoctx_torch.operations import Decision, Failure, Passage, Pending, Question, Retrieved

CORPUS = [Passage(f"p{i}", f"d{i // 2}", f"Title {i}", f"Title {i}\nPassage number {i} of document {i // 2}.") for i in range(40)]


def question(i: int) -> Question:
    return Question(f"q{i}", f"What is number {i}?", (f"answer {i}",), {"supporting_passage_ids": [f"p{i % 40}"]})


class FakeRetriever:
    """Ranks the corpus from the passage whose number the query names; records every batch."""

    def __init__(self, fails: Callable[[Pending], bool] = lambda p: False) -> None:
        self.batches: list[list[Pending]] = []
        self.fails = fails

    def answer(self, pending: Sequence[Pending]) -> list[Retrieved | Failure]:
        self.batches.append(list(pending))
        return [Failure("error", "the index is on fire") if self.fails(p) else self._one(p) for p in pending]

    def _one(self, pending: Pending) -> Retrieved:
        operation = pending.operation
        start = sum(map(ord, operation.query)) % len(CORPUS)
        ranked = CORPUS[start:] + CORPUS[:start]
        unseen = [p for p in ranked if p.doc_id not in operation.exclude]
        return Retrieved(tuple(unseen[: operation.k]))


class FakeController:
    """Decides by a function of (question id, how many decisions that question has had)."""

    def __init__(self, action: Callable[[str, int], str]) -> None:
        self.action = action
        self.asked: dict[str, list[Pending]] = {}

    def answer(self, pending: Sequence[Pending]) -> list[Decision]:
        results = []
        for p in pending:
            earlier = self.asked.setdefault(p.question_id, [])
            action = self.action(p.question_id, len(earlier))
            earlier.append(p)
            results.append(Decision(0.25, 0.15, 0.5, 1.25 if action == "RETRIEVE" else 0.5, action, p.operation.trace, 0))
        return results
