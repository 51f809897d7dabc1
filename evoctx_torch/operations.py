"""The vocabulary between methods and engine: what a method may ask of the outside world, and what comes back.

A method yields an operation and is sent its result, or a tuple of operations and is sent the tuple of their results.
Nothing here knows a model, a device or a batch.
An executor answers a list of `Pending` operations at once, one result (or `Failure`) a row, in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from evoctx_torch.transcript import Prompt

RETRIEVE, THINK = "RETRIEVE", "THINK"


@dataclass(frozen=True, slots=True)
class Question:
    """One line of `queries.jsonl`."""

    id: str
    text: str
    golden_answers: tuple[str, ...]
    metadata: dict = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrievable chunk; `score` is the retriever's (cosine for dense ones), None outside a result."""

    id: str
    doc_id: str
    title: str
    contents: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Thought(Passage):
    """A stored thought, retrieved like a passage. `level` is its abstraction, 1 + the mean level of its sources (a chunk
    of the corpus has 1); `provenance` the raw passages it rests on, by id (Thought-Retriever, arXiv 2604.12231)."""

    level: float = 2.0
    provenance: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Generate:
    """One model call of a role. None means: what the role is configured with.

    `pieces`: the method needs the text and the log-probability of every generated token; a backend that cannot give them
    fails the row.
    """

    role: str
    prompt: Prompt
    max_new_tokens: int | None = None
    stop: tuple[str, ...] = ()
    pieces: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to a `Generate`.

    `text` is cut before the first stop string. `token_ids` are the tokens as generated (a generated eos
    included) and `logprobs` their log-probabilities under the raw logits, natural log; both None where the
    backend does not give them. `pieces` (only where they were asked for) is the text of each of these tokens, which
    together are the text as generated, before the cut. `stopped_by` is the stop string that ended it, None where nothing
    did or the backend does not say. `dropped` names the passages that truncation removed from the prompt.
    """

    text: str
    finish_reason: str  # eos | stop | length | empty; scored where nothing was to be generated
    prompt_tokens: int
    computed_prompt_tokens: int
    completion_tokens: int
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    dropped: tuple[str, ...] = ()
    pieces: tuple[str, ...] | None = None
    stopped_by: str | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """How a role's model would go on with one of `options`, from one forward pass, and `samples` keyed draws among them.

    `options` are words; a model scores the first token of each as a continuation of the prompt, so these must differ.
    `baseline` is the same request without content: where it is given, what the model prefers there is taken off
    (contextual calibration, Zhao et al. 2021, arXiv 2102.09690).
    """

    role: str
    prompt: Prompt
    options: tuple[str, ...]
    samples: int = 1
    baseline: Prompt | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """The answer to a `Score`: the probability of each option among them, how many draws each got, and what it cost.

    `probabilities` are the model's, at temperature 1; draws are made at the role's temperature. `majority` is how probable
    it was, before the draws, that each option gets most of them, ties going to the earlier option; empty where the
    backend does not say. `completion` has empty text and no completion token: nothing is generated.
    """

    probabilities: tuple[float, ...]
    counts: tuple[int, ...]
    completion: Completion
    majority: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Retrieve:
    """The `k` passages nearest to `query` from documents outside `exclude`, and inside `within` where that is given.

    With `refill` the search goes deeper until k unseen passages are found or the corpus ends; without it the
    top k are taken first and seen ones dropped from them.
    """

    query: str
    k: int
    exclude: frozenset[str] = frozenset()
    refill: bool = True
    within: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The answer to a `Retrieve`: passages, best first, each with its score."""

    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Recall:
    """`k` items of corpus and thought memory together (Thought-Retriever, arXiv 2604.12231): among the `depth` nearest to
    `query`, the best first, each kept unless its cosine to one kept before exceeds `max_similarity`. `within` restricts
    the passages, never the thoughts. Answered by a `Retrieved` whose thoughts are `Thought`s.
    """

    query: str
    k: int
    depth: int
    max_similarity: float = 0.85
    within: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Remember:
    """Offer a thought to the memory, with the ids of the items it was made from.

    It is tested and stored at the end of the wave, in the order of the questions; so nothing of that comes back here.
    """

    thought: str
    sources: tuple[str, ...]
    max_similarity: float = 0.85


@dataclass(frozen=True, slots=True)
class Noted:
    """The answer to a `Remember`: the thought waits for the end of its wave."""


@dataclass(frozen=True, slots=True)
class NoveltyRule:
    """How distances become an action (EvoCtx, PAPERS section 1): thresholds, percentile, distance, signals used."""

    tau_near: float = 0.3
    tau_centroid: float = 0.2
    tau_tail: float = 0.4
    quantile: float = 0.9
    interpolation: str = "linear"  # linear | lower | higher | nearest | midpoint
    distance: str = "cosine"  # cosine: 1 - cos; half-cosine: (1 - cos) / 2
    signals: tuple[str, ...] = ("near", "centroid", "tail")
    window: str = "head"  # what of a long trace is embedded: head | tail | mean


@dataclass(frozen=True, slots=True)
class Decide:
    """Measure `trace` against the texts of the boundary and choose RETRIEVE or THINK."""

    trace: str
    boundary: tuple[str, ...]
    rule: NoveltyRule = NoveltyRule()


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a `Decide`. Distances are those of the rule; `probe` is the exact text that was embedded.

    RETRIEVE iff score >= 1. Distances and score are NaN (`valid` False, action THINK) when a vector holds
    NaN or infinity, +inf (action RETRIEVE) when the boundary is empty.
    """

    near: float
    centroid: float
    tail: float
    score: float
    action: str
    probe: str
    nearest: int = -1

    @property
    def valid(self) -> bool:
        """Whether the distances could be measured."""
        return not math.isnan(self.score)


@dataclass(frozen=True, slots=True)
class Failure:
    """This row's operation could not be done; the engine ends the row with `reason` and goes on with the others."""

    reason: str  # error | over_length
    message: str
    dropped: tuple[str, ...] = ()


Operation = Generate | Score | Retrieve | Decide | Recall | Remember
Result = Completion | Scored | Retrieved | Decision | Noted | Failure
# What answers each operation; anything else is the executor's fault and fails the row.
RESULTS: dict[type, type] = {
    Generate: Completion, Score: Scored, Retrieve: Retrieved, Decide: Decision, Recall: Retrieved, Remember: Noted,
}


class Pending(NamedTuple):
    """An operation that waits, with the key that makes its randomness independent of company."""

    question_id: str
    number: int
    operation: Operation


class Executor(Protocol):
    """Answers operations in a batch: a model, an index, a policy, a test, or a journal around another executor."""

    def answer(self, pending: Sequence[Pending]) -> list[Result]:
        """One result a row, in the order of `pending`; a row that cannot be answered gets a `Failure`."""
        ...


class Memory(Executor, Protocol):
    """Answers `Recall` and `Remember`. What a wave's questions remember becomes visible when the wave has ended."""

    def begin_wave(self, number: int, question_ids: Sequence[str]) -> None:
        """The questions of wave `number` (from 0) come next, in this order; some may have been answered before."""
        ...

    def end_wave(self) -> None:
        """Test and store what the wave's questions remembered, in their order."""
        ...
