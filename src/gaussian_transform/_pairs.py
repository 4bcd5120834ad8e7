"""Squared Bures distances of listed pairs of covariances from their principal factors, in any dimension.

dcov² = tr A + tr B − 2‖F Gᵀ‖_* with the nuclear norm of a product as small as the two ranks are. Where it only matters
on which side of a limit the distance is, bounds of the nuclear norm decide most pairs, and singular values only the
others. What comes out for a pair does not depend on the other pairs, nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gaussian_transform._factors import STACK_BYTES, PrincipalFactors
from gaussian_transform._kernels.products import bound_nuclear_norms, multiply_pairs, pad_products, triangulate
from gaussian_transform._kernels.singular import singular_values
from gaussian_transform._parallel import run_ranges
from gaussian_transform._typing import BoolArray, FloatArray, IntArray

EQUAL = 1e-12
"""Covariances count as equal for a truncated trace where dcov² is at most this share of the larger trace."""

# Below this fraction of the traces the difference of traces has lost digits and is taken by aligned factors instead.
_SMALL = 1e-3
# Up to this size our kernel for many matrices at a time finds singular values sooner than LAPACK (measured).
_BATCHED_SIZE = 200
# Entries of products that one thread works on at a time, and what a pair counts for itself.
_ENTRIES, _ENTRIES_PER_PAIR = 1 << 16, 16
# A bound that is this close to the limit, relative to what went into both, does not decide.
_UNDECIDED = 1e-10


@dataclass
class Tally:
    """How many pairs were looked at, and how many of them needed singular values."""

    n_pairs: int = 0
    n_measured: int = 0


class Limits(NamedTuple):
    """What has to be known of each pair: on which side of a limit λ·dcov² is, and below it perhaps how large it is.

    Attributes
    ----------
    lam : float
        The weight of dcov².
    most : array of shape (n_pairs,)
        Beyond this limit of λ·dcov² any number beyond will do.
    scale : array of shape (n_pairs,)
        How large the numbers were that the limit was computed from.
    is_membership : bool
        Whether below the limit, too, any number will do.
    """

    lam: float
    most: FloatArray
    scale: FloatArray
    is_membership: bool

    def at(self, index: IntArray) -> Limits:
        """Return the limits of some of the pairs."""
        return self._replace(most=self.most[index], scale=self.scale[index])


def bures_squared(
    f: PrincipalFactors,
    i: IntArray,
    g: PrincipalFactors,
    j: IntArray,
    *,
    n_eig: int | None,
    n_threads: int,
    limits: Limits | None = None,
    tally: Tally | None = None,
) -> FloatArray:
    """Return dcov² of the pairs (i[p] of `f`, j[p] of `g`), as far as the `limits` ask for it.

    With `n_eig` the nuclear norm is cut off after so many singular values, and covariances that are equal to rounding
    (`EQUAL`) are at distance 0.
    """
    squared = f.traces[i] + g.traces[j]
    sizes = f.rank[i] * g.rank[j]
    is_shared = (f.begin[i] == g.begin[j]) & (f.rank[i] == g.rank[j]) & (f.rows is g.rows)
    squared[is_shared] = 0.0
    rest = np.flatnonzero(~is_shared & (sizes > 0))
    blocks = list(_blocks(sizes[rest]))
    n_measured = np.zeros(len(blocks), np.int64)

    def work(block: int, _: int) -> None:
        pairs = rest[slice(*blocks[block])]
        open_to = None if limits is None else limits.at(pairs)
        squared[pairs], n_measured[block] = _block_squared(f, i[pairs], g, j[pairs], n_eig, open_to)

    run_ranges(work, len(blocks), n_threads=n_threads, grain=1)
    if tally is not None:
        tally.n_pairs += i.size
        tally.n_measured += int(n_measured.sum())
    return squared


def _blocks(sizes: IntArray) -> Iterator[tuple[int, int]]:
    """Yield ranges of pairs whose products have about `_ENTRIES` entries together."""
    number = np.cumsum(sizes + _ENTRIES_PER_PAIR) // _ENTRIES
    ends = [*(np.flatnonzero(np.diff(number)) + 1).tolist(), sizes.size]
    start = 0
    for stop in ends:
        if stop > start:
            yield start, stop
        start = stop


def _block_squared(
    f: PrincipalFactors, i: IntArray, g: PrincipalFactors, j: IntArray, n_eig: int | None, limits: Limits | None
) -> tuple[FloatArray, int]:
    """Return the squared distances of a few pairs, and how many of them needed singular values."""
    offset = np.concatenate([[0], np.cumsum(f.rank[i] * g.rank[j])])
    products = np.empty(offset[-1])
    multiply_pairs(f, g, i, j, offset, products)
    squared = np.empty(i.size)
    is_open = np.ones(i.size, np.bool_)
    if limits is not None:
        norms = np.empty((2, i.size))
        bound_nuclear_norms(f, g, i, j, offset, products, norms[0], norms[1])
        squared, is_open = _decide(f.traces[i], g.traces[j], norms[0], norms[1], n_eig, limits)
    for group in _groups(f.rank[i], g.rank[j], is_open):
        pair = _Products.of(f, i, g, j, offset, products, group)
        squared[group] = _measured_squared(pair, n_eig)
    return squared, int(np.count_nonzero(is_open))


def _decide(
    trace_f: FloatArray, trace_g: FloatArray, least: FloatArray, most: FloatArray, n_eig: int | None, limits: Limits
) -> tuple[FloatArray, BoolArray]:
    """Return bounds of dcov² on the side of the limit that it is on, and where it is not clear which that is.

    Nuclear norms from `least` to `most` give two bounds; and dcov² ≥ ‖A^½ − B^½‖²/2, which is at least half the upper
    one because `least` is no less than the trace of A^½B^½.
    """
    traces = trace_f + trace_g
    slack = _UNDECIDED * (limits.lam * traces + limits.scale)
    above = traces - 2.0 * least
    below = np.maximum(traces - 2.0 * most, 0.5 * above)
    is_outside = limits.lam * below > limits.most + slack
    if n_eig is not None:
        # Equal ones are nearer than any bound says.
        is_outside &= below > 2.0 * EQUAL * traces
    if not limits.is_membership or n_eig is not None:
        return below, ~is_outside
    is_inside = limits.lam * above < limits.most - slack
    return np.where(is_inside, above, below), ~(is_inside | is_outside)


def _rounded(size: IntArray) -> IntArray:
    """Round sizes of matrices up to three leading binary digits, so that few different ones remain."""
    step = 2 ** np.maximum(0, np.log2(size).astype(np.int64) - 2)
    rounded: IntArray = (size + step - 1) // step * step
    return rounded


def _groups(rank_f: IntArray, rank_g: IntArray, is_chosen: BoolArray) -> Iterator[IntArray]:
    """Yield the chosen pairs by the size and the orientation of their products."""
    chosen = np.flatnonzero(is_chosen)
    fewer, more = _rounded(np.minimum(rank_f, rank_g)[chosen]), _rounded(np.maximum(rank_f, rank_g)[chosen])
    key = (fewer << 32) + (more << 1) + (rank_f > rank_g)[chosen]
    order = np.argsort(key, kind="stable")
    yield from np.split(chosen[order], np.flatnonzero(np.diff(key[order])) + 1) if chosen.size else []


class _Products(NamedTuple):
    """Pairs with products of one size: `f` has fewer rows than `g`, or as many."""

    f: PrincipalFactors
    g: PrincipalFactors
    stack: FloatArray

    @classmethod
    def of(
        cls,
        f: PrincipalFactors,
        i: IntArray,
        g: PrincipalFactors,
        j: IntArray,
        offset: IntArray,
        products: FloatArray,
        group: IntArray,
    ) -> _Products:
        """Return the pairs of a group with their products filled up by zeros to one size."""
        near, far = f.take(i[group]), g.take(j[group])
        if near.rank[0] > far.rank[0]:
            near, far = far, near
        shape = group.size, int(_rounded(near.rank[:1])[0]), int(_rounded(far.rank[:1])[0])
        if group.size == i.size and products.size == np.prod(shape):  # all pairs, and nothing to fill up
            return cls(near, far, products.reshape(shape))
        stack = np.empty(shape)
        pad_products(group, offset, products, np.minimum(f.rank[i], g.rank[j]), stack)
        return cls(near, far, stack)


def _measured_squared(pair: _Products, n_eig: int | None) -> FloatArray:
    """Return the squared distances of a group, from singular values."""
    values = _singular_values(pair.stack)
    traces = pair.f.traces + pair.g.traces
    squared: FloatArray = np.maximum(traces - 2.0 * values.sum(axis=1), 0.0)
    small = np.flatnonzero(squared < _SMALL * traces)
    step = max(1, STACK_BYTES // (32 * sum(pair.stack.shape[1:]) * pair.f.rows.shape[1]))
    for start in range(0, small.size, step):
        near = small[start : start + step]
        squared[near] = _aligned_squared(pair, near)
    if n_eig is not None:
        is_equal = squared <= EQUAL * np.maximum(pair.f.traces, pair.g.traces)
        squared += 2.0 * np.sort(values, axis=1)[:, : max(values.shape[1] - n_eig, 0)].sum(axis=1)
        squared[is_equal] = 0.0
    return squared


def _singular_values(stack: FloatArray) -> FloatArray:
    """Return the singular values (p, r), in no order, of matrices of shape (p, r, s) with r ≤ s."""
    p, r, s = stack.shape
    if r > _BATCHED_SIZE:
        return np.asarray(np.linalg.svd(stack, compute_uv=False), dtype=np.float64)
    if r < s:
        square = np.empty((p, r, r))
        triangulate(stack.copy(), square)
        stack = square
    values = np.empty((p, r))
    singular_values(stack, values)
    return values


def _aligned_squared(pair: _Products, near: IntArray) -> FloatArray:
    """Return dcov² = ‖WᵀF − VᵀG‖² with F Gᵀ = W S Vᵀ: this keeps the digits that the difference of traces loses."""
    f = _filled(pair.f, near, pair.stack.shape[1])
    g = _filled(pair.g, near, pair.stack.shape[2])
    left, _, right = np.linalg.svd(pair.stack[near])
    apart = right @ g
    apart[:, : f.shape[1]] -= np.swapaxes(left, 1, 2) @ f
    squared = np.sum(np.square(apart).reshape(near.size, -1), axis=1)
    if f.shape == g.shape:
        squared[np.all(f == g, axis=(1, 2))] = 0.0
    return np.asarray(squared, dtype=np.float64)


def _filled(factors: PrincipalFactors, chosen: IntArray, n_rows: int) -> FloatArray:
    """Return some factors as an array of shape (n_chosen, n_rows, m), filled up by rows of zeros."""
    number = np.arange(n_rows)
    is_row = number < factors.rank[chosen, None]
    rows = factors.rows[np.where(is_row, factors.begin[chosen, None] + number, 0)]
    rows[~is_row] = 0.0
    return rows
