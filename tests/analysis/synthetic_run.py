"""Writes a run folder with the shapes of DESIGN section 5 and the awkward rows that real runs have; no model is used."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evoctx_torch.methods.evoctx import EvoCtxOptions
from evoctx_torch.operations import RETRIEVE, THINK, Completion, Decision, Passage, Question, Retrieved
from evoctx_torch.trajectory import Call, Round, Trajectory

HOSTILE = "</script><script>document.title='owned'</script> [/] [bold]<b>&amp; \u2028\u2029 \u202ertl ﷽ 𝔘𝔫𝔦 é̂ \x00"
QUESTIONS = (
    Question("q1", "Which river does the bridge of Ostermark cross?", ("Vell", "the Vell")),
    Question("q2", 'Who wrote "The Salt Almanac" & <i>"Tides"</i>?', ("Ilse Grauber",)),
    Question("q3", f"Why {HOSTILE}?", ("yes",)),
    Question("q4", "What is the capital of Norrland’s neighbour?", ("Hafn",)),
)
PASSAGES = tuple(
    Passage(str(i), f"d{i}", title, f"{title}\n{text}")
    for i, (title, text) in enumerate([
        ("Ostermark Bridge", "Ostermark Bridge spans the Vell at its narrowest point."), ("Vell", "The Vell rises in the Hollow Hills."),
        ("Ilse Grauber", 'Ilse Grauber wrote "The Salt Almanac" in 1911.'), (f"Hostile {HOSTILE}", f"A passage with {HOSTILE} in it."),
        ("Hafn", "Hafn is a harbour town."), ("Norrland", "Norrland borders Sund."), ("Sund", "Sund has its capital at Hafn."),
        ("Salt", "Salt was once money here."),
    ])
)
COUNTS = ("retrieval_calls", "retrieved_passages", "unique_passages", "llm_calls", "prompt_tokens", "computed_prompt_tokens", "completion_tokens", "rounds")


def write_run(
    folder: Path, questions: Sequence[Question] = QUESTIONS, passages: Sequence[Passage] = PASSAGES, *, rounds: int = 3, top_k: int = 2,
    method: str = "evoctx", data_name: str = "hotpotqa", failing: str = "some", seed: int = 0, **options: Any,
) -> Path:
    """A run of `method` on `questions`; `failing`: none, some (one row an error, one over_length, one nan) or all."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    settings = EvoCtxOptions(rounds=rounds, top_k=top_k, **options)
    trajectories = [
        _episode(chance, question, passages, settings, method, {"all": 1, "none": 0}.get(failing, i + 1 if len(questions) > 3 else 0))
        for i, question in enumerate(questions)
    ]
    predictions = [_prediction(chance, t) for t in trajectories]
    corpus = folder / "corpus.jsonl"
    _lines(corpus, [{"id": p.id, "title": p.title, "contents": p.contents} for p in passages])
    _lines(folder / "trajectories.jsonl", [t.to_json() for t in trajectories])
    _lines(folder / "predictions.jsonl", predictions)
    config = {
        "method": method, "data": f"data/{data_name}", "data_name": data_name, "generator": "smollm2", "limit": None, "seed": 7,
        **({f: getattr(settings, f) for f in EvoCtxOptions.__dataclass_fields__} if method == "evoctx" else {}),
        "num_processes": 1, "corpus_path": str(corpus), "versions": {"torch": "2.13.0", "transformers": "5.24.0"},
        "digests": {"corpus": "9f2c81", "queries": "11aa04"}, "git_commit": "0123abc",
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "metrics.json").write_text(json.dumps(_metrics(predictions)), encoding="utf-8")
    return folder


