"""A trajectory told in words: what was known, what each round said and measured, why it acted as it did, what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from evoctx_torch.analysis.reason import reason, rule_of, signal_name, thresholds
from evoctx_torch.analysis.runs import dropped_passages, notes
from evoctx_torch.operations import NoveltyRule

UNPRINTABLE = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)], "\ufffd")  # a text may hold terminal commands
SHORT = 240  # characters of a trace or passage that are shown unless `verbose`


def narrate(
    trajectory: Mapping[str, Any],
    prediction: Mapping[str, Any] | None = None,
    contents: Mapping[str, str] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    verbose: bool = False,
) -> str:
    """One line of `trajectories.jsonl` as plain text, with its line of `predictions.jsonl` where there is one.

    `contents` maps passage ids to their text (titles only without it); `config` is the run's `config.json`, without
    which the distances stand without their thresholds. `verbose` shows traces and passages whole. The text is plain: a
    caller that prints it through a markup language escapes it. Control characters are shown as U+FFFD.
    """
    told = _Telling(contents or {}, rule_of(config) if config else None, None if verbose else SHORT)
    lines = [f"Question {trajectory['id']}: {trajectory['question']}"]
    if prediction:
        lines.append(f"Expected: {_either(prediction['golden_answers'])}")
    lines += told.bootstrap(trajectory)
    for entry in trajectory["rounds"]:
        lines += ["", *told.round(entry)]
    lines += ["", *_ending(trajectory, prediction), *_cost(trajectory, prediction)]
    return "".join(f"{line}\n" for line in lines).translate(UNPRINTABLE)


class _Telling:
    """How one trajectory is told: the texts at hand, the rule it was decided by, how long a text may be."""

    def __init__(self, contents: Mapping[str, str], rule: NoveltyRule | None, limit: int | None) -> None:
        self.contents, self.rule, self.limit = contents, rule, limit
        self.seen: set[str] = set()  # passages told so far

    def bootstrap(self, trajectory: Mapping[str, Any]) -> Iterator[str]:
        query, passages = trajectory["bootstrap"]["query"], trajectory["bootstrap"]["passages"]
        if passages:
            asked = "The question itself" if query == trajectory["question"] else f"The query “{query}”"
            yield from ["", f"{asked} retrieved {_count(len(passages), 'passage')}:", *self.passages(passages)]

    def round(self, entry: Mapping[str, Any]) -> Iterator[str]:
        ended = entry["action"] or ("" if notes(entry) else "not finished")  # some methods have steps that are no action
        yield f"Round {entry['round']}" + (f": {ended}" if ended else "")
        if entry["trace"]:
            yield f"  Trace: {self.text(entry['trace'])}"
        elif entry["probe"]:
            yield f"  No trace; measured instead: {self.text(entry['probe'])}"
        if entry["signals"]:
            yield f"  Against {_count(len(entry['boundary']), 'text')} of the boundary: {self.distances(entry)}"
        if why := reason(entry, self.rule):
            yield f"  Why: {why}."
        if entry["subquery"]:
            yield f"  Sub-query: {entry['subquery']}"
        if entry["query"]:
            yield f"  Query: {self.text(entry['query'])}"
            yield f"  It brought {self.found(entry['passages'])}{':' if entry['passages'] else '.'}"
            yield from self.passages(entry["passages"])
        for key, value in notes(entry).items():
            yield f"  {key.replace('_', ' ').capitalize()}: {self.text(str(value))}"

    def distances(self, entry: Mapping[str, Any]) -> str:
        tau = thresholds(self.rule) if self.rule else {}
        told = [
            f"{signal_name(name, self.rule)} {float(value):.3f}" + (f" (threshold {tau[name]:.3f})" if tau else "")
            for name, value in entry["signals"].items()
        ]
        return ", ".join(told) + f"; score {float(entry['score']):.3f}"

    def found(self, passages: list[Mapping[str, Any]]) -> str:
        """How many, and how many of them the episode had not retrieved before."""
        new = sum(passage["id"] not in self.seen for passage in passages)
        if new == len(passages):
            return _count(new, "new passage") if new else "no new passage"
        return f"{_count(len(passages), 'passage')}, {new or 'none'} of them new"

    def passages(self, passages: list[Mapping[str, Any]]) -> Iterator[str]:
        self.seen |= {passage["id"] for passage in passages}
        for passage in passages:
            score = "" if passage["score"] is None else f" ({float(passage['score']):.3f})"
            yield f"    - {passage['title'] or passage['id']}{score}"
            if text := self.contents.get(passage["id"], "").removeprefix(f"{passage['title']}\n"):
                yield f"      {self.text(text)}"

    def text(self, text: str) -> str:
        """On one line and shortened, or whole with its lines indented."""
        if self.limit is None:
            return text.strip().replace("\n", "\n    ")
        line = " ".join(text.split())
        return line if len(line) <= self.limit else line[: self.limit - 1].rstrip() + "…"


def _ending(trajectory: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> Iterator[str]:
    if trajectory["error"] is not None:
        yield f"Failed: {trajectory['error']}"
    elif trajectory["finish_reason"] == "over_length":
        yield "Failed: the prompt did not fit its budget even without any passage (over_length)."
    elif prediction is None:
        yield f"Answer: {trajectory['answer'].get('text', '') or '(empty)'}"
    else:
        verdict = "right" if prediction["em"] == 1 else "wrong" if prediction["f1"] == 0 else "partly right"
        yield f"Answer: {prediction['prediction'] or '(empty)'}"
        yield f"Expected {_either(prediction['golden_answers'])}: {verdict} (EM {prediction['em']:g}, F1 {prediction['f1']:.2f})."
    if dropped := dropped_passages(trajectory):
        yield f"Dropped from a prompt that was too long: passages {', '.join(dropped)}."


def _cost(trajectory: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> Iterator[str]:
    calls = trajectory["calls"]
    roles = ", ".join(f"{role} {count}" for role, count in Counter(call["role"] for call in calls).items())
    read, written = (sum(call[key] for call in calls) for key in ("prompt_tokens", "completion_tokens"))
    cost = f"Cost: {_count(len(calls), 'model call')}" + (f" ({roles})" if calls else "")
    if prediction:
        cost += f", {_count(prediction['retrieval_calls'], 'retrieval')} with {_count(prediction['retrieved_passages'], 'passage')}"
        cost += f" ({prediction['unique_passages']} different)"
    finish = (prediction or trajectory)["finish_reason"]
    yield f"{cost}, {read:,} prompt tokens, {written:,} written; finished by {finish or 'nothing recorded'}."


def _either(answers: list[str]) -> str:
    shown = " or ".join(answers[:4])
    return shown if len(answers) <= 4 else f"{shown} or {len(answers) - 4} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
