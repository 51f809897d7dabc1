"""Keys of randomness (design, rule 2): every sample depends on who asks, never on what else is in the batch."""

from __future__ import annotations

from hashlib import blake2b


def row_seed(seed: int, question_id: str, number: int, sample: int = 0) -> int:
    """A seed in [0, 2**63) from (run seed, question id, operation number, sample number)."""
    key = f"{seed}\0{question_id}\0{number}\0{sample}".encode()
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") >> 1