def _episode(chance: random.Random, question: Question, passages: Sequence[Passage], options: EvoCtxOptions, method: str, place: int) -> Trajectory:
    """One trajectory; `place` 1 fails, 2 is over_length, 3 has a NaN round."""
    t = Trajectory(question, method)
    unseen = list(passages)
    chance.shuffle(unseen)

    def retrieve() -> tuple[Passage, ...]:
        found = tuple(Passage(p.id, p.doc_id, p.title, p.contents, round(chance.uniform(0.3, 0.8), 4)) for p in unseen[: options.top_k])
        del unseen[: options.top_k]
        t.retrievals.append(Retrieved(found))
        return found

    def call(role: str, text: str, dropped: tuple[str, ...] = ()) -> Completion:
        length = chance.randint(300, 3000)
        t.calls.append(Call(role, Completion(text, "eos", length, length - 100, chance.randint(4, 90), dropped=dropped)))
        return t.calls[-1].completion

    if method != "closed-book":
        t.bootstrap_query, t.bootstrap = question.text, retrieve()
    seen = [question.text, *(p.contents for p in t.bootstrap)]
    for number in range(1, options.rounds + 1 if method == "evoctx" else 1):
        trace = f"Okay, the question is about {t.bootstrap[0].title}. " + " ".join(chance.choices(question.text.split(), k=chance.randint(20, 160)))
        near, centroid = round(chance.uniform(0.1, 0.45), 4), round(chance.uniform(0.08, 0.3), 4)
        tail = round(chance.betavariate(6, 8) - 0.05 + 0.012 * number + near / 4, 4)
        score = max(min(near / options.tau_near, centroid / options.tau_centroid), tail / options.tau_tail)
        if place == 3 and number == 1:
            near = centroid = tail = score = float("nan")
        decision = Decision(near, centroid, tail, score, RETRIEVE if score >= 1 else THINK, trace)
        call("decider", trace)
        step = Round(trace, trace, tuple(seen), decision, decision.action, notes={"model_action": chance.choice(["RETRIEVE", "THINK", "unparsable"])})
        t.rounds.append(step)
        if place == 1 and number == 2:
            t.finish_reason, t.error = "error", f"decider: the server answered with HTML <h1>502</h1> {HOSTILE}"
            return t
        if step.action == RETRIEVE:
            step.query, step.passages = question.text, retrieve()
            seen += [p.contents for p in step.passages]
        else:
            step.subquery = f"What is known about {chance.choice(passages).title}?"
            call("generator", step.subquery)
            seen.append(step.subquery)
    if place == 1:
        t.finish_reason, t.error = "error", "generator: the reply had no choices"
    elif place == 2:
        t.finish_reason, t.dropped = "over_length", tuple(p.id for p in t.bootstrap)
    else:
        right = chance.random() < 0.45
        t.answer = call("generator", f"{question.golden_answers[0]}\nQuestion: and more" if right else chance.choice(passages).title, tuple(p.id for p in t.bootstrap[:1]))
        t.finish_reason = "eos"
    return t


def _prediction(chance: random.Random, t: Trajectory) -> dict[str, Any]:
    raw = t.answer.text if t.answer else ""
    answer = raw.split("\n")[0]
    em = float(answer in t.question.golden_answers)
    return {
        "id": t.question.id, "question": t.question.text, "golden_answers": list(t.question.golden_answers), "prediction": answer, "raw_answer": raw,
        "em": em, "f1": em or (0.4 if answer and chance.random() < 0.3 else 0.0), "acc": em, "evidence_recall": chance.choice([0.0, 0.5, 1.0]) if t.bootstrap else None,
        "actions": t.actions, **t.counts(), "finish_reason": t.finish_reason, "error": t.error,
    }


def _metrics(predictions: list[dict[str, Any]]) -> dict[str, Any]:
    metrics: dict[str, Any] = {"questions": len(predictions), "failures": dict(Counter(r["finish_reason"] for r in predictions if r["finish_reason"] != "eos"))}
    for name in ("em", "f1", "acc", "evidence_recall", *COUNTS):
        values = [row[name] for row in predictions if row[name] is not None]
        mean = sum(values) / len(values) if values else None
        metrics[name] = {"mean": mean, "ci95": [mean * 0.8, mean * 1.15] if values else None}
    actions = [row["actions"] for row in predictions]
    taken = [a for row in actions for a in row]
    metrics["think_ratio"] = taken.count(THINK) / len(taken) if taken else None
    metrics["action_share_by_round"] = []
    for number in range(max(map(len, actions), default=0)):
        at = [row[number] for row in actions if len(row) > number]
        metrics["action_share_by_round"].append({"round": number + 1, RETRIEVE: at.count(RETRIEVE) / len(at), THINK: at.count(THINK) / len(at), "count": len(at)})
    metrics["warnings"] = ["RETRIEVE is 97 % of all actions: the thresholds saturate <at 0.4>"] if taken else []
    metrics["timing"] = {"wall_s": 12.345, "tokens_per_s": 678.9}
    return metrics


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8", newline="\n")
