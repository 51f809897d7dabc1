"""BoundaryExecutor: batches of `Decide` against a float64 computation by hand, with an encoder that costs nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest
import torch

from evoctx_torch.boundary.controller import BoundaryExecutor
from evoctx_torch.errors import UsageError
from evoctx_torch.operations import RETRIEVE, THINK, Decide, Decision, Failure, NoveltyRule, Pending

DIM = 32


class FakeEncoder:
    """A fixed vector for each text and window, near a common direction; some texts are trouble."""

    dimension = DIM

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[str, ...], str]] = []

    def vector(self, text: str) -> torch.Tensor:
        if text == "zero":
            return torch.zeros(DIM)
        seed = int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "little")
        noise = np.random.default_rng(seed).normal(size=DIM) / DIM**0.5
        x = np.ones(DIM) / DIM**0.5 + 0.7 * noise
        return torch.from_numpy(x / np.linalg.norm(x)).float() * (math.nan if "nan" in text else 1.0)

    def encode(self, texts, window="head"):
        self.calls.append((tuple(texts), window))
        if any("boom" in text for text in texts):
            raise RuntimeError("out of paper")
        return torch.stack([self.vector(self.probe(text, window)) for text in texts])

    def probe(self, text, window):
        return text.split(" ")[-1] if window == "tail" else text


def pending(*decides: Decide) -> list[Pending]:
    return [Pending(f"q{i}", 3, decide) for i, decide in enumerate(decides)]


def texts(count: int, start: int = 0) -> tuple[str, ...]:
    return tuple(f"passage {i}" for i in range(start, start + count))


def by_hand(decide: Decide) -> tuple[float, float, float, float]:
    """near, centroid, tail, score in float64."""
    encoder, rule = FakeEncoder(), decide.rule
    t = encoder.vector(encoder.probe(decide.trace, rule.window)).double().numpy()
    x = torch.stack([encoder.vector(b) for b in decide.boundary]).double().numpy()
    d, mean = 1 - x @ t, x.mean(0)
    scale = 0.5 if rule.distance == "half-cosine" else 1.0
    near, tail = d.min() * scale, np.quantile(d, rule.quantile, method=rule.interpolation) * scale
    centroid = (1 - mean @ t / np.linalg.norm(mean)) * scale
    r = {"near": near / rule.tau_near, "centroid": centroid / rule.tau_centroid, "tail": tail / rule.tau_tail}
    inside = [r[s] for s in ("near", "centroid") if s in rule.signals]
    score = max(([min(inside)] if inside else []) + ([r["tail"]] if "tail" in rule.signals else []))
    return near, centroid, tail, score


RULES = [
    NoveltyRule(),
    NoveltyRule(distance="half-cosine", tau_near=0.1, tau_centroid=0.1, tau_tail=0.2),
    NoveltyRule(signals=("near",)),
    NoveltyRule(signals=("centroid",)),
    NoveltyRule(signals=("tail",), distance="half-cosine"),
    NoveltyRule(signals=("near", "centroid")),
    NoveltyRule(signals=("tail", "near")),
    NoveltyRule(signals=("centroid", "tail")),
    NoveltyRule(signals=("tail", "centroid", "near"), quantile=0.5, interpolation="midpoint"),
    NoveltyRule(window="tail", tau_tail=3.0),
]


def test_mixed_rules_in_one_batch_are_each_the_published_formula():
    encoder = FakeEncoder()
    decides = [Decide(f"trace {i}", texts(1 + i % 7, i), RULES[i % len(RULES)]) for i in range(60)]
    results = BoundaryExecutor(encoder).answer(pending(*decides))
    for decide, got in zip(decides, results, strict=True):
        near, centroid, tail, score = by_hand(decide)
        assert (got.near, got.centroid, got.tail) == pytest.approx((near, centroid, tail), abs=5e-7)
        assert got.score == pytest.approx(score, abs=5e-6)
        assert got.action == (RETRIEVE if got.score >= 1 else THINK)
        assert got.valid
        assert 0 <= got.nearest < len(decide.boundary)
        alone = BoundaryExecutor(FakeEncoder()).answer(pending(decide))
        assert alone == [got], "a decision depends on its company"
    assert {r.action for r in results} == {RETRIEVE, THINK}
    assert [window for _, window in encoder.calls] == ["head", "tail", "head"], "one call a window, one for all boundaries"


def test_half_cosine_is_exactly_half_and_decides_as_doubled_thresholds():
    decide = Decide("trace", texts(9), NoveltyRule(0.3, 0.2, 0.4))
    half = replace(decide, rule=NoveltyRule(0.15, 0.1, 0.2, distance="half-cosine"))
    one, two = BoundaryExecutor(FakeEncoder()).answer(pending(decide, half))
    assert (two.near, two.centroid, two.tail) == (one.near / 2, one.centroid / 2, one.tail / 2)
    assert (two.score, two.action) == (one.score, one.action)


@pytest.mark.parametrize("rule", RULES)
def test_a_score_of_exactly_one_retrieves(rule):
    """Thresholds equal to the measured distances."""
    first = BoundaryExecutor(FakeEncoder()).answer(pending(Decide("trace 1", texts(5), rule)))[0]
    at = replace(rule, tau_near=first.near, tau_centroid=first.centroid, tau_tail=first.tail)
    above = replace(rule, tau_near=first.near * 1.000001, tau_centroid=first.centroid * 1.000001, tau_tail=first.tail * 1.000001)
    equal, under = BoundaryExecutor(FakeEncoder()).answer(pending(Decide("trace 1", texts(5), at), Decide("trace 1", texts(5), above)))
    assert (equal.score, equal.action) == (1.0, RETRIEVE)
    assert under.score < 1
    assert under.action == THINK


def test_nan_thinks_and_is_not_valid_and_stays_in_its_row():
    rules = [NoveltyRule(), NoveltyRule(signals=("tail",)), NoveltyRule(signals=("near", "tail"))]
    for rule in rules:
        clean, bad, worse = BoundaryExecutor(FakeEncoder()).answer(
            pending(Decide("t", texts(3), rule), Decide("t", ("nan passage", *texts(3)), rule), Decide("nan", texts(3), rule))
        )
        assert clean.valid
        for got in (bad, worse):
            assert not got.valid
            assert (got.action, got.nearest) == (THINK, -1)
            assert math.isnan(got.near)


def test_empty_boundary_retrieves():
    for rule in (NoveltyRule(), NoveltyRule(signals=("near",)), NoveltyRule(distance="half-cosine")):
        got, other = BoundaryExecutor(FakeEncoder()).answer(pending(Decide("t", (), rule), Decide("t", texts(2), rule)))
        assert got == Decision(math.inf, math.inf, math.inf, math.inf, RETRIEVE, "t", -1)
        assert other.valid
        assert BoundaryExecutor(FakeEncoder()).answer(pending(Decide("t", (), rule))) == [got]


def test_nearest_is_a_position_in_the_boundary():
    got = BoundaryExecutor(FakeEncoder()).answer(pending(Decide("passage 7", texts(12), NoveltyRule())))[0]
    assert got.nearest == 7
    assert got.near == pytest.approx(0, abs=1e-6)
    assert got.action == (RETRIEVE if got.score >= 1 else THINK)


def test_the_probe_is_what_was_embedded():
    got = BoundaryExecutor(FakeEncoder()).answer(
        pending(Decide("long winding passage", ("passage",), NoveltyRule(window="tail")), Decide("long passage", ("passage",)))
    )
    assert [r.probe for r in got] == ["passage", "long passage"]
    assert got[0].near == pytest.approx(0, abs=1e-6)


def test_a_trace_that_cannot_be_embedded_fails_alone(caplog):
    decides = [Decide("a", texts(3)), Decide("boom", texts(3)), Decide("c", texts(4))]
    results = BoundaryExecutor(FakeEncoder()).answer(pending(*decides))
    assert isinstance(results[1], Failure)
    assert results[1].reason == "error"
    assert "the trace" in results[1].message
    assert "RuntimeError: out of paper" in results[1].message
    expected = BoundaryExecutor(FakeEncoder()).answer(pending(decides[0], decides[2]))
    assert [results[0], results[2]] == expected
    assert "one by one" in caplog.text


@pytest.mark.parametrize("capacity", [65536, 3])
def test_a_boundary_that_cannot_be_embedded_fails_alone(capacity):
    decides = [Decide("a", texts(3)), Decide("b", ("boom", *texts(3))), Decide("c", texts(3, 7)), Decide("d", ())]
    results = BoundaryExecutor(FakeEncoder(), capacity=capacity).answer(pending(*decides))
    assert isinstance(results[1], Failure)
    assert "the boundary" in results[1].message
    expected = BoundaryExecutor(FakeEncoder()).answer(pending(decides[0], decides[2], decides[3]))
    assert [results[0], *results[2:]] == expected


def test_a_small_pool_changes_nothing():
    decides = [Decide(f"t{i}", texts(4, 3 * i)) for i in range(8)]
    large, small = BoundaryExecutor(FakeEncoder()), BoundaryExecutor(FakeEncoder(), capacity=5)
    expected = large.answer(pending(*decides))
    assert [small.answer(pending(d))[0] for d in decides] == expected
    assert len(small.pool) == 5
    assert small.answer(pending(*decides)) == expected


def test_known_vectors_and_the_pool_save_work():
    encoder = FakeEncoder()
    known = {text: encoder.vector(text) for text in texts(5)}
    executor = BoundaryExecutor(encoder, known=known.get)
    executor.answer(pending(Decide("t", (*texts(5), "sub-query"))))
    executor.answer(pending(Decide("u", (*texts(5), "sub-query"))))
    assert encoder.calls == [(("t",), "head"), (("sub-query",), "head"), (("u",), "head")]
    assert (executor.pool.hits, executor.pool.misses, executor.pool.encoded) == (6, 6, 1)


def test_no_operation_gives_no_result():
    assert BoundaryExecutor(FakeEncoder()).answer([]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"signals": ("near", "far")}, "signals are .*'far'.*; expected one or more of near, centroid, tail"),
        ({"signals": ()}, "signals are"),
        ({"distance": "euclid"}, "distance is 'euclid'; expected one of cosine, half-cosine"),
        ({"interpolation": "cubic"}, "interpolation is 'cubic'; expected one of linear"),
        ({"window": "middle"}, "window is 'middle'; expected one of head, tail, mean"),
        ({"quantile": 2.0}, "quantile is 2.0; expected a number in"),
        ({"tau_tail": 0.0}, "tau_tail is 0.0; expected a positive number"),
        ({"tau_near": math.nan}, "tau_near is nan"),
    ],
)
def test_a_rule_that_cannot_be_applied_is_refused_before_any_work(change, words):
    encoder = FakeEncoder()
    with pytest.raises(UsageError, match=words):
        BoundaryExecutor(encoder).answer(pending(Decide("t", texts(2)), Decide("t", texts(2), replace(NoveltyRule(), **change))))
    assert encoder.calls == []
