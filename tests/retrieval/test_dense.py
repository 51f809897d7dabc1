"""Exact search: the same order as brute force in float64, whatever the batch and however many ties."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from retrieval_cases import brute_force, unit_vectors

from evoctx_torch.errors import MissingExtra, UsageError
from evoctx_torch.retrieval.dense import DenseIndex


@pytest.mark.parametrize("k", [1, 5, 64])
def test_equals_brute_force(k: int) -> None:
    vectors, queries = unit_vectors(700, 48), unit_vectors(9, 48, seed=1)
    positions, scores = DenseIndex(vectors).search(torch.from_numpy(queries), k)
    for query, row, values in zip(queries, positions, scores, strict=True):
        expected, exact = brute_force(vectors, query, k)
        assert row.tolist() == expected
        np.testing.assert_allclose(values, exact, atol=1e-12)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 60), copies=st.integers(1, 80), k=st.integers(1, 90))
@settings(max_examples=40, deadline=None)
def test_ties_are_in_order_of_position_in_every_batch_shape(seed: int, n: int, copies: int, k: int) -> None:
    """Trap 16: duplicates. Many equal vectors at the cut, so that the first candidates do not hold all of them."""
    rng = np.random.default_rng(seed)
    vectors = unit_vectors(n, 24, seed)[rng.integers(0, n, n + copies)]
    queries = np.concatenate([unit_vectors(5, 24, seed + 1), vectors[:3]])[:8]
    index = DenseIndex(vectors)
    expected = [brute_force(vectors, query, k)[0] for query in queries]
    whole, whole_scores = index.search(torch.from_numpy(queries), k)
    assert whole.tolist() == expected
    for size in (1, 3):
        for start in range(0, len(queries), size):
            positions, scores = index.search(torch.from_numpy(queries[start : start + size]), k)
            assert positions.tolist() == expected[start : start + size]
            assert (scores == whole_scores[start : start + size]).all()  # bitwise


def test_a_cut_inside_a_tie_larger_than_all_candidates() -> None:
    vectors = np.repeat(unit_vectors(2, 16), 400, axis=0)[::-1].copy()
    positions, _ = DenseIndex(vectors).search(torch.from_numpy(vectors[-1:]), 5)
    assert positions.tolist() == [[400, 401, 402, 403, 404]]


def test_near_ties_that_float32_cannot_tell_apart_are_ranked_exactly() -> None:
    base = unit_vectors(1, 384)[0]
    vectors = np.stack([np.nextafter(base, np.float32(i % 7 - 3)) for i in range(200)])
    queries = unit_vectors(3, 384, seed=5)
    positions, _ = DenseIndex(vectors).search(torch.from_numpy(queries), 10)
    assert positions.tolist() == [brute_force(vectors, query, 10)[0] for query in queries]


def test_k_above_the_corpus_gives_every_passage_once_and_no_padding() -> None:
    vectors = unit_vectors(4, 8)
    positions, scores = DenseIndex(vectors).search(torch.from_numpy(vectors[:2]), 500)
    assert positions.shape == scores.shape == (2, 4)
    assert [sorted(row) for row in positions.tolist()] == [[0, 1, 2, 3]] * 2


def test_no_queries_and_a_k_of_zero() -> None:
    index = DenseIndex(unit_vectors(4, 8))
    assert index.search(torch.empty(0, 8), 3)[0].shape == (0, 3)
    assert index.search(torch.from_numpy(unit_vectors(2, 8)), 0)[0].shape == (2, 0)


def test_vectors_that_are_not_finite_are_refused() -> None:
    vectors = unit_vectors(4, 8)
    with pytest.raises(ValueError, match="NaN"):
        DenseIndex(vectors).search(torch.full((1, 8), float("nan")), 1)
    vectors[2, 1] = np.inf
    with pytest.raises(UsageError, match="passage 2"):
        DenseIndex(vectors)


def test_written_and_read_again(tmp_path) -> None:
    vectors = unit_vectors(50, 16)
    DenseIndex(vectors).write(tmp_path / "i.faiss")
    index = DenseIndex.read(tmp_path / "i.faiss")
    assert (index.vectors == vectors).all()
    assert index.search(torch.from_numpy(vectors[:3]), 1)[0].ravel().tolist() == [0, 1, 2]
    (tmp_path / "i.faiss").write_bytes((tmp_path / "i.faiss").read_bytes()[:100])
    with pytest.raises(UsageError, match=r"i\.faiss"):
        DenseIndex.read(tmp_path / "i.faiss")


def test_without_faiss_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def no_faiss(name: str, *args, **kwargs):
        if name == "faiss":
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_faiss)
    with pytest.raises(MissingExtra, match=r"evoctx-torch\[cpu\]"):
        DenseIndex(unit_vectors(2, 4))


def test_cuda_without_a_gpu_build_of_faiss_names_the_extra() -> None:
    import faiss

    if hasattr(faiss, "StandardGpuResources"):
        pytest.skip("this FAISS has GPU support")
    with pytest.raises(MissingExtra, match=r"evoctx-torch\[gpu\]"):
        DenseIndex(unit_vectors(2, 4), device="cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("fp16", [False, True])
def test_on_a_gpu_the_results_are_those_of_the_cpu(fp16: bool) -> None:
    import faiss

    if not hasattr(faiss, "StandardGpuResources") or not torch.cuda.is_available():
        pytest.skip("needs a CUDA device and FAISS with GPU support")
    vectors = np.repeat(unit_vectors(3000, 384), 2, axis=0)
    queries = torch.from_numpy(unit_vectors(8, 384, seed=1))
    for k in (5, 3000):  # the second is above what FAISS's GPU index takes
        expected = DenseIndex(vectors).search(queries, k)
        got = DenseIndex(vectors, "cuda", fp16).search(queries.cuda(), k)
        assert (got[0] == expected[0]).all()
        assert (got[1] == expected[1]).all()
