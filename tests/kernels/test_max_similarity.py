"""max_similarity: reference and CPU path against numpy in float64, ties, edges, company, tracing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from evoctx_kernels.max_similarity import cpu, max_similarity, reference
from evoctx_kernels.max_similarity import operator as registered
from evoctx_kernels.max_similarity.checks import check
from evoctx_kernels.max_similarity.cpu import vectorized
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_cases import DTYPES, clustered, csr, same_bits

PATHS = pytest.mark.parametrize("path", [reference, vectorized])


def rows_of(counts: list[int], size: int, seed: int = 0) -> list[list[int]]:
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(0, size, (n,), generator=g).tolist() for n in counts]


@PATHS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 5, 33])
def test_against_numpy(path, rows, dtype):
    for dim, size in ((16, 1), (48, 700), (384, 257)):
        pool, queries = clustered(size, dim, dtype=dtype), clustered(rows, dim, seed=1, dtype=dtype)
        cosine = queries.double().numpy() @ pool.double().numpy().T
        tolerance = 1e-14 if dtype == torch.float64 else 5e-7
        got = path(queries, pool)
        np.testing.assert_allclose(got.similarity.double().numpy(), cosine.max(1), rtol=0, atol=tolerance)
        np.testing.assert_allclose(cosine[np.arange(rows), got.argmax.numpy()], cosine.max(1), rtol=0, atol=2 * tolerance)
        own = rows_of([1 + 7 * b % 40 for b in range(rows)], size)
        got = path(queries, pool, *csr(own))
        expected = [cosine[b, own[b]].max() for b in range(rows)]
        np.testing.assert_allclose(got.similarity.double().numpy(), expected, rtol=0, atol=tolerance)
        assert all(slot in row for slot, row in zip(got.argmax.tolist(), own, strict=True))
        assert got.similarity.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@PATHS
def test_equal_vectors_tie_to_the_lowest_row_wherever_they_stand(path):
    base = clustered(40, 384, seed=3)
    pool = base[torch.arange(4100) % 40].contiguous()  # a matrix product treats its last rows differently
    queries = clustered(30, 384, seed=4)
    got = path(queries, pool)
    assert same_bits(got, path(queries, base))
    assert (got.argmax < 40).all()
    assert path(base[:1], base, *csr([[39, 0, 39, 5]])).argmax == 0  # 39 equals 0
    assert path(base[:1], base, *csr([[5, 39]])).argmax == 39


@PATHS
def test_exclude_leaves_a_row_out(path):
    pool = clustered(50, 48)
    got = path(pool, pool, None, None, torch.arange(50))
    cosine = pool.double() @ pool.double().T
    cosine.fill_diagonal_(-9)
    assert (cosine.max(1).values - got.similarity).abs().max() < 5e-7
    assert (got.argmax != torch.arange(50)).all()
    assert got.argmax[0] == 49  # its copy
    indptr, slots = csr([[7, 7], [7, 8], []])
    got = path(pool[:3], pool, indptr, slots, torch.tensor([7, 7, 7]))
    assert got.argmax.tolist() == [-1, 8, -1]
    assert got.similarity[0] == got.similarity[2] == -math.inf
    assert path(pool[:1], pool[:1], None, None, torch.tensor([0])).argmax == -1
    assert same_bits(path(pool, pool, None, None, torch.full((50,), -1)), path(pool, pool))


@PATHS
def test_nothing_to_compare_with(path):
    pool = clustered(5, 16)
    for got in (path(pool, pool[:0]), path(pool, pool, *csr([[]] * 5)), path(pool, pool[:0], *csr([[]] * 5))):
        assert got.similarity.tolist() == [-math.inf] * 5
        assert got.argmax.tolist() == [-1] * 5


@PATHS
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_flagged(path, poison):
    pool, queries = clustered(30, 48), clustered(4, 48, seed=1)
    clean = path(queries, pool)
    broken = queries.clone()
    broken[2, 5] = poison
    got = path(broken, pool)
    assert got.similarity.isnan().tolist() == [False, False, True, False]
    assert got.argmax[2] == -1
    assert same_bits([x[[0, 1, 3]] for x in got], [x[[0, 1, 3]] for x in clean])
    assert path(broken, pool[:0]).similarity.isnan().tolist() == [False, False, True, False]

    bad = pool.clone()
    bad[9, 3] = poison
    queries[0, 3] = 0  # 0 * inf is NaN, not 0
    assert path(queries, bad).similarity.isnan().all()
    assert (path(queries, bad).argmax == -1).all()
    got = path(queries, bad, None, None, torch.tensor([9, -1, 9, 9]))
    assert got.similarity.isnan().tolist() == [False, True, False, False], "what is excluded is not looked at"
    got = path(queries, bad, *csr([[9, 1], [1, 2], [], [2, 9]]))
    assert got.similarity.isnan().tolist() == [True, False, False, True]
    assert got.argmax.tolist()[2] == -1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_query_has_the_same_bits_alone_and_in_any_batch(dtype, threads, monkeypatch):
    pool, queries = clustered(900, 384, dtype=dtype), clustered(37, 384, seed=1, dtype=dtype)
    own = csr(rows_of([(5 * b) % 50 for b in range(37)], 900))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        together, restricted = max_similarity(queries, pool), max_similarity(queries, pool, *own)
        order = torch.randperm(37, generator=torch.Generator().manual_seed(0))
        assert same_bits(max_similarity(queries[order], pool), [x[order] for x in together])
        torch.set_num_threads(1)
        for b in range(0, 37, 6):
            assert same_bits(max_similarity(queries[b : b + 1], pool), [x[b : b + 1] for x in together])
            alone = csr([own[1][own[0][b] : own[0][b + 1]].tolist()])
            assert same_bits(max_similarity(queries[b : b + 1], pool, *alone), [x[b : b + 1] for x in restricted])
        monkeypatch.setattr(cpu, "PRODUCTS", 5000)
        monkeypatch.setattr(cpu, "BLOCK", 250)
        assert same_bits(max_similarity(queries, pool), together), "the blocks show in the result"
    finally:
        torch.set_num_threads(before)


@given(data=st.data(), dim=st.sampled_from([16, 48]), size=st.integers(1, 60), scale=st.sampled_from([1e-3, 1.0, 1e3]))
@settings(max_examples=50, deadline=None)
def test_a_pool_is_the_csr_of_all_its_rows(data, dim, size, scale):
    """Also for vectors of any length: the sieve's error bound knows norms."""
    pool, queries = clustered(size, dim, seed=size) * scale, clustered(3, dim, seed=7)
    everything = list(range(size))
    shuffled = data.draw(st.permutations(everything))
    assert same_bits(max_similarity(queries, pool), max_similarity(queries, pool, *csr([everything, shuffled, everything + shuffled])))


