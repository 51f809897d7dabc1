"""The executor of `Recall` and `Remember`: thoughts of one wave are tested and stored when it ends, and seen by the next.

Thought-Retriever (arXiv 2604.12231, section 3): the nearest of corpus and memory together, kept while they are diverse; a
thought is stored iff its similarity to everything it was made from and to everything stored is below a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import numpy as np
import torch
from evoctx_kernels.greedy_diverse import greedy_diverse

from evoctx_torch.errors import UsageError
from evoctx_torch.memory.novelty import outcomes_of
from evoctx_torch.memory.records import NAME, STORED, Offer, Source, StoredThought, as_passage, source_of
from evoctx_torch.memory.store import ThoughtStore
from evoctx_torch.operations import Failure, Noted, Passage, Pending, Recall, Remember, Retrieve, Retrieved, Thought
from evoctx_torch.retrieval.dense import DenseIndex
from evoctx_torch.retrieval.executor import Retriever


class ThoughtMemory:
    """Recalls from `retriever`'s corpus and the thoughts of `store`; follows `engine.Memory`.

    Args:
        retriever: a dense one; thoughts are embedded with its encoder, so all scores are cosines that compare.
        store: where thoughts are kept; made at the first wave unless `frozen`.
        run: the name of this run, by which what it stored before a crash is recognised. None: a new one.
        known: only the first so many thoughts of the store are seen, and this run's own of earlier waves: so a continued run
            sees what it would have seen undisturbed. None: all that are there now.
        frozen: nothing is stored.
        device: where candidates are compared.

    Raises:
        UsageError: the retriever has no vectors, or a passage has an id that a thought may have.
    """

    def __init__(
        self, retriever: Retriever, store: ThoughtStore, *, run: str | None = None, known: int | None = None, frozen: bool = False,
        device: str | torch.device = "cpu",
    ) -> None:
        if retriever.encoder is None or not isinstance(retriever.index, DenseIndex):
            raise UsageError("thoughts are compared by their vectors, and this index has none: use a flat one")
        if taken := next((id for id in retriever.corpus.ids if NAME.fullmatch(id)), None):
            raise UsageError(f"the corpus has a passage with the id {taken}, which is a thought's: rename it")
        self.retriever, self.index, self.encoder, self.store = retriever, retriever.index, retriever.encoder, store
        self.run = run or uuid4().hex
        self._passages = frozenset(retriever.corpus.ids)
        self.known = len(store.thoughts) if known is None else known
        self.frozen, self.device = frozen, torch.device(device)
        self.wave = 0
        self.order: dict[str, int] = {}
        self.visible: list[StoredThought] = []
        self._dense: DenseIndex | None = None

    def begin_wave(self, number: int, question_ids: Sequence[str]) -> None:
        """Fix what wave `number` sees: never what its own questions stored before a crash."""
        if not self.frozen:
            self.store.create()
        self.wave, self.order = number, {id: position for position, id in enumerate(question_ids)}
        visible = [t for t in self.store.thoughts if t.id <= self.known or (t.run == self.run and t.wave < number)]
        if visible != self.visible:
            self.visible, self._dense = visible, DenseIndex(self.store.vectors(visible)) if visible else None

    def answer(self, pending: Sequence[Pending]) -> list[Retrieved | Noted | Failure]:
        """One result a row, in order; a `Failure` for a blank query or thought, and for a source that is not known."""
        if not self.frozen:
            self.store.forget(self.run, [(p.question_id, p.number) for p in pending])
        recalled = iter(self._recall([p for p in pending if isinstance(p.operation, Recall)]))
        noted = iter(self._note([p for p in pending if isinstance(p.operation, Remember)]))
        return [next(recalled if isinstance(p.operation, Recall) else noted) for p in pending]

    def end_wave(self) -> None:
        """Test what the wave's questions offered, in their order, and store what is new."""
        if self.frozen:
            return
        offers = [offer for offer in self.store.pending(self.run) if offer.question in self.order]
        if not offers:
            return
        offers.sort(key=lambda offer: (self.order[offer.question], offer.number))
        # One text at a time: the vector of a thought is the same whatever was offered beside it.
        vectors = torch.cat([self.encoder.encode_passages([offer.text]) for offer in offers]).float().to(self.device)
        shown = self._vectors([source for offer in offers for source in offer.sources])
        outcomes = outcomes_of(offers, vectors, shown, torch.from_numpy(self.store.vectors(self.store.thoughts)).to(self.device))
        stored: list[tuple[StoredThought, np.ndarray]] = []
        for offer, outcome, vector in zip(offers, outcomes, vectors.cpu().numpy(), strict=True):
            if outcome == STORED:
                stored.append((self._thought(len(self.store.thoughts) + len(stored) + 1, offer), vector))
        self.store.settle(self.run, list(zip(offers, outcomes, strict=True)), stored)

    def _recall(self, pending: Sequence[Pending]) -> list[Retrieved | Failure]:
        """Candidates of corpus and thoughts by cosine, the best `depth`, of which a diverse `k` are kept."""
        results: list[Retrieved | Failure] = list(self.retriever.answer(
            [Pending(p.question_id, p.number, Retrieve(p.operation.query, p.operation.depth, within=p.operation.within)) for p in pending]))
        sound = [row for row, result in enumerate(results) if isinstance(result, Retrieved)]
        operations = [pending[row].operation for row in sound]
        thoughts = self._nearest_thoughts(operations)
        # A stable sort: of equal scores passages come first, then thoughts by age.
        candidates = {row: sorted((*results[row].passages, *near), key=lambda item: -item.score)[: operation.depth]
                      for row, operation, near in zip(sound, operations, thoughts, strict=True)}
        for rule in dict.fromkeys((o.k, o.max_similarity) for o in operations):
            rows = [row for row, o in zip(sound, operations, strict=True) if (o.k, o.max_similarity) == rule]
            for row, items in zip(rows, self._diverse([candidates[row] for row in rows], *rule), strict=True):
                results[row] = Retrieved(tuple(items))
        return results

    def _nearest_thoughts(self, operations: Sequence[Recall]) -> list[list[Thought]]:
        """Each row's nearest visible thoughts, as many as its depth, best first."""
        if not operations or not self.visible:
            return [[] for _ in operations]
        queries = self.retriever.embed([o.query for o in operations])
        positions, scores = self._dense.search(queries, max(o.depth for o in operations))
        return [[as_passage(self.visible[p], s) for p, s in zip(where[: o.depth].tolist(), score[: o.depth].tolist(), strict=True)]
                for o, where, score in zip(operations, positions, scores, strict=True)]

    def _diverse(self, rows: Sequence[Sequence[Passage]], k: int, bound: float) -> list[list[Passage]]:
        """Of each row's candidates, best first, the first `k` whose cosine to none kept before exceeds `bound`."""
        width = max(map(len, rows), default=0)
        if not width:
            return [[] for _ in rows]
        pool = self._vectors([source_of(item.id) for row in rows for item in row])
        slots, start = torch.full((len(rows), width), -1, dtype=torch.int64), 0
        for row, items in enumerate(rows):
            slots[row, : len(items)] = torch.arange(start, start := start + len(items))
        kept = greedy_diverse(pool, slots.to(self.device), threshold=bound, k=k).kept.tolist()
        return [[items[position] for position in positions if position >= 0] for items, positions in zip(rows, kept, strict=True)]

    def _note(self, pending: Sequence[Pending]) -> list[Noted | Failure]:
        """Keep offers for the end of the wave."""
        faults = [self._fault(p.operation) for p in pending]
        if not self.frozen:
            self.store.offer(self.run, [
                Offer(p.question_id, p.number, p.operation.thought, tuple(map(source_of, p.operation.sources)), p.operation.max_similarity)
                for p, fault in zip(pending, faults, strict=True) if fault is None])
        return [fault or Noted() for fault in faults]

    def _fault(self, operation: Remember) -> Failure | None:
        if not operation.thought.strip() or not operation.sources:
            return Failure("error", "a thought without text or without sources cannot be remembered")
        if unknown := [source for source in operation.sources if not self._knows(source_of(source))]:
            return Failure("error", f"a thought is said to rest on {unknown[0]!r}, which is no passage and no stored thought")
        return None

    def _knows(self, source: Source) -> bool:
        return 1 <= source <= len(self.store.thoughts) if isinstance(source, int) else source in self._passages

    def _thought(self, id: int, offer: Offer) -> StoredThought:
        """The thought of an offer: its level is one above the mean of its sources', a passage's is 1 (section 3)."""
        made = [self.store.thoughts[source - 1] if isinstance(source, int) else None for source in offer.sources]
        level = 1.0 + sum(1.0 if thought is None else thought.level for thought in made) / len(made)
        under = [(source,) if thought is None else thought.provenance for source, thought in zip(offer.sources, made, strict=True)]
        provenance = tuple(dict.fromkeys(passage for passages in under for passage in passages))
        return StoredThought(id, offer.text, level, offer.sources, provenance, self.run, self.wave, offer.question)

    def _vectors(self, sources: Sequence[Source]) -> torch.Tensor:
        """Vectors `[n, D]` float32 of passages and thoughts on the device."""
        rows = [self.store.vector(s) if isinstance(s, int) else self.index.vectors[self.retriever.corpus.position(s)] for s in sources]
        return torch.from_numpy(np.stack(rows)).to(self.device)
