"""What every operator is timed and tested on: CASES maps its name to a builder (device, rows, scale) -> Case.

Inputs are made on the device from fixed seeds. A pool is as large as all its readers together and every vector is read
once, so that the bytes moved are those that are counted and no cache lends any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import eager
import torch
from evoctx_kernels.costs import Cost, cost, operand
from torch import Tensor
from torch.nn.functional import normalize

THRESHOLDS = (0.3, 0.2, 0.4)


class Scale(NamedTuple):
    """Sizes other than rows: vector length, longest boundary, votes, candidates, vocabulary, pool of max_similarity."""

    dim: int
    longest: int
    votes: int
    candidates: int
    vocab: int
    pool: int
    dtype: torch.dtype


FULL = Scale(dim=384, longest=63, votes=16, candidates=40, vocab=128_256, pool=65_536, dtype=torch.float16)
TINY = Scale(dim=32, longest=5, votes=4, candidates=6, vocab=40, pool=17, dtype=torch.float32)


@dataclass(frozen=True, slots=True)
class Case:
    """One operator on one size."""

    name: str
    rows: int
    arguments: tuple[Any, ...]  # of the registered operator
    operator: Callable[..., tuple[Any, ...]]  # the registered operator: chosen by device
    launch: Callable[[], Any]  # the Triton kernel itself, on these arguments (in the interpreter on a CPU)
    eager: Callable[[], tuple[Tensor, ...]]  # plain PyTorch on these arguments, the operator's first outputs
    reference: Callable[[], tuple[Any, ...]]  # the definition on the CPU, in float64 where floats matter
    tolerance: float = 2e-6  # of float outputs, against the reference
    compared: int | None = None  # how many outputs eager PyTorch must agree in (default: all it has)

    def run(self) -> tuple[Any, ...]:
        """The operator's outputs."""
        return self.operator(*self.arguments)

    @property
    def cost(self) -> Cost:
        """Bytes that must move and floating-point operations."""
        known = cost(self.name, [operand(argument) for argument in self.arguments])
        assert known is not None, f"evoctx_kernels.costs knows no {self.name}"
        return known


def triton(operator: str, module: str = "triton_kernel") -> Callable[..., Any]:
    """The launch of a kernel, imported only when it is called: triton may be absent."""
    return lambda *arguments: import_module(f"evoctx_kernels.{operator}.{module}").launch(*arguments)


def home(values: Any) -> Any:
    """Tensors on the CPU, floating ones in float64."""
    return values.detach().cpu().double() if isinstance(values, Tensor) and values.is_floating_point() else (
        values.cpu() if isinstance(values, Tensor) else values)


def generator(device: str, rows: int) -> torch.Generator:
    """Random numbers of the device, the same every time."""
    return torch.Generator(device).manual_seed(1000 + rows)


def unit(count: int, scale: Scale, g: torch.Generator, spread: float | Tensor = 0.7) -> Tensor:
    """Unit vectors around one direction, the same in every call; the cosine of two of them is about 1 / (1 + spread²)."""
    return normalize(torch.randn(count, scale.dim, generator=g, device=g.device).mul_(spread).add_(1), dim=1).to(scale.dtype)


def csr(rows: int, longest: int, g: torch.Generator) -> Tensor:
    """indptr of rows with 1 to `longest` entries."""
    counts = torch.randint(1, longest + 1, (rows,), generator=g, device=g.device)
    return torch.cat((counts.new_zeros(1), counts.cumsum(0)))


def boundary(device: str, rows: int, scale: Scale) -> tuple[Tensor, ...]:
    """traces, pool, indptr, slots, thresholds: every pool row in one boundary."""
    g = generator(device, rows)
    indptr = csr(rows, scale.longest, g)
    nnz = int(indptr[-1])
    slots = torch.randperm(nnz, generator=g, device=device)
    spread = torch.rand(rows, 1, generator=g, device=device) + 0.2  # so that both actions occur
    return unit(rows, scale, g, spread), unit(nnz, scale, g), indptr, slots, torch.tensor(THRESHOLDS, device=device)


def boundary_signals(device: str, rows: int, scale: Scale) -> Case:
    """Signals and decision. Values are not validated: on a GPU that is the default."""
    from evoctx_kernels.boundary_signals import reference
    from evoctx_kernels.boundary_signals.registration import operator

    inputs = boundary(device, rows, scale)
    return Case(
        "boundary_signals", rows, (*inputs, None, 0.9, "linear", False, False), operator,
        lambda: triton("boundary_signals")(*inputs)[:6], lambda: eager.boundary_signals(*inputs, 0.9, scale.longest),
        lambda: reference(*map(home, inputs)),
    )  # fmt: skip


def boundary_signals_backward(device: str, rows: int, scale: Scale) -> Case:
    """Gradients of traces and pool, in the order of additions that is fixed."""
    from evoctx_kernels.boundary_signals.backward import backward_operator, vectorized_backward
    from evoctx_kernels.boundary_signals.registration import operator

    traces, pool, indptr, slots, thresholds = boundary(device, rows, scale)
    out = operator(traces, pool, indptr, slots, thresholds, None, 0.9, "linear", False, True)
    positions, total = torch.stack((out[1], out[6], out[7]), 1), out[8]
    coefficients = torch.randn(rows, 4, generator=generator(device, rows), device=device)
    inputs = coefficients, positions, traces, pool, indptr, slots, total
    deterministic = device == "cpu" or torch.are_deterministic_algorithms_enabled()
    return Case(
        "boundary_signals_backward", rows, (*inputs, True, True, deterministic), backward_operator,
        lambda: triton("boundary_signals", "triton_backward")(*inputs, True, True), lambda: eager.boundary_signals_backward(*inputs),
        lambda: vectorized_backward(*map(home, inputs), True, True), tolerance=1e-5 if scale.dtype == torch.float32 else 2e-2,
    )  # fmt: skip