def test_empty_batch_and_strides():
    pool = clustered(30, 48)
    got = max_similarity(pool[:0], pool)
    assert [list(x.shape) for x in got] == [[0], [0]]
    assert same_bits(max_similarity(pool[:6].T.contiguous().T, pool), max_similarity(pool[:6], pool))


@pytest.mark.filterwarnings("ignore")
def test_the_operator_is_registered_well():
    pool = clustered(20, 16)
    for args in (
        (pool[:4].clone(), pool, None, None, None),
        (pool[:4].half(), pool.half(), *csr([[1], [], [2, 3], [4]]), None),
        (pool[:4].clone(), pool, None, None, torch.arange(4)),
    ):
        torch.library.opcheck(registered, args)


@pytest.mark.filterwarnings("ignore")
def test_compile_and_export():
    compiled = torch.compile(max_similarity, fullgraph=True, dynamic=True, backend="aot_eager")
    pool = clustered(20, 16)
    for rows in (3, 5):
        queries = clustered(rows, 16, seed=rows)
        assert same_bits(compiled(queries, pool), max_similarity(queries, pool))

    class Check(torch.nn.Module):
        def forward(self, queries, pool):
            return tuple(max_similarity(queries, pool))

    batch, size = torch.export.Dim("B"), torch.export.Dim("N")
    exported = torch.export.export(Check(), (clustered(4, 16, seed=1), pool), dynamic_shapes=({0: batch}, {0: size}))
    queries, pool = clustered(7, 16, seed=2), clustered(33, 16)
    assert same_bits(exported.module()(queries, pool), max_similarity(queries, pool))


def test_wrong_input_is_refused():
    pool, queries = clustered(9, 16), clustered(2, 16, seed=1)
    indptr, slots = csr([[1, 2], [3]])
    for args, exclude, error, words in (
        ((queries[0], pool), None, ValueError, r"queries: expected \[B, D\], got \[16\]"),
        ((queries, pool[:, :8]), None, ValueError, r"pool: expected \[N, 16\], got \[9, 8\]"),
        ((queries, pool.half()), None, TypeError, "pool: expected the dtype of queries, torch.float32, got torch.float16"),
        ((queries.long(), pool.long()), None, TypeError, "queries: expected float32, float16, bfloat16 or float64, got torch.int64"),
        ((queries, pool.T.contiguous().T), None, ValueError, "pool: expected a contiguous tensor"),
        ((queries, pool, indptr), None, ValueError, "indptr and slots: expected both or neither, got indptr alone"),
        ((queries, pool, None, slots), None, ValueError, "expected both or neither, got slots alone"),
        ((queries, pool, indptr[:2], slots), None, ValueError, r"indptr: expected \[3\], got \[2\]"),
        ((queries, pool, indptr, slots.int()), None, TypeError, r"slots: expected torch.int64, got torch.int32"),
        ((queries, pool, indptr, slots + 7), None, ValueError, r"slots: expected values in \[0, 9\), got values from 8 to 10"),
        ((queries, pool, torch.tensor([0, 2, 2]), slots), None, ValueError, "indptr: expected 0 first and nnz = 3 last, got 0 and 2"),
        ((queries, pool, torch.tensor([0, 4, 3]), slots), None, ValueError, r"non-decreasing values, got a decrease after row \[1\]"),
        ((queries, pool), torch.zeros(3).long(), ValueError, r"exclude: expected \[2\], got \[3\]"),
        ((queries, pool), torch.tensor([0, 9]), ValueError, r"exclude: expected values in \[0, 9\) or -1, got values from 0 to 9"),
    ):
        with pytest.raises(error, match=words):
            max_similarity(*args, exclude=exclude)
    with pytest.raises(ValueError, match="pool: expected device cpu, got meta"):
        check(queries, pool.to("meta"), None, None, None)
