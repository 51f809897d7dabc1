"""When a server is left alone, and when it is asked again."""

from __future__ import annotations

from evoctx_torch.retrieval.breaker import Breaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_opens_after_failures_in_a_row_only():
    breaker = Breaker(threshold=3)
    for _ in range(5):
        breaker.failed("x")
        breaker.failed("x")
        assert not breaker.open and breaker.wait_s == 0
        breaker.succeeded()
    for _ in range(3):
        breaker.failed("the cause")
    assert breaker.open and breaker.reason == "the cause"


def test_pauses_double_up_to_the_longest_and_start_anew_after_a_success():
    clock = Clock()
    breaker = Breaker(threshold=1, first_s=1.0, longest_s=5.0, clock=clock)
    pauses = []
    for _ in range(5):
        breaker.failed("x")
        pauses.append(breaker.wait_s)
        clock.now += breaker.wait_s
        assert breaker.open and breaker.wait_s == 0
    assert pauses == [1, 2, 4, 5, 5]
    breaker.succeeded()
    assert not breaker.open
    breaker.failed("x")
    assert breaker.wait_s == 1


def test_requests_that_were_under_way_when_it_opened_do_not_lengthen_the_pause():
    clock = Clock()
    breaker = Breaker(threshold=1, first_s=1.0, clock=clock)
    for _ in range(8):
        breaker.failed("x")
    assert breaker.wait_s == 1
