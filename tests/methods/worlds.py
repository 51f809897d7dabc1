"""A small corpus, and generators that write tags: as text, or token by token with a real tokenizer."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from evoctx_torch.engine import Engine
from evoctx_torch.evaluation.results import prediction_row
from evoctx_torch.generation.endings import RowEnding, Vocabulary
from evoctx_torch.generation.tokens import PromptTokenizer
from evoctx_torch.operations import Completion, Decision, Passage, Pending, Question, Retrieved

CHAT = "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
PASSAGES = [
    Passage("p0", "Tarn", "Tarn", "Tarn\nTarn is a river city."),
    Passage("p1", "Ostrand", "Ostrand", "Ostrand\nOstrand is a harbour town. Its mayor is Tobin Hale."),
    Passage("p2", "Ostrand", "Ostrand", "Ostrand\nOstrand's fish market burned down in 1911."),
    Passage("p3", "Brask", "Brask", "Brask\nBrask is a mining city."),
    Passage("p4", "Lisk", "Lisk", "Lisk\nLisk is known for glass."),
]
QUESTION = Question("q", "Who is the mayor of Ostrand?", ("Tobin Hale",))


@lru_cache(maxsize=1)
def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE of every byte and a few merges, so that a tag is many tokens; "> " is one, which reaches past a tag."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(["a> b> c> d> e> f> g> mayor mayor mayor Ostrand Ostrand"], trainers.BpeTrainer(
        vocab_size=270, special_tokens=["<|end|>", "<|user|>", "<|assistant|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>", pad_token="<|end|>", chat_template=CHAT)


@dataclass(slots=True)
class WordRetriever:
    """Ranks the corpus by the words of four letters and more shared with the query, then in its own order; records what was asked."""

    passages: Sequence[Passage] = tuple(PASSAGES)
    asked: list[Pending] = field(default_factory=list)

    def answer(self, pending: Sequence[Pending]) -> list[Retrieved]:
        self.asked += pending
        return [Retrieved(self._find(p.operation)) for p in pending]

    def _find(self, operation) -> tuple[Passage, ...]:
        own = [p for p in self.passages if operation.within is None or p.doc_id in operation.within]
        ranked = sorted(own, key=lambda p: -len(words(operation.query) & words(p.contents)))
        unseen = [p for p in ranked if p.doc_id not in operation.exclude]
        return tuple(unseen[: operation.k] if operation.refill else [p for p in ranked[: operation.k] if p in unseen])


def words(text: str) -> set[str]:
    return set(re.findall(r"\w{4,}", text.lower()))


@dataclass(slots=True)
class TokenWriter:
    """Writes `reply(pending)` one token after another, as a transformers model would, then eos.

    `prompts` records the ids of every prompt, `budget` is what one may have.
    """

    reply: Callable[[Pending], str]
    limit: int = 400
    budget: int = 100_000
    prompts: list[list[int]] = field(default_factory=list)
    requests: list[Pending] = field(default_factory=list)
    tokens: PromptTokenizer = field(default_factory=lambda: PromptTokenizer(tokenizer()))

    def answer(self, pending: Sequence[Pending]) -> list[Completion]:
        self.requests += pending
        return [self._complete(p) for p in pending]

    def _complete(self, p: Pending) -> Completion:
        model = self.tokens.tokenizer
        ids, dropped = self.tokens.encode(p.operation.prompt, self.budget)
        self.prompts.append(ids)
        ending = RowEnding(Vocabulary(model, [model.eos_token_id]), self.limit, p.operation.stop)
        written = [*model(self.reply(p), add_special_tokens=False).input_ids, model.eos_token_id]
        while ending.reason is None:
            ending.add(written[len(ending.ids)], -0.25 - len(ending.ids))
        return Completion(ending.text, ending.finish_reason, len(ids), len(ids), len(ending.ids), tuple(ending.ids), tuple(ending.logprobs),
                          dropped, stopped_by=ending.stopped_by)


@dataclass(slots=True)
class AlwaysDecides:
    """A controller that always says `action`."""

    action: str

    def answer(self, pending: Sequence[Pending]) -> list[Decision]:
        return [Decision(0.25, 0.15, 0.5, 1.25 if self.action == "RETRIEVE" else 0.5, self.action, p.operation.trace, 0) for p in pending]


def in_turn(*replies: str) -> Callable[[Pending], str]:
    """Each question gets these replies one after another, the last again and again."""
    counts: dict[str, int] = {}

    def reply(pending: Pending) -> str:
        number = counts[pending.question_id] = counts.get(pending.question_id, 0) + 1
        return replies[min(number, len(replies)) - 1]
    return reply


def check_company(engine_of: Callable[[Sequence[Question]], Engine], batch_size: int) -> None:
    """Every question's trajectory, transcript, counts and prediction are those it has alone, in any order.

    `engine_of(questions)` makes a fresh engine of `batch_size` for them.
    """
    def run(questions: Sequence[Question]) -> dict[str, tuple]:
        records = engine_of(questions).run(questions)
        return {t.question.id: (t.to_json(), t.transcript, t.counts(), prediction_row(t, "full")) for t in records}
    questions = [Question(str(i), f"Question number {i}?", ("x",)) for i in range(11)]
    alone = {name: value for question in questions for name, value in run([question]).items()}
    random.Random(batch_size).shuffle(questions)
    assert run(questions) == alone
