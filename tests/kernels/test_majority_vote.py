"""majority_vote: the rules by hand, the vectorized path against the reference, and laws of counting."""

from __future__ import annotations

import pytest
import torch
from evoctx_kernels.majority_vote import ABSTAIN, LOWEST, majority_vote, reference, tie_code
from hypothesis import given, settings
from hypothesis import strategies as st
from vote_cases import MAJORITIES, TIES, random_votes, same_bits, tie_rule


def by_reference(votes, options, *, tie="lowest"):
    return reference(votes, options, tie_code(tie, options, "test"))


PATHS = pytest.mark.parametrize("path", [by_reference, majority_vote])


@PATHS
@pytest.mark.parametrize(
    ("votes", "tie", "winner", "counts", "margin"),
    [
        ([0, 1, 1, 2, 1], "lowest", 1, [1, 3, 1], 2),
        ([2, 2, 1, 1, 0], "lowest", 1, [1, 2, 2], 0),
        ([2, 2, 1, 1, 0], "abstain", -1, [1, 2, 2], 0),
        ([2, 2, 1, 1, 0], 2, 2, [1, 2, 2], 0),
        ([2, 2, 1, 1, 0], 0, 0, [1, 2, 2], 0),  # an option that ties go to need not be among them
        ([2, -1, 3, 2, -7], 0, 2, [0, 0, 2], 2),  # invalid votes are no votes
        ([-1, 3, 99, -5, 2**40], 1, -1, [0, 0, 0], 0),  # and none is valid here
        ([-1, 3, 99, -5, 4], "lowest", -1, [0, 0, 0], 0),
    ],
)
def test_the_rules_by_hand(path, votes, tie, winner, counts, margin):
    got = path(torch.tensor([votes]), 3, tie=tie)
    assert [got.winner.item(), got.counts[0].tolist(), got.margin.item()] == [winner, counts, margin]


@PATHS
def test_ace_retrieves_when_the_agents_are_divided(path):
    retrieve, think = 0, 1
    votes = torch.tensor([[think, retrieve, think, retrieve], [think, think, -1, retrieve], [-1, -1, -1, think]])
    assert path(votes, 2, tie=retrieve).winner.tolist() == [retrieve, think, think]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize(("rows", "k", "options"), MAJORITIES)
def test_vectorized_is_the_reference(rows, k, options, dtype):
    votes = random_votes(rows, k, options).to(dtype)
    for tie in TIES:
        rule = tie_rule(tie, options)
        assert same_bits(majority_vote(votes, options, tie=rule), by_reference(votes, options, tie=rule))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-1, 4), min_size=1, max_size=12), st.permutations(range(4)), st.randoms(use_true_random=False))
def test_laws(row, names, random):
    votes = torch.tensor([row])
    got = majority_vote(votes, 4, tie="abstain")
    assert got.counts.sum() == sum(0 <= v < 4 for v in row)
    assert same_bits(majority_vote(torch.tensor([random.sample(row, len(row))]), 4, tie="abstain"), got), "order matters"
    assert same_bits(majority_vote(torch.tensor([[*row, 4, -3]]), 4, tie="abstain"), got), "invalid votes matter"
    assert (got.margin > 0) == (got.winner >= 0)
    renamed = majority_vote(torch.tensor([[names[v] if 0 <= v < 4 else v for v in row]]), 4, tie="abstain")
    assert renamed.winner == (names[got.winner.item()] if got.winner >= 0 else -1)
    if got.margin > 0:
        assert all(majority_vote(votes, 4, tie=tie).winner == got.winner for tie in ("lowest", 0, 3))


def test_a_row_is_the_same_alone_and_in_any_batch():
    votes = random_votes(9, 6, 3)
    together, order = majority_vote(votes, 3), torch.randperm(9, generator=torch.Generator().manual_seed(1))
    assert same_bits(majority_vote(votes[order], 3), [x[order] for x in together])
    for b in range(9):
        assert same_bits(majority_vote(votes[b : b + 1], 3), [x[b : b + 1] for x in together])


def test_strides_and_an_empty_batch():
    votes = random_votes(4, 7, 3)
    assert same_bits(majority_vote(votes.T.contiguous().T, 3), majority_vote(votes, 3))
    assert [x.shape for x in majority_vote(votes[:0], 3)] == [(0,), (0, 3), (0,)]
    assert [x.shape for x in by_reference(votes[:0], 3)] == [(0,), (0, 3), (0,)]


class TestRegistration:
    def test_opcheck(self):
        for tie in (LOWEST, ABSTAIN, 1):
            results = torch.library.opcheck(torch.ops.evoctx.majority_vote.default, (random_votes(3, 5, 2), 2, tie))
            assert set(results.values()) == {"SUCCESS"}

    def test_compiles_whole_and_for_any_shape(self):
        compiled = torch.compile(majority_vote, fullgraph=True, dynamic=True, backend="aot_eager")
        for rows, k, tie in ((3, 5, "lowest"), (1, 4, "abstain"), (7, 9, 1)):
            votes = random_votes(rows, k, 3)
            assert same_bits(compiled(votes, 3, tie=tie), majority_vote(votes, 3, tie=tie))

    def test_exports(self):
        class Vote(torch.nn.Module):
            def forward(self, votes):
                return tuple(majority_vote(votes, 3, tie="abstain"))

        votes = random_votes(4, 5, 3)
        program = torch.export.export(Vote(), (votes,), dynamic_shapes=({0: torch.export.Dim("rows"), 1: None},))
        assert same_bits(program.module()(random_votes(9, 5, 3)), majority_vote(random_votes(9, 5, 3), 3, tie="abstain"))


@pytest.mark.parametrize(
    ("votes", "options", "tie", "error", "words"),
    [
        (torch.zeros(3).long(), 2, 0, ValueError, r"votes: expected \[B, k\], got \[3\]"),
        (torch.zeros(3, 0).long(), 2, 0, ValueError, r"votes: expected \[B, k\] with k from 1 to 1024, got \[3, 0\]"),
        (torch.zeros(3, 1025).long(), 2, 0, ValueError, r"votes: .* k from 1 to 1024, got \[3, 1025\]"),
        (torch.zeros(3, 2), 2, 0, TypeError, r"votes: expected torch.int64 or torch.int32, got torch.float32"),
        (torch.zeros(3, 2).long(), 0, "lowest", ValueError, "options: expected at least 1, got 0"),
        (torch.zeros(3, 2).long(), 2, 2, ValueError, r"tie: expected an option in \[0, 2\), 'lowest' or 'abstain', got 2"),
        (torch.zeros(3, 2).long(), 2, -1, ValueError, r"tie: .* got -1"),
        (torch.zeros(3, 2).long(), 2, "random", ValueError, r"tie: .* got 'random'"),
    ],
)
def test_wrong_input_is_refused(votes, options, tie, error, words):
    with pytest.raises(error, match=f"majority_vote: {words}"):
        majority_vote(votes, options, tie=tie)
