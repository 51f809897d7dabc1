"""IRCoT (arXiv 2212.10509, section 3): retrieval interleaved with the sentences of a chain of thought.

Retrieve with Q; the model writes one more sentence; it is the next query; passages accumulate up to a cap. A sentence
that says what the "answer is" ends the chain. The paper's reader then answers from all passages.
"""

from __future__ import annotations

from dataclasses import dataclass

from evoctx_torch.methods.base import Episode, Method, Steps
from evoctx_torch.methods.chain import answer_in, first_sentence, joined
from evoctx_torch.operations import RETRIEVE, THINK
from evoctx_torch.options import option
from evoctx_torch.trajectory import Round


@dataclass(frozen=True, slots=True)
class IrcotOptions:
    """Options of IRCoT."""

    rounds: int = option(8, "sentences at most, T", unit="sentences", paper="8", low=1)
    top_k: int = option(5, "passages a retrieval brings, K", unit="passages", paper="2, 4, 6 or 8, tuned", low=1)
    cap_passages: int = option(15, "passages in all", unit="passages", paper="15", low=1)
    answer: str = option("reader", "reader: one more call reads all passages; chain: what the chain says the answer is", paper="reader",
                         choices=("reader", "chain"))


def ircot(episode: Episode, options: IrcotOptions) -> Steps:
    """At most T sentences and T + 1 retrievals; T + 1 calls at most. The reader also answers where the chain does not."""
    evidence, record, cap, chain = episode.evidence, episode.record, options.cap_passages, ""
    ending = "max_turns"
    yield from episode.bootstrap(evidence.question, min(options.top_k, cap))
    for _ in range(options.rounds):
        completion = yield episode.generate("generator", "chain", chain=chain)
        sentence = first_sentence(completion.text)
        if not sentence:  # nothing to go on with, and nothing to search for
            ending = "no_answer"
            break
        chain = joined(chain, sentence)
        step = Round(sentence, action=THINK)
        record.rounds.append(step)
        if (said := answer_in(sentence)) is not None:
            if options.answer == "chain":
                record.prediction = said
                return completion
            ending = ""
            break
        if len(evidence.passages) < cap:
            step.action, step.query = RETRIEVE, sentence
            step.passages = yield from episode.gather(sentence, options.top_k, cap=cap)
    record.finish_reason = ending
    return (yield episode.generate("generator", "answer"))


IRCOT = Method("ircot", "every sentence of a chain of thought retrieves; a reader answers from all passages", "arXiv 2212.10509",
               IrcotOptions, ircot, instructions=("chain", "answer"), head="chain_head")
