"""Balls to means and covariances: the local Gaussians around every point.

Three ways to go over the balls of a metric, behind one surface (`LocalMeasures`): `row_sweep.RowSweep` recomputes
pairs on the fly in up to three dimensions, `BallLists` keeps neighbour lists in any dimension, `SmoothMeasures` weighs
all points by a smooth kernel. Each is made for one metric, that of some Gaussians (sources, with weights) as seen from
queries, and then gives the means of the balls and the covariances of the moved sources over the same balls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_array

from gaussian_transform._blas import one_blas_thread
from gaussian_transform._kernels.lists import list_covariances, list_means, weighted_covariances, weighted_means
from gaussian_transform._kernels.local_factors import fill_factor, fill_factors
from gaussian_transform._parallel import run_ranges
from gaussian_transform._typing import AnyArray, Factors, FloatArray, Gaussians, IntArray, KeyArray
from gaussian_transform.distances import check_memory, gt_distances, is_within, radius_lists

TIE_TOLERANCE = 1e-9
"""A point is inside a closed ball iff d² ≤ ε²(1 + TIE_TOLERANCE); every engine uses this one rule."""

# Up to this dimension a matrix is about as small as factors are, and simpler.
_DENSE_DIMENSION = 8


class BallMeans(NamedTuple):
    """Where the balls of some queries lead.

    Attributes
    ----------
    shift : array of shape (n_queries, m)
        From each query to the mean of its ball; 0 where the ball holds no mass.
    mass : array of shape (n_queries,)
        Weight of each ball.
    keys : array of shape (n_queries,)
        Sum of the members' random 64-bit keys: queries with the same members have the same one.
    """

    shift: FloatArray
    mass: FloatArray
    keys: KeyArray


class LocalMeasures(Protocol):
    """The localised measures of queries under one metric."""

    def means(self) -> BallMeans:
        """Return the means of all balls."""

    def covariances(self, moved: FloatArray) -> FloatArray | Factors:
        """Return the covariances of the `moved` sources over the same balls, (n_queries, m, m); 0 without mass.

        In many dimensions they may come as factors.
        """


def source_keys(n: int) -> KeyArray:
    """Return a fixed random 64-bit number for each source: the splitmix64 sequence."""
    z = (np.arange(1, n + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Lists(NamedTuple):
    """Members of balls: those of query `i` are ``members[begin[i]:begin[i + 1]]``."""

    begin: IntArray
    members: IntArray

    @classmethod
    def of(cls, graph: csr_array) -> Lists:
        """Return the columns that each row of a sparse matrix stores."""
        return cls(graph.indptr.astype(np.int64), graph.indices.astype(np.int64))


class BallLists:
    """Closed balls in any dimension, from lists of their members: memory O(total size of the balls)."""

    def __init__(
        self,
        lists: Lists,
        sources: Gaussians,
        weights: FloatArray,
        *,
        queries: Gaussians | None = None,
        n_threads: int = 1,
    ) -> None:
        self._begin, self._members = lists
        self._points, self._weights = sources.points, weights
        self._query = (queries or sources).points
        self._n_threads = n_threads

    def means(self) -> BallMeans:
        """Return the means of all balls."""
        n, m = self._query.shape
        shift, mass, ball_keys = np.empty((n, m)), np.empty(n), np.empty(n, np.uint64)
        keys = source_keys(self._weights.size)
        run_ranges(
            lambda start, stop: list_means(
                start, stop, self._begin, self._members, self._query, self._points, self._weights, keys,
                shift, mass, ball_keys,
            ),
            n, n_threads=self._n_threads, grain=256,
        )  # fmt: skip
        return BallMeans(shift, mass, ball_keys)

    def covariances(self, moved: FloatArray) -> FloatArray | Factors:
        """Return the covariances of the `moved` sources over the same balls."""
        n, m = self._query.shape
        if m > _DENSE_DIMENSION:
            # Balls with the same members have the same covariance, which is kept once.
            keys = _sums(source_keys(self._weights.size)[self._members], self._begin)
            _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
            local, distinct = self._local(moved)
            local = local[first]
            if takes_factors(np.diff(local.indptr), n, m):
                return factors_over(local, distinct, self._n_threads)[inverse]
        covariances = _room_for_covariances(n, m)
        mass = _sums(self._weights[self._members], self._begin)
        run_ranges(
            lambda start, stop: list_covariances(
                start, stop, self._begin, self._members, moved, self._weights, mass, covariances
            ),
            n, n_threads=self._n_threads, grain=256,
        )  # fmt: skip
        return covariances

    def _local(self, moved: FloatArray) -> tuple[csr_array, FloatArray]:
        """Return the distinct places of the moved sources, and the weights that each ball has there."""
        rows = np.ascontiguousarray(moved + 0.0).view(f"V{moved.dtype.itemsize * moved.shape[1]}")  # no -0.0
        _, first, place = np.unique(rows.reshape(-1), return_index=True, return_inverse=True)
        shape = self._begin.size - 1, first.size
        # A copy of where rows begin: adding up duplicates writes to it.
        local = csr_array((self._weights[self._members], place[self._members], self._begin.copy()), shape=shape)
        local.sum_duplicates()
        local.eliminate_zeros()
        return local, moved[first]


def takes_factors(counts: IntArray, n: int, m: int) -> bool:
    """Tell whether covariances are kept as factors: the one rule for all ways to take them.

    They are where matrices of more than 8 dimensions would take twice as much memory or more. A measure on N points
    has a factor of N − 1 rows, or of m if these are fewer; `counts` are the N of the distinct ones among n measures.
    """
    return m > _DENSE_DIMENSION and 2 * int(np.clip(counts - 1, 0, m).sum()) <= n * m


def factors_over(local: csr_array, points: FloatArray, n_threads: int) -> Factors:
    """Return factors of the covariances of the points under each row of weights."""
    begin, members = local.indptr.astype(np.int64), local.indices.astype(np.int64)
    m = points.shape[1]
    counts = np.diff(begin)
    rank = np.clip(counts - 1, 0, m)
    row_begin, n_rows = np.cumsum(rank) - rank, int(rank.sum())
    what = f"The {n_rows} rows of the factors of {rank.size} covariances in {m} dimensions"
    check_memory(8 * n_rows * m, what, "use a smaller eps, so that neighbourhoods have fewer points")
    rows = np.empty((n_rows, m))

    def work(start: int, stop: int) -> None:
        fill_factors(start, stop, begin, members, local.data, points, row_begin, rows)
        for i in start + np.flatnonzero(counts[start:stop] > m + 1):
            own = slice(begin[i], begin[i + 1])
            tall = np.empty((counts[i] - 1, m))
            fill_factor(members[own], local.data[own], points, np.empty(m), tall)
            # FᵀF = RᵀR with the square R of F = QR.
            rows[row_begin[i] : row_begin[i] + m] = np.linalg.qr(tall, mode="r")

    with one_blas_thread:
        run_ranges(work, rank.size, n_threads=n_threads, grain=16)
    return Factors(rows, row_begin, rank)


def _room_for_covariances(n: int, m: int) -> FloatArray:
    what = f"The {n} covariances in {m} dimensions"
    check_memory(8 * n * m * m, what, "use a smaller eps, so that neighbourhoods have fewer points than dimensions")
    return np.empty((n, m, m))


def _sums(values: AnyArray, begin: IntArray) -> AnyArray:
    """Return the sums of ``values[begin[i]:begin[i + 1]]``."""
    sums: AnyArray = np.add.reduceat(np.append(values, values.dtype.type(0)), begin[:-1])
    sums[np.diff(begin) == 0] = 0
    return sums


class SmoothMeasures:
    """All points weighed by f(d²/ε²) with a smooth profile f: O(n²) time, memory for a block of rows.

    ``profile`` maps an array of r = d²/ε² to weights, as in the paper's Definition of a multiscale smooth kernel; the
    constant C_m(ε) cancels in means and covariances.
    """

    def __init__(
        self,
        sources: Gaussians,
        weights: FloatArray,
        *,
        eps: float,
        lam: float,
        profile: Callable[[FloatArray], FloatArray],
        queries: Gaussians | None = None,
        n_eig: int | None = None,
        n_threads: int = 1,
    ) -> None:
        self._sources, self._weights = sources, weights
        self._queries = queries or sources
        self._eps, self._lam, self._profile, self._n_eig = eps, lam, profile, n_eig
        self._n_threads = n_threads
        self._center = self._queries.points

    def means(self) -> BallMeans:
        """Return the means of all measures; no two have the same support, so each key is its own."""
        n, m = self._queries.points.shape
        shift, mass = np.empty((n, m)), np.empty(n)
        query, points = self._queries.points, self._sources.points

        def fill(first: int, measure: FloatArray) -> Callable[[int, int], None]:
            return lambda start, stop: weighted_means(
                first + start, first + stop, first, measure, query, points, shift, mass
            )

        self._over_blocks(fill)
        self._center = query + shift
        return BallMeans(shift, mass, source_keys(n))

    def covariances(self, moved: FloatArray) -> FloatArray | Factors:
        """Return the covariances of the `moved` sources under the same measures."""
        n, m = self._queries.points.shape
        if takes_factors(np.full(n, np.count_nonzero(self._weights)), n, m):
            return Factors.concatenate(
                [factors_over(csr_array(measure), moved, self._n_threads) for _, measure in self._blocks()]
            )
        covariances = _room_for_covariances(n, m)

        def fill(first: int, measure: FloatArray) -> Callable[[int, int], None]:
            return lambda start, stop: weighted_covariances(
                first + start, first + stop, first, measure, moved, self._center, covariances
            )

        self._over_blocks(fill)
        return covariances

    def _over_blocks(self, fill: Callable[[int, FloatArray], Callable[[int, int], None]]) -> None:
        """Go over the localised measures in blocks of rows."""
        for first, measure in self._blocks():
            run_ranges(fill(first, measure), len(measure), n_threads=self._n_threads, grain=16)

    def _blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """Yield the localised measures in blocks of rows of at most 64 MiB, and where they begin."""
        n = self._queries.points.shape[0]
        step = max(1, 2**23 // self._weights.size)
        for first in range(0, n, step):
            block = self._queries.take(slice(first, first + step))
            distances = gt_distances(block, self._lam, self._sources, n_eig=self._n_eig, n_jobs=self._n_threads)
            yield first, self._profile((distances / self._eps) ** 2) * self._weights


def lists_by_tree(
    sources: Gaussians, queries: Gaussians | None, *, eps: float, lam: float, n_eig: int | None, n_threads: int
) -> Lists:
    """Return the members of closed balls, candidates from a tree, or from blocks of Euclidean distances."""
    rows, columns = (sources, None) if queries is None else (queries, sources)
    return Lists(*radius_lists(rows, lam, eps, columns, n_eig=n_eig, n_jobs=n_threads))


def lists_by_full_matrix(
    sources: Gaussians, queries: Gaussians | None, *, eps: float, lam: float, n_eig: int | None, n_threads: int
) -> Lists:
    """Return the members of closed balls from the distances of all pairs, in blocks of rows of at most 64 MiB."""
    rows = queries or sources
    n, step = len(rows.points), max(1, 2**23 // len(sources.points))
    counts, members = [np.zeros(1, np.int64)], []
    for first in range(0, n, step):
        block = rows.take(slice(first, first + step))
        distances = gt_distances(block, lam, sources, n_eig=n_eig, n_jobs=n_threads)
        i, j = np.nonzero(distances * distances <= eps * eps * (1.0 + TIE_TOLERANCE))
        counts.append(np.bincount(i, minlength=len(block.points)))
        members.append(j)
    return Lists(np.cumsum(np.concatenate(counts)), np.concatenate(members))


def lists_by_metric(
    base: csr_array,
    sources: Gaussians,
    queries: Gaussians | None,
    *,
    eps: float,
    lam: float,
    n_eig: int | None,
    n_threads: int,
) -> Lists:
    """Return the members of closed balls of d² = d_X² + λ·dcov², from the base distances d_X up to eps."""
    rows = np.repeat(np.arange(base.shape[0]), np.diff(base.indptr))
    columns = base.indices.astype(np.int64)
    here, there = queries or sources, None if queries is None else sources
    is_inside = is_within(here, rows, there, columns, lam, eps, base.data, n_eig=n_eig, n_jobs=n_threads)
    counts = np.bincount(rows[is_inside], minlength=base.shape[0])
    return Lists(np.concatenate([[0], np.cumsum(counts)]), columns[is_inside])


def at_origin(gaussians: Gaussians) -> Gaussians:
    """Return the Gaussians moved to one place, so that only their covariances tell them apart."""
    return Gaussians(np.zeros_like(gaussians.points), gaussians.covariances)
