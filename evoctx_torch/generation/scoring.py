"""Votes from one forward pass: the logits of one token for each option, and keyed draws among them.

An option is scored by the first of its tokens that tells it from the others, as it would go on after the prompt; what
they begin with in common (a space that is a token of its own) is put after the prompt. So an option of several tokens
costs no more than one of one, and none is favoured for being short, as by sums over whole words (RETRIEVE has more
tokens than THINK).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import NamedTuple

import torch
from evoctx_kernels.sample_votes import sample_votes
from torch import Tensor
from transformers import LogitsProcessor, PreTrainedTokenizerBase

from evoctx_torch.errors import UsageError
from evoctx_torch.operations import Completion, Failure, Scored

TAIL = 8  # tokens of a prompt that tell how it can go on


class Labels(NamedTuple):
    """The tokens that all options begin with, and the one after them that stands for each option."""

    shared: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """What one row chooses from: the tokens that stand for its options, how many draws, and the options' log-probabilities
    on a content-free prompt, which calibration subtracts (zeros without it)."""

    labels: tuple[int, ...]
    samples: int
    prior: tuple[float, ...]


class LabelReader(LogitsProcessor):
    """Keeps the logits of every row's labels, `[B, O]` float32, of the one step that `generate` is run for."""

    def __init__(self, labels: Sequence[Sequence[int]]) -> None:
        self._labels = torch.tensor(labels)
        self.logits: Tensor

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Raw logits `scores [B, V]`, returned as they are."""
        self.logits = scores.gather(1, self._labels.to(scores.device)).float()
        return scores


def label_tokens(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], options: Sequence[str]) -> Labels:
    """The tokens that tell the options apart after the prompt `ids`, with a space between where a text would have one.

    Raises `UsageError` where an option is the beginning of another, or melts into the prompt's last token.
    """
    tail, name = list(ids[-TAIL:]), tokenizer.name_or_path
    before = tokenizer.decode(tail, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    space = "" if tail[-1] in tokenizer.all_special_ids or before[-1:].isspace() else " "

    def encode(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False, verbose=False).input_ids

    start = encode(before)
    wholes = [encode(before + space + option) for option in options]
    if any(whole[: len(start)] != start for whole in wholes):
        raise UsageError(f"{name} cannot score votes: a vote melts into the end of the prompt, {before!r}")
    shared = commonprefix(wholes)[len(start):]  # noqa: RUF071  # of lists, not of paths
    rests = [whole[len(start) + len(shared):] for whole in wholes]
    if not all(rests) or len({rest[0] for rest in rests}) < len(rests):
        raise UsageError(f"{name} cannot score votes: its tokens do not tell {', '.join(options)} apart at the first difference")
    return Labels(tuple(shared), tuple(rest[0] for rest in rests))


def calibrated(logits: Tensor, choices: Sequence[Choice]) -> Tensor:
    """`[B, O]` float64 log-probabilities of the options among themselves, less those on a content-free prompt, normalized.

    Contextual calibration (Zhao et al. 2021, arXiv 2102.09690, section 5): q ∝ p / p_content-free.
    """
    prior = torch.tensor([choice.prior for choice in choices], dtype=torch.float64, device=logits.device)
    return (logits.double().log_softmax(1) - prior).log_softmax(1)


def draw(
    logits: Tensor, choices: Sequence[Choice], seeds: Sequence[int], temperatures: Sequence[float], costs: Sequence[tuple[int, tuple[str, ...]]]
) -> list[Scored | Failure]:
    """The votes of rows with equally many options and draws; `costs` are (prompt tokens, dropped passages).

    `logits [B, O]` are those of the labels. Draws are of softmax(log-probability / temperature), keyed by the row's seed.
    """
    device, scores = logits.device, calibrated(logits, choices)
    found = sample_votes(
        scores, torch.tensor(seeds, dtype=torch.int64, device=device), choices[0].samples,
        temperature=torch.tensor(temperatures, dtype=torch.float64, device=device), tie="lowest",
    )
    results: list[Scored | Failure] = []
    columns = scores.exp().tolist(), found.counts.tolist(), found.probability[:, :-1].tolist()
    for chances, counts, majority, (tokens, dropped) in zip(*columns, costs, strict=True):
        if any(chance != chance for chance in chances):
            results.append(Failure("error", "the model gave NaN logits for a vote: try --dtype bfloat16 or float32", dropped))
        else:
            completion = Completion("", "scored", tokens, tokens, 0, dropped=dropped)
            results.append(Scored(tuple(chances), tuple(counts), completion, tuple(majority)))
    return results
