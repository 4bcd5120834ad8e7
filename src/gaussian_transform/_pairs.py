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

from gaussian_transform._blas import one_blas_thread
from gaussian_transform._factors import PrincipalFactors
from gaussian_transform._kernels.products import (
    align_pairs,
    bound_nuclear_norms,
    compare_rows,
    multiply_pairs,
    square_products,
)
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
_ENTRIES, _ENTRIES_PER_PAIR = 1 << 17, 16
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
    # Most pairs at distance 0 are equal in every bit, which is sooner seen than measured.
    alike = np.flatnonzero((f.traces[i] == g.traces[j]) & (f.rank[i] == g.rank[j]))
    is_same = np.zeros(i.size, np.bool_)
    is_same[alike] = _are_same(f, i[alike], g, j[alike])
    squared[is_same] = 0.0
    rest = np.flatnonzero(~is_same & (sizes > 0))
    blocks = list(_blocks(sizes[rest]))
    n_measured = np.zeros(len(blocks), np.int64)

    def work(block: int, _: int) -> None:
        pairs = rest[slice(*blocks[block])]
        open_to = None if limits is None else limits.at(pairs)
        squared[pairs], n_measured[block] = _block_squared(f, i[pairs], g, j[pairs], n_eig, open_to)

    with one_blas_thread:
        run_ranges(work, len(blocks), n_threads=n_threads, grain=1)
    if tally is not None:
        tally.n_pairs += i.size
        tally.n_measured += int(n_measured.sum())
    return squared


def _are_same(f: PrincipalFactors, i: IntArray, g: PrincipalFactors, j: IntArray) -> BoolArray:
    are_same = np.empty(i.size, np.bool_)
    compare_rows(f, g, i, j, are_same)
    return are_same


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
    near, far = f.take(i), g.take(j)
    rank = np.minimum(near.rank, far.rank)
    for group in _groups(rank, is_open):
        size = int(_rounded(rank[group[:1]])[0])
        if group.size == i.size and products.size == group.size * size * size:  # nothing to bring into shape
            squares = products.reshape(-1, size, size)
        else:
            squares = np.empty((group.size, size, size))
            square_products(group, rank, offset, products, squares)
        squared[group] = _measured_squared(near.take(group), far.take(group), squares, n_eig)
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


def _groups(rank: IntArray, is_chosen: BoolArray) -> Iterator[IntArray]:
    """Yield the chosen pairs by the size of the squares that their products are brought to."""
    chosen = np.flatnonzero(is_chosen)
    if chosen.size:
        size = _rounded(rank[chosen])
        order = np.argsort(size, kind="stable")
        yield from np.split(chosen[order], np.flatnonzero(np.diff(size[order])) + 1)


def _measured_squared(f: PrincipalFactors, g: PrincipalFactors, squares: FloatArray, n_eig: int | None) -> FloatArray:
    """Return the squared distances of as many pairs as there are in `f`, in `g`, and in products brought to squares."""
    values = _singular_values(squares)
    traces = f.traces + g.traces
    squared: FloatArray = np.maximum(traces - 2.0 * values.sum(axis=1), 0.0)
    align_pairs(f, g, np.flatnonzero(squared < _SMALL * traces), squared)
    if n_eig is not None:
        is_equal = squared <= EQUAL * np.maximum(f.traces, g.traces)
        squared += 2.0 * np.sort(values, axis=1)[:, : max(values.shape[1] - n_eig, 0)].sum(axis=1)
        squared[is_equal] = 0.0
    return squared


def _singular_values(squares: FloatArray) -> FloatArray:
    """Return the singular values (p, r), in no order, of matrices of shape (p, r, r)."""
    if squares.shape[1] > _BATCHED_SIZE:
        return np.asarray(np.linalg.svd(squares, compute_uv=False), dtype=np.float64)
    values = np.empty(squares.shape[:2])
    singular_values(squares, values)
    return values
