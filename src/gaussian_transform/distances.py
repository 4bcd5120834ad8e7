"""GT distances between sets of Gaussians: d² = ‖x−x'‖² + λ·dcov²(Σ, Σ'), dense, sparse and to the nearest.

The sparse ones find their candidates by a lower bound of d (`_candidates`) and then decide by d itself, of which bounds
tell enough for most pairs. Inputs are taken as valid: finite points, positive semi-definite covariances, λ ≥ 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from gaussian_transform._candidates import Candidates, Search, search_for, with_roots
from gaussian_transform._pairs import Tally
from gaussian_transform._parallel import effective_n_jobs
from gaussian_transform._shapes import Comparison, check_memory, compare, fill_distances, squared_between
from gaussian_transform._typing import BoolArray, FloatArray, Gaussians, IntArray

__all__ = [
    "check_memory",
    "condensed_gt_distances",
    "gt_distances",
    "gt_squared_between",
    "hellinger_embedding",
    "is_within",
    "nearest",
    "radius_graph",
    "radius_lists",
]

# Inside a ball iff d² ≤ r²(1 + 1e-9).
_TIE = 1e-9
# Candidate pairs worked on at a time.
_CANDIDATES = 1 << 20
_REMEDY = "use neighbors_graph for the pairs within a radius or single linkage, which need no matrix"


def gt_distances(
    a: Gaussians, lam: float, b: Gaussians | None = None, *, n_eig: int | None = None, n_jobs: int | None = None
) -> FloatArray:
    """Return the GT distances d = √(‖x−x'‖² + λ·dcov²) between all Gaussians of one set, or of two.

    Parameters
    ----------
    a, b : Gaussians
        Points (n, m) with covariances (n, m, m); without `b` all pairs of `a`.
    lam : float
        The paper's λ.
    n_eig : int, optional
        How many eigenvalues the trace in dcov keeps; all by default.
    n_jobs : int, optional
        Number of threads.

    Returns
    -------
    array of shape (n, n2)
        The distances; without `b` exactly symmetric with a diagonal of exact zeros.

    Examples
    --------
    >>> a = Gaussians(np.array([[0.0, 0.0], [3.0, 0.0]]), np.array([np.eye(2), np.zeros((2, 2))]))
    >>> gt_distances(a, lam=8.0)
    array([[0., 5.],
           [5., 0.]])
    """
    n_threads = effective_n_jobs(n_jobs)
    n, n2 = a.points.shape[0], (a if b is None else b).points.shape[0]
    check_memory(8 * n * n2, f"The {n} x {n2} matrix of distances", _REMEDY)
    out = np.empty((n, n2))
    fill_distances(compare(a, lam, b, n_eig=n_eig, n_threads=n_threads), out, n_threads=n_threads)
    return out


def condensed_gt_distances(
    a: Gaussians, lam: float, *, n_eig: int | None = None, n_jobs: int | None = None
) -> FloatArray:
    """Return the GT distances of all pairs in the order of `scipy.spatial.distance.pdist`, shape (n(n−1)/2,).

    Examples
    --------
    >>> a = Gaussians(np.array([[0.0], [3.0], [4.0]]), np.zeros((3, 1, 1)))
    >>> condensed_gt_distances(a, lam=1.0)
    array([3., 4., 1.])
    """
    n_threads = effective_n_jobs(n_jobs)
    n = a.points.shape[0]
    n_pairs = n * (n - 1) // 2
    check_memory(8 * n_pairs, f"The condensed matrix of {n_pairs} distances", _REMEDY)
    out = np.empty(n_pairs)
    fill_distances(compare(a, lam, n_eig=n_eig, n_threads=n_threads), out, n_threads=n_threads)
    return out


def gt_squared_between(
    a: Gaussians,
    i: IntArray,
    b: Gaussians | None,
    j: IntArray,
    lam: float,
    *,
    n_eig: int | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    """Return the squared GT distances of the pairs (i[p] of `a`, j[p] of `b`); None for `b` means `a` itself.

    Examples
    --------
    >>> a = Gaussians(np.array([[0.0], [3.0], [4.0]]), np.zeros((3, 1, 1)))
    >>> gt_squared_between(a, np.array([0, 1]), None, np.array([2, 2]), lam=1.0)
    array([16.,  1.])
    """
    n_threads = effective_n_jobs(n_jobs)
    c = compare(a, lam, b, n_eig=n_eig, n_threads=n_threads)
    first, second = np.array(i, dtype=np.int64), np.array(j, dtype=np.int64)
    return np.ldexp(squared_between(c, first, second, n_threads=n_threads), -2 * c.exponent)


def hellinger_embedding(a: Gaussians, lam: float) -> FloatArray:
    """Return points (x, √λ·vec Σ^½) whose Euclidean distance E satisfies d ≤ E ≤ √2·d, with E = d where Σ commute.

    Parameters
    ----------
    a : Gaussians
        Points (n, m) with covariances (n, m, m).
    lam : float
        The paper's λ.

    Returns
    -------
    array of shape (n, m + m(m+1)/2)
        The point, the diagonal and above of √λ·Σ^½ row by row, the entries off the diagonal times √2.

    Examples
    --------
    >>> hellinger_embedding(Gaussians(np.array([[1.0, 2.0]]), np.array([[[4.0, 0.0], [0.0, 9.0]]])), lam=4.0)
    array([[1., 2., 4., 0., 6.]])
    """
    n, m = a.points.shape
    check_memory(
        3 * 8 * n * m * m,
        f"The embedding of {n} Gaussians in {m} dimensions",
        "use neighbors_graph, kneighbors or linkage, which need no embedding",
    )
    c = compare(a, lam)
    coordinates = with_roots(c.x, c.f, c.lam, m)
    return np.hstack([a.points, np.ldexp(coordinates[:, m:], -c.exponent)])


def radius_graph(
    a: Gaussians,
    lam: float,
    radius: float,
    b: Gaussians | None = None,
    *,
    n_eig: int | None = None,
    n_jobs: int | None = None,
) -> csr_array:
    """Return the sparse matrix of all GT distances with d² ≤ radius²(1 + 1e-9).

    Parameters
    ----------
    a, b : Gaussians
        Points (n, m) with covariances (n, m, m); without `b` all pairs of `a`.
    lam : float
        The paper's λ.
    radius : float
        Pairs farther apart are left out.
    n_eig : int, optional
        How many eigenvalues the trace in dcov keeps; all by default.
    n_jobs : int, optional
        Number of threads.

    Returns
    -------
    csr_array of shape (n, n2)
        Distances with sorted indices; zeros, the diagonal among them, are stored.

    Examples
    --------
    >>> a = Gaussians(np.array([[0.0], [3.0], [4.0]]), np.zeros((3, 1, 1)))
    >>> radius_graph(a, lam=1.0, radius=1.0).indices
    array([0, 1, 2, 1, 2], dtype=int32)
    """
    n_threads = effective_n_jobs(n_jobs)
    ball = _Ball.of(compare(a, lam, b, n_eig=n_eig, n_threads=n_threads), radius, n_threads)
    n, n2 = ball.c.x.shape[0], ball.c.y.shape[0]
    n_candidates = ball.search.count(ball.radius)
    index_type = np.int32 if max(n_candidates, n2) < 2**31 else np.int64
    check_memory(
        (8 + np.dtype(index_type).itemsize) * n_candidates,
        f"The graph of up to {n_candidates} pairs within radius {radius:g}",
        "use a smaller radius, or single linkage, which needs no graph",
    )
    # Pages that nothing is written to are never taken, so the arrays cost what the graph has.
    indices, data = np.empty(n_candidates, dtype=index_type), np.empty(n_candidates)
    row_ends = np.zeros(n + 1, dtype=index_type)
    end = 0
    for candidates, squared, is_inside in ball.members(is_membership=False):
        counts = np.bincount(candidates.rows[is_inside] - candidates.start, minlength=candidates.counts.size)
        row_ends[candidates.start + 1 : candidates.stop + 1] = end + np.cumsum(counts)
        n_inside = int(row_ends[candidates.stop]) - end
        indices[end : end + n_inside] = candidates.found[is_inside]
        np.multiply(np.sqrt(squared[is_inside]), ball.c.unit, out=data[end : end + n_inside])
        end += n_inside
    indices.resize(end, refcheck=False)
    data.resize(end, refcheck=False)
    graph = csr_array((data, indices, row_ends), shape=(n, n2))
    graph.has_sorted_indices = True
    return graph


def radius_lists(
    a: Gaussians,
    lam: float,
    radius: float,
    b: Gaussians | None = None,
    *,
    n_eig: int | None = None,
    n_jobs: int | None = None,
) -> tuple[IntArray, IntArray]:
    """Return which Gaussians are in the closed balls: those of ball i are ``members[begin[i]:begin[i + 1]]``.

    The same pairs as in `radius_graph`, whose parameters these are, without their distances: bounds of the distance
    decide most of them.

    Examples
    --------
    >>> a = Gaussians(np.array([[0.0], [3.0], [4.0]]), np.zeros((3, 1, 1)))
    >>> radius_lists(a, lam=1.0, radius=1.0)
    (array([0, 1, 3, 5]), array([0, 1, 2, 1, 2]))
    """
    n_threads = effective_n_jobs(n_jobs)
    ball = _Ball.of(compare(a, lam, b, n_eig=n_eig, n_threads=n_threads), radius, n_threads)
    counts, members = [np.zeros(1, np.int64)], [np.empty(0, np.int64)]
    for candidates, _, is_inside in ball.members(is_membership=True):
        rows = candidates.rows[is_inside] - candidates.start
        counts.append(np.bincount(rows, minlength=candidates.counts.size))
        members.append(candidates.found[is_inside])
    return np.cumsum(np.concatenate(counts)), np.concatenate(members)


class _Ball(NamedTuple):
    """Closed balls of one radius, in scaled units."""

    c: Comparison
    search: Search
    radius: float
    n_threads: int

    @classmethod
    def of(cls, c: Comparison, radius: float, n_threads: int) -> _Ball:
        # No scaled distance reaches 2**300, so a larger radius holds everything.
        scaled_radius = float(min(np.ldexp(radius, c.exponent), 2.0**300))
        return cls(c, search_for(c, _CANDIDATES, n_threads), scaled_radius * np.sqrt(1.0 + _TIE), n_threads)

    def members(self, *, is_membership: bool) -> Iterator[tuple[Candidates, FloatArray, BoolArray]]:
        """Yield candidates with their squared distances, as exact as asked for, and whether they are inside."""
        n, limit = self.c.x.shape[0], self.radius * self.radius
        for candidates in self.search.within(0, n, np.full(n, self.radius)):
            squared = squared_between(
                self.c, candidates.rows, candidates.found, n_threads=self.n_threads,
                limits=np.full(candidates.found.size, limit), is_membership=is_membership,
            )  # fmt: skip
            yield candidates, squared, squared <= limit


def is_within(
    a: Gaussians,
    i: IntArray,
    b: Gaussians | None,
    j: IntArray,
    lam: float,
    radius: float,
    base: FloatArray,
    *,
    n_eig: int | None = None,
    n_jobs: int | None = None,
) -> BoolArray:
    """Tell for the pairs (i[p] of `a`, j[p] of `b`) whether base[p]² + λ·dcov² ≤ radius²(1 + 1e-9).

    None for `b` means `a` itself; the distances `base` take the place of those between the points.

    Examples
    --------
    >>> a = Gaussians(np.zeros((2, 1)), np.array([[[1.0]], [[4.0]]]))
    >>> is_within(a, np.array([0, 0]), None, np.array([0, 1]), lam=9.0, radius=5.0, base=np.array([5.0, 4.1]))
    array([ True, False])
    """
    n_threads = effective_n_jobs(n_jobs)
    largest = max(float(np.max(base, initial=0.0)), radius)
    c = compare(
        _at_origin(a), lam, None if b is None else _at_origin(b), n_eig=n_eig, n_threads=n_threads, largest=largest
    )
    limits = np.full(i.size, np.ldexp(radius, c.exponent) ** 2 * (1.0 + _TIE))
    base_squared = np.square(np.ldexp(base, c.exponent))
    squared = squared_between(
        c, i, j, n_threads=n_threads, base_squared=base_squared, limits=limits, is_membership=True
    )
    return squared <= limits


def _at_origin(gaussians: Gaussians) -> Gaussians:
    return Gaussians(np.zeros_like(gaussians.points), gaussians.covariances)


def nearest(
    a: Gaussians,
    lam: float,
    queries: Gaussians,
    k: int,
    *,
    base: FloatArray | None = None,
    n_eig: int | None = None,
    n_jobs: int | None = None,
    tally: Tally | None = None,
) -> tuple[FloatArray, IntArray]:
    """Return the `k` Gaussians of `a` nearest to each of `queries` in GT distance, exactly, nearest first.

    Candidates come in the order of a lower bound of the distance, until no closer one can come.

    Parameters
    ----------
    a, queries : Gaussians
        Points (n, m) with covariances (n, m, m).
    lam : float
        The paper's λ.
    k : int
        How many, at most n.
    base : array of shape (n_queries, n), optional
        Distances that take the place of those between the points: d² = base² + λ·dcov².
    n_eig : int, optional
        How many eigenvalues the trace in dcov keeps; all by default.
    n_jobs : int, optional
        Number of threads.
    tally : Tally, optional
        Adds up how many pairs were looked at and how many of them needed singular values.

    Returns
    -------
    distances, indices : arrays of shape (n_queries, k)
        Of equal distances the lower index comes first.

    Examples
    --------
    >>> a = Gaussians(np.array([[0.0], [3.0], [4.0]]), np.zeros((3, 1, 1)))
    >>> nearest(a, 1.0, Gaussians(np.array([[3.5]]), np.zeros((1, 1, 1))), k=2)
    (array([[0.5, 0.5]]), array([[1, 2]]))
    """
    n, n_queries = a.points.shape[0], queries.points.shape[0]
    if not 1 <= k <= n:
        raise ValueError(f"k must be from 1 to the number of Gaussians {n} but is {k}; ask for no more than there are.")
    n_threads = effective_n_jobs(n_jobs)
    other, largest = None if queries is a else a, 0.0
    if base is not None:
        queries, largest = _at_origin(queries), float(np.max(base, initial=0.0))
        other = None if other is None else _at_origin(other)
    c = compare(queries, lam, other, n_eig=n_eig, n_threads=n_threads, largest=largest)
    measure = _Measure(c, base, n_threads, tally)
    search = search_for(c, _CANDIDATES, n_threads, base)
    distances, indices = np.empty((n_queries, k)), np.empty((n_queries, k), dtype=np.int64)
    for start in range(0, n_queries, search.n_at_once):
        stop = min(start + search.n_at_once, n_queries)
        guesses = search.first(start, stop, k)
        rows = np.repeat(np.arange(start, stop), k)
        squared = measure(rows, guesses.reshape(-1), None).reshape(-1, k)
        # Nothing beyond the k-th of any k Gaussians can be among the nearest.
        for candidates in search.within(start, stop, np.sqrt(squared.max(axis=1))):
            block = slice(candidates.start - start, candidates.stop - start)
            best = _k_best(measure, candidates, guesses[block], squared[block])
            distances[candidates.start : candidates.stop] = c.unit * np.sqrt(best[0])
            indices[candidates.start : candidates.stop] = best[1]
    return distances, indices


class _Measure(NamedTuple):
    """Squared distances of listed pairs, in scaled units."""

    c: Comparison
    base: FloatArray | None
    n_threads: int
    tally: Tally | None

    def __call__(self, i: IntArray, j: IntArray, limits: FloatArray | None) -> FloatArray:
        """Return the squared distances, as exact as the limits ask for."""
        base_squared = None if self.base is None else np.square(np.ldexp(self.base[i, j], self.c.exponent))
        return squared_between(
            self.c, i, j, n_threads=self.n_threads, base_squared=base_squared, limits=limits, tally=self.tally
        )


def _k_best(
    measure: _Measure, candidates: Candidates, guesses: IntArray, squared_guesses: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return the k nearest of `guesses` (n_queries, k) and `candidates`, and their squared distances."""
    n, k = guesses.shape
    rows, found, lower = candidates.rows - candidates.start, candidates.found, candidates.lower
    n2 = measure.c.y.shape[0]
    is_new = ~np.isin(rows * n2 + found, np.arange(n)[:, None] * n2 + guesses)
    rows, found, lower = rows[is_new], found[is_new], lower[is_new]
    order = np.lexsort((lower, rows))
    rows, found, lower = rows[order], found[order], lower[order]
    counts = np.bincount(rows, minlength=n)
    place = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    squared = np.full(rows.size, np.inf)
    best = squared_guesses
    done, size = 0, 2 * k
    # The more is known to be near, the fewer remain: a few more of each query at a time.
    while done < np.max(counts, initial=0):
        limits = best.max(axis=1)
        turn = np.flatnonzero((place >= done) & (place < done + size) & (lower <= limits[rows]))
        if turn.size == 0:
            break
        squared[turn] = measure(rows[turn] + candidates.start, found[turn], limits[rows[turn]])
        latest = np.full((n, size), np.inf)
        latest[rows[turn], place[turn] - done] = squared[turn]
        best = np.partition(np.hstack([best, latest]), k - 1, axis=1)[:, :k]
        done, size = done + size, 2 * size
    rows = np.concatenate([np.repeat(np.arange(n), k), rows])
    found, squared = (
        np.concatenate([guesses.reshape(-1), found]),
        np.concatenate([squared_guesses.reshape(-1), squared]),
    )
    order = np.lexsort((found, squared, rows))
    chosen = order[(np.cumsum(counts + k) - (counts + k))[:, None] + np.arange(k)]
    return squared[chosen], found[chosen]
