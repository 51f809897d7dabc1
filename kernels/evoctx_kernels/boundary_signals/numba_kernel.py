"""The rows of boundary_signals, compiled by numba for the CPU.

A vector is read once, for its dot product and for the sum, while later ones are on their way into the cache. Each row is
computed alone and in the same order whatever else is in the batch, so that its bits are its own.
"""

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

AHEAD, LINE = 8, 64  # vectors that are fetched before they are read; bytes of a cache line


@intrinsic
def fetch(typing, address):
    """Ask for the cache line at an address, which need not be valid."""

    def code(context, builder, signature, arguments):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), (byte, number, number, number))
        ask = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
        builder.call(ask, (builder.inttoptr(arguments[0], byte), number(0), number(3), number(1)))  # to read; near; data
        return context.get_dummy_value()

    return numba.void(numba.intp), code


in_lanes = numba.njit(cache=True, fastmath={"reassoc", "contract"})  # sums in an order that depends on D alone
compiled = numba.njit(cache=True, error_model="numpy", nogil=True)


@in_lanes
def dot(x, y, zero):
    total = zero
    for k in range(len(x)):
        total += x[k] * y[k]
    return total


@in_lanes
def dot_and_add(x, y, zero, sums):
    """x · y, with x added to `sums` on the way."""
    total = zero
    for k in range(len(x)):
        total += x[k] * y[k]
        sums[k] += x[k]
    return total


@compiled
def longest(indptr, slots):
    """The most vectors that a row may have, 63 at least."""
    most = 63
    for b in range(len(indptr) - 1):
        most = max(most, indptr[b + 1] - indptr[b])
    return min(most, max(63, len(slots)))


@compiled
def sort(values):
    """Shell's: boundaries are short. Gaps of Ciura (2001)."""
    for gap in (1750, 701, 301, 132, 57, 23, 10, 4, 1):
        for i in range(gap, len(values) if gap == 1 or gap * 16 < len(values) else 0):
            value, hole = values[i], i
            while hole >= gap and values[hole - gap] > value:
                values[hole] = values[hole - gap]
                hole -= gap
            values[hole] = value


@compiled
def place(distances, ordered, rank):
    """Where the distance of a rank is: of equal ones the first ranks lowest."""
    value, equals = ordered[rank], 0
    while equals < rank and ordered[rank - equals - 1] == value:
        equals += 1
    for i in range(len(ordered)):
        if distances[i] == value:
            if equals == 0:
                return i
            equals -= 1
    return -1


@compiled
def read_rows(
    first_row, last_row, traces, pool, indptr, slots, thresholds, active, low, high, weight, keep,
    near, argmin, centroid, tail, score, action, low_at, high_at, total,
):  # fmt: skip
    """Rows `first_row` to `last_row` of all outputs."""
    work, nnz, start, step = near.dtype.type, len(slots), pool.ctypes.data, pool.shape[1] * pool.itemsize
    zero, one = work(0), work(1)
    scratch, distances, buffer = np.empty(traces.shape[1], work), np.empty(len(low), work), np.empty(len(low), work)
    for b in range(first_row, last_row):
        first, n = indptr[b], indptr[b + 1] - indptr[b]
        trace, sums = traces[b], total[b] if keep else scratch
        sums[:] = 0
        near[b] = centroid[b] = tail[b] = score[b] = 0
        argmin[b] = action[b] = 0
        if keep:
            low_at[b] = high_at[b] = -1
        if not active[b]:
            continue

        along = np.float64(dot(sums, trace, zero))  # 0, but NaN if the trace is not finite
        if first < 0 or n < 0 or first + n > nnz:
            along, n = np.nan, 0
        for i in range(n):
            slot, later = slots[first + i], start + slots[min(first + i + AHEAD, nnz - 1)] * step
            for line in range(0, step, LINE):
                fetch(later + line)
            product = dot_and_add(pool[slot], trace, zero, sums) if 0 <= slot < len(pool) else work(np.nan)
            along += product
            distances[i] = one - product
        length = np.sqrt(dot(sums, sums, zero))

        if not (np.isfinite(along) and np.isfinite(length)):
            near[b] = centroid[b] = tail[b] = score[b] = np.nan
            argmin[b] = -1
            continue
        if n == 0:
            near[b] = centroid[b] = tail[b] = score[b] = np.inf
            argmin[b], action[b] = -1, 1
            continue
        ordered = buffer[:n]
        ordered[:] = distances[:n]
        sort(ordered)
        near[b], argmin[b] = ordered[0], place(distances, ordered, 0)
        centroid[b] = one - work(along) / length if length > 0 else one
        tail[b] = ordered[low[n]] + (ordered[high[n]] - ordered[low[n]]) * work(weight[n])
        if keep:
            low_at[b], high_at[b] = place(distances, ordered, low[n]), place(distances, ordered, high[n])
        tau = thresholds[b % len(thresholds)]
        score[b] = max(min(near[b] / tau[0], centroid[b] / tau[1]), tail[b] / tau[2])
        action[b] = (near[b] >= tau[0] and centroid[b] >= tau[1]) or tail[b] >= tau[2]
