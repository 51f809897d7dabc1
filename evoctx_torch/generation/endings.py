"""When each row of a batch ends, why, and what it had generated until then.

The tokens of a row are recorded as they come, up to the step at which that row ended. Lengths are therefore never
rebuilt from token ids, which cannot tell a generated eos from padding where both are the same token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise, takewhile

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, StoppingCriteria

from evoctx_torch.generation.sampling import RowSampler

# A character of up to 4 bytes may begin before the window, and some tokenizers drop the first space of what they decode.
SLACK_TOKENS = 4


class Vocabulary:
    """What an ending must know of a tokenizer: the eos ids, the ids without text, and how ids become text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, eos: Collection[int]) -> None:
        self.eos = frozenset(eos)
        special = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        self.silent = frozenset({*special, *tokenizer.all_special_ids, *eos})
        self._decode: Callable[..., str] = tokenizer.decode

    def text(self, ids: Sequence[int]) -> str:
        """The text of generated tokens, without that of special ones."""
        return self._decode([i for i in ids if i not in self.silent], skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """What each token adds to the text; together they are `text(ids)`. A character made of several tokens belongs to the
        one that completes it; a special token adds nothing.

        Every beginning is decoded, since what a token says depends on those before it (bytes of one character, a first space
        that is dropped). What a beginning shares with the whole is settled; a character that is not complete differs from it.
        """
        whole = self.text(ids)
        settled = [0]
        for n in range(1, len(ids)):
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.text(ids[:n]), whole, strict=False)))
            settled.append(max(settled[-1], shared))
        settled.append(len(whole))
        return tuple(whole[begin:end] for begin, end in pairwise(settled)) if ids else ()


class RowEnding:
    """One row: what ends it, and its record.

    `reason` is None while the row goes on, then eos | stop | length | nan (the model gave NaN logits). `ids` and
    `logprobs` hold every token generated, a final eos and the whole token that completed a stop string included.
    """

    def __init__(self, vocabulary: Vocabulary, max_new_tokens: int, stop: Sequence[str] = ()) -> None:
        self.vocabulary = vocabulary
        self.max_new_tokens = max_new_tokens
        self.stop = tuple(s for s in stop if s)
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.reason: str | None = None
        self.stopped_by: str | None = None
        self._cut: int | None = None
        # Every token that has text has at least one byte of it, so this many reach past the longest stop string.
        self._window = max((len(s.encode()) for s in self.stop), default=0) + SLACK_TOKENS
        self._tail: list[int] = []

    def add(self, token: int, logprob: float) -> None:
        """Record one more token and see whether it ends the row."""
        if logprob != logprob:
            self.reason = "nan"
            return
        self.ids.append(token)
        self.logprobs.append(logprob)
        if token in self.vocabulary.eos:
            self.reason = "eos"
        elif self._stopped(token):
            self.reason = "stop"
        elif len(self.ids) >= self.max_new_tokens:
            self.reason = "length"

    @property
    def text(self) -> str:
        """What the row says, up to its first stop string."""
        return self.vocabulary.text(self.ids)[: self._cut]

    @property
    def finish_reason(self) -> str | None:
        """`reason`, or "empty" where there is nothing but white space."""
        return self.reason if self.text.strip() else "empty"

    def _stopped(self, token: int) -> bool:
        if not self.stop or token in self.vocabulary.silent:
            return False
        self._tail = [*self._tail, token][-self._window:]
        tail = self.vocabulary.text(self._tail)
        if not any(s in tail for s in self.stop):
            return False
        # The window may begin inside a character: only the whole text says where the stop string is.
        whole = self.vocabulary.text(self.ids)
        self._cut, self.stopped_by = min(((whole.index(s), s) for s in self.stop if s in whole), default=(None, None))
        return self._cut is not None


class RowEndings(StoppingCriteria):
    """Ends the rows of one `generate` call one by one; reads the tokens and the sampler's log-probabilities each step."""

    def __init__(self, rows: Sequence[RowEnding], sampler: RowSampler) -> None:
        self.rows = rows
        self._sampler = sampler

    def __call__(self, input_ids: Tensor, scores: Tensor | None, **kwargs: object) -> Tensor:
        """`input_ids [B, T]` with the newest token last -> bool [B], True where a row has ended."""
        for row, token, logprob in zip(self.rows, input_ids[:, -1].tolist(), self._sampler.logprob.tolist(), strict=True):
            if row.reason is None:
                row.add(token, logprob)
        return torch.tensor([row.reason is not None for row in self.rows], device=input_ids.device)
