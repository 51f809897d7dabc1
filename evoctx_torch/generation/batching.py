"""Which rows are generated together."""

from __future__ import annotations

from collections.abc import Sequence


def micro_batches(sizes: Sequence[tuple[int, int]], max_batch_tokens: int) -> list[list[int]]:
    """Split rows into micro-batches of similar length under a budget of padded tokens.

    `sizes`: (prompt tokens, new tokens at most) of each row. A micro-batch of n rows takes
    n x (longest prompt + most new tokens) slots, which is at most `max_batch_tokens`; a row that is larger alone
    goes alone. Longest first, so that what does not fit into memory shows at once. Returns row indices; depends on
    nothing but the sizes and their order.
    """
    batches: list[list[int]] = []
    prompt = new = 0
    for row in sorted(range(len(sizes)), key=lambda i: (*(-n for n in sizes[i]), i)):
        wider = max(prompt, sizes[row][0]), max(new, sizes[row][1])
        if not batches or (len(batches[-1]) + 1) * sum(wider) > max_batch_tokens:
            batches.append([])
            wider = sizes[row]
        prompt, new = wider
        batches[-1].append(row)
    return batches
