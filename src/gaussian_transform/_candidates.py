"""Which Gaussians can be within reach of others: searches by a lower bound of the GT distance.

Both searches go by coordinates whose Euclidean distance never exceeds the GT distance. In few dimensions a kd-tree
finds what is near; in many it would visit nearly everything, and products of blocks of coordinates are sooner done.
What they find may be too much by a little, because their rounding must exclude nothing; the callers decide by
distances proper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
from scipy.spatial import cKDTree

from gaussian_transform._blas import one_blas_thread
from gaussian_transform._factors import PrincipalFactors
from gaussian_transform._kernels.products import squared_apart
from gaussian_transform._pairs import EQUAL
from gaussian_transform._parallel import run_ranges
from gaussian_transform._shapes import Comparison, roots_of
from gaussian_transform._typing import FloatArray, IntArray

# Up to this dimension the tree has the entries of Σ^½, beyond only its eigenvalues: with many, a tree prunes nothing.
_ENTRIES_DIMENSION = 5
# Up to this dimension a tree is sooner done than products of blocks (measured).
_TREE_DIMENSION = 15
# Rows of a block that one thread works on at a time.
_ROWS_PER_RANGE = 32
# The tree may see a pair this much too far away, relative to the distance and to the largest coordinate (rounding).
_SLACK, _ROUNDING = 1e-6, 1e-11


class Candidates(NamedTuple):
    """The targets that may be within reach of the queries ``start:stop``.

    Attributes
    ----------
    start, stop : int
        The queries.
    counts : array of shape (stop - start,)
        How many candidates each has.
    found : array of shape (n_candidates,)
        The candidates of one query after those of the other, sorted.
    lower : array of shape (n_candidates,)
        Lower bounds of their squared distances, in scaled units.
    """

    start: int
    stop: int
    counts: IntArray
    found: IntArray
    lower: FloatArray

    @property
    def rows(self) -> IntArray:
        """The query of each candidate."""
        return np.repeat(np.arange(self.start, self.stop), self.counts)


class Search(Protocol):
    """Lower bounds of the distances from queries to targets."""

    @property
    def n_at_once(self) -> int:
        """For how many queries to search at a time."""

    def first(self, start: int, stop: int, k: int) -> IntArray:
        """Return `k` targets with the lowest bounds for the queries ``start:stop``, shape (stop - start, k)."""

    def count(self, radius: float) -> int:
        """Return about how many candidates all queries have within one radius, no fewer than there are."""

    def within(self, start: int, stop: int, radii: FloatArray) -> Iterator[Candidates]:
        """Yield the targets within a radius of each of the queries ``start:stop``, so many at a time as fit."""


def search_for(c: Comparison, most: int, n_threads: int, base: FloatArray | None = None) -> Search:
    """Return the search for a comparison, with about `most` candidates at a time.

    `base` are distances of shape (n, n2) that take the place of those between the points.
    """
    if base is not None:
        return _BaseSearch(c, most, n_threads, base)
    return (_TreeSearch if c.x.shape[1] <= _TREE_DIMENSION else _BlockSearch)(c, most, n_threads)


def with_roots(x: FloatArray, shapes: FloatArray | PrincipalFactors | None, weight: float, m: int) -> FloatArray:
    """Return the first `m` coordinates of `x` followed by the distinct entries of √weight·Σ^½."""
    n = x.shape[0]
    rows, columns = np.triu_indices(m)
    out = np.zeros((n, m + rows.size))
    out[:, :m] = x[:, :m]
    if shapes is not None:
        factor = np.sqrt(weight) * np.where(rows == columns, 1.0, np.sqrt(2.0))
        np.multiply(roots_of(shapes)[:, rows, columns], factor, out=out[:, m:])
    return out


def _bound_coordinates(c: Comparison) -> tuple[FloatArray, FloatArray]:
    """Return coordinates of queries and targets whose Euclidean distance never exceeds the GT distance.

    ‖A^½ − B^½‖² ≤ 2 dcov², and ‖√a − √b‖² ≤ dcov² for the sorted eigenvalues a, b of A, B.
    """
    m = c.x.shape[1]
    if c.f is None:
        return c.x, c.y
    if m <= _ENTRIES_DIMENSION:
        targets = with_roots(c.y, c.g, 0.5 * c.lam, m)
        return (targets if c.is_symmetric else with_roots(c.x, c.f, 0.5 * c.lam, m)), targets
    deviations, targets = _deviations(c)
    targets = np.hstack([c.y, targets])
    return (targets if c.is_symmetric else np.hstack([c.x, deviations])), targets


def _deviations(c: Comparison) -> tuple[FloatArray, FloatArray]:
    """Return the sorted roots of the eigenvalues times √λ, both with the same number of columns."""
    if not (isinstance(c.f, PrincipalFactors) and isinstance(c.g, PrincipalFactors)):
        return np.empty((c.x.shape[0], 0)), np.empty((c.y.shape[0], 0))
    f, g = c.f.deviations(), c.g.deviations()
    n_columns = max(f.shape[1], g.shape[1])
    f, g = (np.sqrt(c.lam) * np.pad(given, ((0, 0), (0, n_columns - given.shape[1]))) for given in (f, g))
    return f, g


def _allowance_squared(c: Comparison) -> float:
    """By how much a bound may exceed the squared distance.

    Deviations are rounded, and truncated traces take nearly equal covariances for equal.
    """
    if not (isinstance(c.f, PrincipalFactors) and isinstance(c.g, PrincipalFactors)):
        return 0.0
    return 2.0 * EQUAL * c.lam * max(float(np.max(given.traces, initial=0.0)) for given in (c.f, c.g))


class _TreeSearch:
    """Candidates by a kd-tree."""

    def __init__(self, c: Comparison, most: int, n_threads: int) -> None:
        self._queries, self._targets = _bound_coordinates(c)
        self._tree = cKDTree(self._targets)
        self._most, self._n_threads = most, n_threads
        largest = max(float(np.max(np.abs(given), initial=0.0)) for given in (self._queries, self._targets))
        self._rounding = _ROUNDING * largest
        self._allowance = _allowance_squared(c)
        self.n_at_once = max(1, len(self._queries))

    def first(self, start: int, stop: int, k: int) -> IntArray:
        found = self._tree.query(self._queries[start:stop], k=[*range(1, k + 1)], workers=self._n_threads)[1]
        return np.asarray(found, dtype=np.int64)

    def count(self, radius: float) -> int:
        n = len(self._queries)
        return int(self._counts(0, n, self._widened(np.full(n, radius))).sum())

    def within(self, start: int, stop: int, radii: FloatArray) -> Iterator[Candidates]:
        radii = self._widened(radii)
        counts = self._counts(start, stop, radii)
        begin = 0
        while begin < counts.size:
            ends = np.cumsum(counts[begin : begin + self._most])
            end = begin + max(1, int(np.searchsorted(ends, self._most, side="right")))
            rows = slice(start + begin, start + end)
            lists = self._tree.query_ball_point(
                self._queries[rows], radii[begin:end], workers=self._n_threads, return_sorted=True
            )
            found = np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=int(ends[end - begin - 1]))
            yield self._bounded(rows.start, rows.stop, counts[begin:end], found)
            begin = end

    def _bounded(self, start: int, stop: int, counts: IntArray, found: IntArray) -> Candidates:
        candidates = Candidates(start, stop, counts, found, np.empty(found.size))
        rows = candidates.rows

        def work(first: int, last: int) -> None:
            out = candidates.lower[first:last]
            squared_apart(self._queries, rows[first:last], self._targets, found[first:last], out)

        run_ranges(work, found.size, n_threads=self._n_threads, grain=1 << 15)
        lengths = np.sqrt(candidates.lower) * (1.0 - _SLACK) - self._rounding
        lower = np.square(np.maximum(lengths, 0.0)) - self._allowance
        return candidates._replace(lower=lower)

    def _widened(self, radii: FloatArray) -> FloatArray:
        return np.sqrt(np.square(radii) + self._allowance) * (1.0 + _SLACK) + self._rounding

    def _counts(self, start: int, stop: int, radii: FloatArray) -> IntArray:
        counts = self._tree.query_ball_point(
            self._queries[start:stop], radii, workers=self._n_threads, return_length=True
        )
        return np.asarray(counts, dtype=np.int64).reshape(stop - start)


class _MatrixSearch:
    """Candidates by the lower bounds of all pairs, a block of rows at a time."""

    def __init__(self, n: int, n2: int, most: int, n_threads: int) -> None:
        self._n, self._n2 = n, n2
        self._n_threads = n_threads
        self.n_at_once = max(1, most // max(1, n2))
        self._block: tuple[int, int, FloatArray] | None = None

    def _fill(self, start: int, stop: int, lower: FloatArray) -> None:
        """Write lower bounds of the squared distances of the queries ``start:stop`` to all targets."""
        raise NotImplementedError

    def first(self, start: int, stop: int, k: int) -> IntArray:
        lower = self._rows(start, stop)
        found = np.empty((stop - start, k), np.int64)

        def work(first: int, last: int) -> None:
            found[first:last] = np.argpartition(lower[first:last], k - 1, axis=1)[:, :k]

        self._run(work, stop - start)
        return found

    def count(self, radius: float) -> int:
        blocks = self._ranges(0, self._n)
        return sum(int(np.count_nonzero(self._rows(*block) <= radius * radius)) for block in blocks)

    def within(self, start: int, stop: int, radii: FloatArray) -> Iterator[Candidates]:
        for first, last in self._ranges(start, stop):
            lower = self._rows(first, last)
            is_near = lower <= np.square(radii[first - start : last - start, None])
            yield Candidates(first, last, is_near.sum(axis=1), np.nonzero(is_near)[1], lower[is_near])

    def _ranges(self, start: int, stop: int) -> list[tuple[int, int]]:
        return [(first, min(first + self.n_at_once, stop)) for first in range(start, stop, self.n_at_once)]

    def _rows(self, start: int, stop: int) -> FloatArray:
        """Return the bounds of some rows, the last ones from memory."""
        if self._block is None or self._block[:2] != (start, stop):
            lower = np.empty((stop - start, self._n2))
            self._run(lambda first, last: self._fill(start + first, start + last, lower[first:last]), stop - start)
            self._block = start, stop, lower
        return self._block[2]

    def _run(self, work: Callable[[int, int], None], n: int) -> None:
        with one_blas_thread:
            run_ranges(work, n, n_threads=self._n_threads, grain=_ROWS_PER_RANGE)


class _BlockSearch(_MatrixSearch):
    """Lower bounds ‖u‖² + ‖v‖² − 2u·v of coordinates, less than what rounding can have added."""

    def __init__(self, c: Comparison, most: int, n_threads: int) -> None:
        super().__init__(c.x.shape[0], c.y.shape[0], most, n_threads)
        queries, targets = _bound_coordinates(c)
        center = targets.mean(axis=0) if len(targets) else 0.0
        self._targets = targets - center
        self._queries = self._targets if c.is_symmetric else queries - center
        # Four times the worst case of a sum of so many products.
        self._safety = 1.0 - 4.0 * (targets.shape[1] + 4) * float(np.finfo(np.float64).eps)
        self._norms = self._safety * np.einsum("ij,ij->i", self._targets, self._targets)
        self._allowance = _allowance_squared(c)

    def _fill(self, start: int, stop: int, lower: FloatArray) -> None:
        queries = self._queries[start:stop]
        np.matmul(-2.0 * queries, self._targets.T, out=lower)
        lower += self._safety * np.einsum("ij,ij->i", queries, queries)[:, None]
        lower += self._norms - self._allowance


class _BaseSearch(_MatrixSearch):
    """Lower bounds d_X² + λ·‖√a − √b‖² from given distances and sorted eigenvalues."""

    def __init__(self, c: Comparison, most: int, n_threads: int, base: FloatArray) -> None:
        super().__init__(base.shape[0], base.shape[1], most, n_threads)
        self._base = base
        self._exponent = c.exponent
        self._queries, self._targets = _deviations(c)
        self._allowance = _allowance_squared(c)

    def _fill(self, start: int, stop: int, lower: FloatArray) -> None:
        np.square(np.ldexp(self._base[start:stop], self._exponent), out=lower)
        for column, others in zip(self._queries[start:stop].T, self._targets.T, strict=True):
            lower += np.square(column[:, None] - others)
        lower *= 1.0 - _ROUNDING
        lower -= self._allowance
