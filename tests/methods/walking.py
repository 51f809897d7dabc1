"""Walk a baseline through a small invented world: a retriever that ranks by shared words, replies one after another."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evoctx_torch.engine import Engine
from evoctx_torch.generation.scripted import ScriptedGenerator
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.methods import METHODS, NO_MODULES
from evoctx_torch.operations import Completion, Failure, Passage, Pending, Question, Retrieved
from evoctx_torch.prompts import Family, PromptBook
from evoctx_torch.trajectory import Trajectory

WORLD = [Passage(f"p{i}", title, title, f"{title}\n{text}") for i, (title, text) in enumerate([
    ("Velmora Bridge", "Velmora Bridge was designed by Iris Quell."),
    ("Iris Quell", "Iris Quell was an engineer born in Ostrand."),
    ("Ostrand", "Ostrand is a harbour town whose mayor is Tobin Hale."),
    ("Tobin Hale", "Tobin Hale studied law at Marwick College."),
    ("Marwick College", "Marwick College stands in Brask."),
    ("Brask", "Brask is a mining city."),
])]
QUESTION = Question("q", "Who is mayor where the designer of Velmora Bridge was born?", ("Tobin Hale",))
Reply = str | Completion | Failure


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@dataclass
class WordRetriever:
    """Ranks the world by words shared with the query; nothing in common is not found. Records the queries."""

    queries: list[str] = field(default_factory=list)
    passages: Sequence[Passage] = tuple(WORLD)

    def answer(self, pending: Sequence[Pending]) -> list[Retrieved]:
        return [self._find(p.operation) for p in pending]

    def _find(self, operation: Any) -> Retrieved:
        self.queries.append(operation.query)
        asked = words(operation.query) - {"who", "is", "the", "of", "in", "was", "a", "where"}
        ranked = sorted((p for p in self.passages if asked & words(p.contents)), key=lambda p: (-len(asked & words(p.contents)), p.id))
        return Retrieved(tuple(p for p in ranked if p.doc_id not in operation.exclude)[: operation.k])


@dataclass
class Walk:
    """What one walk left behind."""

    record: Trajectory
    requests: list[Pending]
    queries: list[str]

    @property
    def prompts(self) -> list[str]:
        return [p.operation.prompt.text for p in self.requests]

    def shown(self, call: int) -> list[str]:
        """The ids of the passages in a call's prompt, in order."""
        return [s.passage_id for s in self.requests[call].operation.prompt.segments if s.passage_id is not None]


def walk(method: str, *replies: Reply, family: str = "chat", question: Question = QUESTION, modules: Any = NO_MODULES,
         passages: Sequence[Passage] = tuple(WORLD), **options: Any) -> Walk:
    """Run one question; call number n of any role gets the n-th reply, the last one again and again."""
    asked: list[Pending] = []

    def reply(pending: Pending) -> Reply:
        asked.append(pending)
        return replies[min(len(asked), len(replies)) - 1]
    generator, retriever = ScriptedGenerator(reply, Roles(RoleSettings(256))), WordRetriever(passages=passages)
    engine = Engine(method, METHODS[method].options(**options), generator=generator, retriever=retriever, modules=modules,
                    prompts=PromptBook(Family(family)))
    (record,) = engine.run([question])
    return Walk(record, generator.requests, retriever.queries)


def spoken(*tokens: str | tuple[str, float], reason: str = "eos", stop: str | None = None) -> Completion:
    """A reply with its tokens: text, or (text, probability) where that is not 0.9."""
    pairs = [(t, 0.9) if isinstance(t, str) else t for t in tokens]
    whole = "".join(text for text, _ in pairs)
    return Completion(whole if stop is None else whole.split(stop)[0], reason, 5, 5, len(pairs), tuple(range(len(pairs))),
                      tuple(math.log(p) for _, p in pairs), pieces=tuple(text for text, _ in pairs), stopped_by=stop)


def outcomes(method: str, ids: Sequence[str], batch_size: int, reply: Callable[[Pending], Reply], family: str,
    options: Mapping[str, Any]) -> dict[str, dict]:
    """The trajectories of these questions run together, by id."""
    engine = Engine(method, METHODS[method].options(**options), generator=ScriptedGenerator(reply, Roles(RoleSettings(256))),
        retriever=WordRetriever(),
                    prompts=PromptBook(Family(family)), batch_size=batch_size)
    questions = [Question(name, f"What of {WORLD[int(name) % 6].title} ({name})?", ("x",)) for name in ids]
    records = engine.run(questions)
    assert [record.question.id for record in records] == list(ids)
    return {record.question.id: {**record.to_json(), **record.counts(), "prediction": record.prediction, **record.columns}
        for record in records}


def any_reply(pending: Pending) -> Completion:
    """A reply that depends on the key of its operation alone, of any form that these methods read."""
    chance = random.Random(f"{pending.question_id}/{pending.number}")
    text = chance.choice([
        "Follow up: who is Tobin Hale?", "Intermediate answer: Ostrand", "Yes.\nFollow up: where is Brask?", "I cannot tell.", "",
        "So the final answer is: Brask.", "Iris Quell was born in Ostrand. More.", "Marwick College stands in Brask.",
        "So the answer is: Ostrand.", "A", "B", "C.",
    ])
    return spoken(*((piece, chance.choice([0.3, 0.6, 0.95])) for piece in re.findall(r"\s*\S+", text)), reason="eos" if text else "empty")


def check_batched_equals_sequential(method: str, family: str, **options: Any) -> None:
    """Each question alone equals each in batches of 1, 3 and 8, in any order."""
    ids = [str(i) for i in range(11)]
    alone: dict[str, dict] = {}
    for name in ids:
        alone |= outcomes(method, [name], 1, any_reply, family, options)
    assert len({str(o["rounds"]) + str(o["finish_reason"]) for o in alone.values()}) > 1, "the questions go different ways"
    for batch_size in (1, 3, 8):
        random.Random(batch_size).shuffle(ids)
        assert outcomes(method, ids, batch_size, any_reply, family, options) == alone