def majority_vote(device: str, rows: int, scale: Scale) -> Case:
    """Two options, as ACE has them, and some votes that are none."""
    from evoctx_kernels.majority_vote import LOWEST, reference
    from evoctx_kernels.majority_vote import operator as registered

    votes = torch.randint(-1, 2, (rows, scale.votes), generator=generator(device, rows), device=device)
    return Case(
        "majority_vote", rows, (votes, 2, LOWEST), registered, lambda: triton("majority_vote")(votes, 2, LOWEST),
        lambda: eager.majority_vote(votes, 2), lambda: reference(votes.cpu(), 2),
    )  # fmt: skip


def sample_votes(device: str, rows: int, scale: Scale) -> Case:
    """Votes on two action words."""
    from evoctx_kernels.sample_votes import LOWEST, reference
    from evoctx_kernels.sample_votes import operator as registered

    g = generator(device, rows)
    logits, seeds = torch.randn(rows, 2, generator=g, device=device), torch.randint(1 << 62, (rows,), generator=g, device=device)
    temperature = torch.rand(rows, generator=g, device=device, dtype=torch.float64) + 0.5
    inputs = logits, seeds, scale.votes, temperature
    return Case(
        "sample_votes", rows, (*inputs, LOWEST), registered, lambda: triton("sample_votes")(*inputs, LOWEST),
        lambda: eager.sample_votes(*inputs), lambda: reference(logits.cpu(), seeds.cpu(), scale.votes, temperature.cpu(), LOWEST),
    )  # fmt: skip


def first_unseen(device: str, rows: int, scale: Scale) -> Case:
    """Documents of ranked passages, some seen, some twice, some padding."""
    from evoctx_kernels.first_unseen import operator as registered
    from evoctx_kernels.first_unseen import reference

    g = generator(device, rows)
    indptr = csr(rows, scale.longest, g)
    candidates = torch.randint(-1, 2 * scale.candidates, (rows, scale.candidates), generator=g, device=device)
    seen = torch.randint(0, 2 * scale.candidates, (int(indptr[-1]),), generator=g, device=device)
    inputs = candidates, indptr, seen, 5
    return Case(
        "first_unseen", rows, (*inputs, True), registered, lambda: triton("first_unseen")(*inputs, True),
        lambda: eager.first_unseen(*inputs, scale.longest), lambda: reference(*map(home, inputs)),
    )  # fmt: skip


def greedy_diverse(device: str, rows: int, scale: Scale) -> Case:
    """Thought-Retriever's filter: the first 8 that resemble none before. Cosines spread around the threshold."""
    from evoctx_kernels.greedy_diverse import operator as registered
    from evoctx_kernels.greedy_diverse import reference

    g = generator(device, rows)
    slots = torch.randperm(rows * scale.candidates, generator=g, device=device).view(rows, -1)
    inputs = unit(rows * scale.candidates, scale, g), slots, 0.68, min(8, scale.candidates)
    return Case(
        "greedy_diverse", rows, inputs, registered, lambda: triton("greedy_diverse")(*inputs), lambda: eager.greedy_diverse(*inputs),
        lambda: reference(*map(home, inputs)),
    )  # fmt: skip


def max_similarity(device: str, rows: int, scale: Scale) -> Case:
    """Thought-Retriever's check at store time: against all of a pool."""
    from evoctx_kernels.max_similarity import operator as registered
    from evoctx_kernels.max_similarity import reference

    g = generator(device, rows)
    queries, pool = unit(rows, scale, g), unit(scale.pool, scale, g)
    return Case(
        "max_similarity", rows, (queries, pool, None, None, None), registered, lambda: triton("max_similarity")(queries, pool),
        lambda: eager.max_similarity(queries, pool), lambda: reference(home(queries), home(pool)), compared=1,
    )  # fmt: skip


def gumbel_argmax(device: str, rows: int, scale: Scale) -> Case:
    """One sampled token a row."""
    from evoctx_kernels.row_gumbel import operator as registered
    from evoctx_kernels.row_gumbel import reference

    g = generator(device, rows)
    logits = 3 * torch.randn(rows, scale.vocab, generator=g, device=device)
    seeds = torch.randint(1 << 62, (rows,), generator=g, device=device)
    steps, temperature = torch.randint(64, (rows,), generator=g, device=device), torch.rand(rows, generator=g, device=device) + 0.5
    inputs = logits, seeds, steps, temperature
    return Case(
        "gumbel_argmax", rows, (*inputs, None), registered, lambda: triton("row_gumbel")(*inputs), lambda: eager.gumbel_argmax(*inputs),
        lambda: reference(*(x.cpu() for x in inputs)), tolerance=2e-5,
    )  # fmt: skip


class Timed(NamedTuple):
    """A builder and the rows it is timed at; torch.compile is timed at `compiled` rows alone, as it compiles anew for each."""

    build: Callable[[str, int, Scale], Case]
    rows: tuple[int, ...]
    compiled: int


CASES: dict[str, Timed] = {
    "boundary_signals": Timed(boundary_signals, (256, 4096, 65536), 4096),
    "boundary_signals_backward": Timed(boundary_signals_backward, (256, 4096), 4096),
    "max_similarity": Timed(max_similarity, (256, 4096), 4096),
    "gumbel_argmax": Timed(gumbel_argmax, (32, 256), 256),
    "greedy_diverse": Timed(greedy_diverse, (256, 4096), 4096),
    "first_unseen": Timed(first_unseen, (256, 4096), 4096),
    "sample_votes": Timed(sample_votes, (256, 65536), 65536),
    "majority_vote": Timed(majority_vote, (256, 65536), 65536),
}
