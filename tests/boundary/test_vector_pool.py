"""VectorPool: what is embedded, what is kept, what is evicted."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evoctx_torch.boundary.pool import VectorPool
from evoctx_torch.errors import UsageError


class Counting:
    """Embeds a text as its own fixed vector and remembers every batch."""

    def __init__(self, dim: int = 4) -> None:
        self.dim, self.batches = dim, []

    def vector(self, text: str) -> torch.Tensor:
        return torch.tensor([float(ord(c)) for c in text.ljust(self.dim)[: self.dim]])

    def __call__(self, texts):
        self.batches.append(list(texts))
        return torch.stack([self.vector(t) for t in texts])


def test_missing_texts_are_embedded_once_in_one_batch():
    encode = Counting()
    pool = VectorPool(encode, 4)
    slots = pool.slots(["b", "a", "b", "c"])
    assert slots[0] == slots[2]
    assert len(set(slots)) == 3
    assert encode.batches == [["b", "a", "c"]]
    assert pool.slots(["c", "d", "a"])[0] == slots[3]
    assert encode.batches[1:] == [["d"]]
    assert (pool.hits, pool.misses, pool.encoded, len(pool)) == (2, 4, 4, 4)
    assert pool.slots([]) == []
    assert len(encode.batches) == 2


def test_known_vectors_are_not_embedded():
    encode = Counting()
    given = {"a": np.array([1, 2, 3, 4], dtype=np.float16), "b": torch.tensor([5.0, 6.0, 7.0, 8.0])}
    pool = VectorPool(encode, 4, known=given.get)
    slots = pool.slots(["a", "x", "b"])
    assert encode.batches == [["x"]]
    assert pool.vectors[slots].tolist() == [[1, 2, 3, 4], encode.vector("x").tolist(), [5, 6, 7, 8]]
    pool.slots(["a", "b"])
    assert (pool.misses, pool.encoded, pool.hits) == (3, 1, 2)
    assert VectorPool(encode, 4, known=given.get).slots(["a", "b"]) == [0, 1]
    assert len(encode.batches) == 1


def test_the_least_recently_used_are_evicted():
    pool = VectorPool(Counting(), 4, capacity=3)
    pool.slots(["a", "b", "c"])
    pool.slots(["a"])
    pool.slots(["d"])
    assert [t in pool for t in "abcd"] == [True, False, True, True]


def test_rows_of_the_current_call_are_never_evicted():
    encode = Counting()
    pool = VectorPool(encode, 4, capacity=3)
    pool.slots(["a", "b", "c"])
    slots = pool.slots(["x", "a", "y"])  # a is the oldest
    assert len(set(slots)) == 3
    assert pool.vectors[slots].tolist() == [encode.vector(t).tolist() for t in ("x", "a", "y")]
    assert encode.batches[1] == ["x", "y"]


def test_a_call_beyond_capacity_grows_the_pool_and_says_so(caplog):
    encode = Counting()
    pool = VectorPool(encode, 4, capacity=2)
    pool.slots(["a"])
    with caplog.at_level(logging.WARNING):
        slots = pool.slots(["b", "c", "a", "d"])
        pool.slots(["e", "f", "g", "h", "i"])
    assert len(caplog.records) == 1
    assert "4 vectors" in caplog.text
    assert pool.capacity == 5
    assert len(set(slots)) == 4


def test_memory_grows_in_steps_and_vectors_survive():
    encode = Counting(8)
    pool = VectorPool(encode, 8, capacity=5000)
    texts = [f"t{i}" for i in range(4000)]
    assert len(pool.vectors) < 2000
    slots = pool.slots(texts[:10])
    slots += pool.slots(texts[10:])
    assert len(pool.vectors) <= 5000
    assert torch.equal(pool.vectors[slots], torch.stack([encode.vector(t) for t in texts]))


def test_a_failing_encoder_leaves_the_pool_as_it_was():
    def encode(texts):
        if "bad" in texts:
            raise RuntimeError("no")
        return torch.ones(len(texts), 4)

    pool = VectorPool(encode, 4, capacity=2)
    slots = pool.slots(["a", "b"])
    with pytest.raises(RuntimeError):
        pool.slots(["c", "bad"])
    assert (pool.hits, pool.misses, pool.encoded) == (0, 2, 2)
    assert "c" not in pool
    assert pool.slots(["a", "b"]) == slots


def test_rows_written_in_inference_mode_can_be_replaced_outside():
    pool = VectorPool(Counting(), 4, capacity=2000)
    with torch.inference_mode():
        pool.slots([str(i) for i in range(1500)])
    assert pool.vectors[pool.slots(["x"])].tolist() == [Counting().vector("x").tolist()]


def test_a_vector_of_the_wrong_size_is_refused():
    with pytest.raises(UsageError, match=r"shape \[1, 4\]; expected \[1, 8\]"):
        VectorPool(Counting(4), 8).slots(["a"])
    with pytest.raises(UsageError, match=r"known for a text has shape \[3\]; expected \[4\]"):
        VectorPool(Counting(4), 4, known=lambda text: np.ones(3)).slots(["a"])
    with pytest.raises(UsageError, match="capacity is 0; expected at least 1"):
        VectorPool(Counting(4), 4, capacity=0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.lists(st.lists(st.sampled_from("abcdefghijkl"), max_size=9), max_size=12))
def test_slots_always_hold_their_own_texts(capacity, calls):
    encode = Counting()
    pool = VectorPool(encode, 4, capacity=capacity)
    used: dict[str, int] = {}  # the call that last asked for a text
    for number, texts in enumerate(calls):
        slots = pool.slots(texts)
        assert pool.vectors[slots].tolist() == [encode.vector(t).tolist() for t in texts]
        assert len(set(slots)) == len(set(texts))
        used.update(dict.fromkeys(texts, number))
        assert len(pool) <= pool.capacity == max(capacity, *(len(set(c)) for c in calls[: number + 1]))
        kept = [when for text, when in used.items() if text in pool]
        evicted = [when for text, when in used.items() if text not in pool]
        assert len(kept) == len(pool)
        assert max(evicted, default=-1) <= min(kept, default=number), "a text was evicted before one used longer ago"
        used = {text: when for text, when in used.items() if text in pool}
