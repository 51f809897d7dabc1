"""What a judge is asked about one question, as methods that the engine runs, and how its replies are read.

A question comes with `metadata["answers"]`: the prediction, for a win rate also the other run's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evoctx_torch.evidence import Evidence, Line
from evoctx_torch.methods.base import Episode, Method, Steps
from evoctx_torch.metrics.extract import split_thinking

VERDICT = re.compile(r"\bverdict\W*:\W*(yes|no)\b(?!\s*(?:[/|]|or\b)\s*(?:yes|no)\b)", re.IGNORECASE)  # "yes/no" repeats the form
BARE = re.compile(r"\W*(yes|no)\W*", re.IGNORECASE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
OUT_OF = re.compile(r"\s*/\s*100\b")
LOW, HIGH = 1, 100  # the scale of scores


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """A judge has no options of its own besides its model's."""


def judge_match(episode: Episode, options: JudgeOptions) -> Steps:
    """One call: does the answer mean the same as a golden one (LLM match, arXiv 2603.12396)?"""
    question, (answer,) = episode.question, episode.question.metadata["answers"]
    shown = Line(f"{golds(question.golden_answers)}\nGiven answer: {answer}")
    return (yield episode.generate("judge", "judge_match", Evidence(question.text, [shown])))


def judge_score(episode: Episode, options: JudgeOptions) -> Steps:
    """Two calls: both answers are scored against the golden ones, in both orders (win rate, arXiv 2604.12231)."""
    question, (answer, other) = episode.question, episode.question.metadata["answers"]
    shown = [Evidence(question.text, [Line(golds(question.golden_answers)), Line(f"Answer A: {a}"), Line(f"Answer B: {b}")])
             for a, b in ((answer, other), (other, answer))]
    replies = yield tuple(episode.generate("judge", "judge_score", evidence) for evidence in shown)
    return replies[-1]


def golds(answers: tuple[str, ...]) -> str:
    """The golden answers, each as it is."""
    return f"Correct answer: {answers[0]}" if len(answers) == 1 else f"Correct answers (one is enough): {' | '.join(answers)}"


def read_verdict(reply: str) -> str | None:
    """"yes" or "no": the first `Verdict: yes|no` after any thinking, or a first line that is one of the words alone; else None."""
    text = split_thinking(reply)[1].strip()
    found = VERDICT.search(text) or BARE.fullmatch(text.partition("\n")[0])
    return found[1].lower() if found else None


def read_scores(reply: str) -> tuple[float, float] | None:
    """The two numbers of the first line that holds any, or of the whole reply (`80/100` is 80); None unless both are in 1 to 100."""
    text = OUT_OF.sub("", split_thinking(reply)[1])
    lines = [numbers for line in text.splitlines() if (numbers := NUMBER.findall(line))]
    for numbers in (lines[0] if lines else [], [n for line in lines for n in line]):
        if len(numbers) == 2:
            first, second = map(float, numbers)
            return (first, second) if min(first, second) >= LOW and max(first, second) <= HIGH else None
    return None


MATCH = Method("judge-match", "does the answer mean the same as a golden one", "arXiv 2603.12396", JudgeOptions, judge_match,
               roles=("judge",), instructions=("judge_match",), head="judge_match_head", retrieves=False)
SCORE = Method("judge-score", "score two answers against the golden one, in both orders", "arXiv 2604.12231", JudgeOptions, judge_score,
               roles=("judge",), instructions=("judge_score",), head="judge_score_head", retrieves=False)
