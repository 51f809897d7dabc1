"""Which process of how many this is, as torchrun, accelerate launch and srun wrappers tell it: by the environment alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from evoctx_torch.errors import UsageError

# What all processes of one launch share, and another launch mostly has otherwise.
SHARED = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID")


@dataclass(frozen=True, slots=True)
class Processes:
    """This process's place in its launch. `token` tells the processes of one launch from those of another."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0
    token: str = ""

    @property
    def first(self) -> bool:
        """Whether this process speaks for all."""
        return self.rank == 0

    def take_device(self, device: str) -> None:
        """Make this process's own GPU the one that "cuda" means; more processes than GPUs share them in turn."""
        if self.count == 1 or device not in ("auto", "cuda"):
            return
        import torch
        if found := torch.cuda.device_count():
            torch.cuda.set_device(self.local_rank % found)


ALONE = Processes()


def from_environment(environment: Mapping[str, str] = os.environ) -> Processes:
    """The place that RANK, WORLD_SIZE and LOCAL_RANK tell; alone where they are not set.

    No process group is made: the processes of a run meet in its folder. Raises `UsageError` for numbers that make no sense, and
    where `accelerate launch` was asked for several processes and started one.
    """
    if "WORLD_SIZE" not in environment:
        # accelerate's launcher of one process (on a CPU) sets a port only if it was asked for more.
        if "ACCELERATE_MIXED_PRECISION" in environment and "MASTER_PORT" in environment:
            raise UsageError("accelerate launch was asked for several processes and has started this one alone, as it does on a CPU: "
                             "use torchrun --standalone --nproc_per_node N -m evoctx_torch …, or --num_processes 1")
        return ALONE
    count = _number(environment, "WORLD_SIZE", low=1)
    rank = _number(environment, "RANK", high=count - 1)
    local_rank = _number(environment, "LOCAL_RANK") if "LOCAL_RANK" in environment else 0
    return Processes(rank, count, local_rank, " ".join(environment.get(name, "-") for name in SHARED))


def _number(environment: Mapping[str, str], name: str, low: int = 0, high: int | None = None) -> int:
    text = environment.get(name, "")
    if not (text.isascii() and text.isdigit() and int(text) >= low and (high is None or int(text) <= high)):
        expected = f"a whole number from {low}" + (f" to {high}" if high is not None else "")
        raise UsageError(f"{name} is {text!r} in the environment; expected {expected}: start with torchrun or accelerate launch, or unset WORLD_SIZE")
    return int(text)
