"""From segments to token ids: each segment is tokenized once, wherever it appears again (design, rule 3)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from evoctx_torch.errors import UsageError
from evoctx_torch.transcript import Prompt, Segment, truncate

SENTINEL = "EVOCTX-USER-MESSAGE"


class Frame(NamedTuple):
    """The tokens around the segments of a prompt: chat markup, or just what the tokenizer begins with."""

    prefix: array
    suffix: array


class PromptTokenizer:
    """Encodes prompts for one model.

    Segments are encoded one by one and never merged over their borders, so a prompt that grows by a segment grows by
    that segment's tokens. The last `interned` distinct texts are remembered. A segment with `ids` keeps them: they
    must be of this model's vocabulary. Passages and observations are data: text in them that looks like a special
    token (`<|im_end|>`) stays text.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, interned: int = 1 << 16) -> None:
        self.tokenizer = tokenizer
        self._text_ids = lru_cache(maxsize=interned)(self._tokenize)
        self._frame = lru_cache(maxsize=None)(self._make_frame)
        bos = tokenizer.bos_token_id
        begins = tokenizer("a").input_ids[:1] == [bos] and self._tokenize("a", False)[:1].tolist() != [bos]
        self._bos = array("i", [bos] if begins else [])

    def encode(self, prompt: Prompt, budget: int) -> tuple[list[int], tuple[str, ...]]:
        """Token ids of at most `budget` length, and the ids of the passages dropped for it, oldest first.

        Raises `OverLength` when it does not fit without any passage, and `UsageError` when the model's chat template
        cannot carry the prompt.
        """
        frame = self._frame(prompt.chat, prompt.system)
        kept, dropped = truncate(prompt, budget, lambda s: len(self.segment(s)), len(frame.prefix) + len(frame.suffix))
        ids = list(frame.prefix)
        for segment in kept.segments:
            ids.extend(self.segment(segment))
        ids.extend(frame.suffix)
        for segment in kept.turns:
            ids.extend(self.segment(segment))
        return ids, dropped

    def segment(self, segment: Segment) -> Sequence[int]:
        """Token ids of one segment: its own, else those of its text."""
        if segment.ids is not None:
            return segment.ids
        return self._text_ids(segment.text, segment.passage_id is not None or segment.source == "observation")

    def _tokenize(self, text: str, verbatim: bool) -> array:
        encoded = self.tokenizer(text, add_special_tokens=False, split_special_tokens=verbatim, verbose=False)
        return array("i", encoded.input_ids)

    def _make_frame(self, chat: bool, system: str | None) -> Frame:
        if not chat:
            return Frame(self._bos, array("i"))
        before, after = self._render(system)
        prefix = self._tokenize(before, False)
        return Frame(prefix if prefix[:1] == self._bos else self._bos + prefix, self._tokenize(after, False))

    def _render(self, system: str | None) -> tuple[str, str]:
        """The chat template's text before and after one user message."""
        name = self.tokenizer.name_or_path
        if not self.tokenizer.chat_template:
            raise UsageError(f"the tokenizer of {name} has no chat template: use prompts of the completion family")
        messages = [{"role": "user", "content": SENTINEL}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        try:
            text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except TemplateError as error:
            raise UsageError(f"the chat template of {name} refuses {self._messages(system)}: {error}") from error
        before, *after = text.split(SENTINEL)
        if len(after) != 1:
            raise UsageError(f"the chat template of {name} shows the user message {len(after)} times; expected once")
        if system is not None and system.strip() not in before:
            raise UsageError(f"the chat template of {name} leaves out {self._messages(system)}")
        return before, after[0]

    @staticmethod
    def _messages(system: str | None) -> str:
        return "a lone user message" if system is None else "a system message (prompt option `system`, template system.j2): remove it"
