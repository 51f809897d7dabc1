"""ITER-RETGEN (arXiv 2305.15294, section 3): retrieval and generation in turn; what was generated finds better passages.

T times: retrieve with the question and the previous generation; generate anew from the newest passages only.
"""

from __future__ import annotations

from dataclasses import dataclass

from evoctx_torch.methods.base import Episode, Method, Steps
from evoctx_torch.methods.chain import answer_in
from evoctx_torch.metrics.extract import split_thinking
from evoctx_torch.operations import RETRIEVE
from evoctx_torch.options import option
from evoctx_torch.trajectory import Round


@dataclass(frozen=True, slots=True)
class IterRetGenOptions:
    """Options of ITER-RETGEN."""

    rounds: int = option(2, "iterations, T", unit="rounds", paper="1 to 7", low=1)
    top_k: int = option(5, "passages a retrieval brings", unit="passages", paper="5", low=1)


def iter_retgen(episode: Episode, options: IterRetGenOptions) -> Steps:
    """T retrievals, T calls. The answer is what the last chain of thought says it is, else the whole of it."""
    question, record = episode.question.text, episode.record
    query = question
    for _ in range(options.rounds):
        found = yield from episode.retrieve(query, options.top_k)
        completion = yield episode.generate("generator", "chain", episode.newest(found))
        chain = split_thinking(completion.text)[1].strip()
        record.rounds.append(Round(chain, action=RETRIEVE, query=query, passages=found))
        query = f"{question} {chain}".strip()
    record.prediction = answer_in(chain)
    if record.prediction is None:
        record.finish_reason = "no_answer"
    return completion


ITER_RETGEN = Method("iter-retgen", "retrieve with the question and the previous generation, generate anew", "arXiv 2305.15294",
                     IterRetGenOptions, iter_retgen, instructions=("chain",), head="chain_head",
                     defaults={"generator": {"max_new_tokens": 128}})
