"""GT distances between sets of Gaussians: d² = ‖x−x'‖² + λ·dcov²(Σ, Σ'), dense, sparse and to the nearest.

The sparse ones find their candidates by a kd-tree over coordinates whose Euclidean distance is a lower bound of d, and
then decide by d itself. Inputs are taken as valid: finite points, positive semi-definite covariances, λ ≥ 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from gaussian_transform._parallel import effective_n_jobs
from gaussian_transform._shapes import (
    Comparison,
    check_memory,
    compare,
    fill_distances,
    roots_of,
    squared_between,
)
from gaussian_transform._typing import FloatArray, Gaussians, IntArray

__all__ = [
    "check_memory",
    "condensed_gt_distances",
    "gt_distances",
    "gt_squared_between",
    "hellinger_embedding",
    "nearest",
    "radius_graph",
]

# Inside a ball iff d² ≤ r²(1 + 1e-9).
_TIE = 1e-9
# The tree may see a pair this much too far away, relative to the radius and to the largest coordinate (rounding).
_SLACK, _ROUNDING = 1e-6, 1e-12
# Candidate pairs worked on at a time.
_CANDIDATES = 1 << 20
# Up to this dimension the tree has the entries of Σ^½, beyond only its eigenvalues: with many, a tree prunes nothing.
_ENTRIES_DIMENSION = 5
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
    c = compare(a, lam)
    coordinates = _with_roots(c.x, c.f, c.lam, a.points.shape[1])
    return np.hstack([a.points, np.ldexp(coordinates[:, a.points.shape[1] :], -c.exponent)])


def _with_roots(x: FloatArray, shapes: FloatArray | None, weight: float, m: int) -> FloatArray:
    """Return the first `m` coordinates of `x` followed by the distinct entries of √weight·Σ^½."""
    n = x.shape[0]
    rows, columns = np.triu_indices(m)
    out = np.zeros((n, m + rows.size))
    out[:, :m] = x[:, :m]
    if shapes is not None:
        factor = np.sqrt(weight) * np.where(rows == columns, 1.0, np.sqrt(2.0))
        np.multiply(roots_of(shapes)[:, rows, columns], factor, out=out[:, m:])
    return out


def _lower_bound_coordinates(x: FloatArray, shapes: FloatArray | None, lam: float) -> FloatArray:
    """Coordinates whose Euclidean distance never exceeds the GT distance.

    ‖A^½ − B^½‖² ≤ 2 dcov², and ‖√a − √b‖² ≤ dcov² for the sorted eigenvalues a, b of A, B.
    """
    if shapes is None:
        return x
    m = x.shape[1]
    if m <= _ENTRIES_DIMENSION:
        return _with_roots(x, shapes, 0.5 * lam, m)
    norms = np.sqrt(np.einsum("nij,nij->nj", shapes, shapes))
    return np.hstack([x, np.sqrt(lam) * np.sort(norms, axis=1)])


def _trees(c: Comparison) -> tuple[FloatArray, cKDTree]:
    targets = _lower_bound_coordinates(c.y, c.g, c.lam)
    return (targets if c.is_symmetric else _lower_bound_coordinates(c.x, c.f, c.lam)), cKDTree(targets)


def _slackened(radii: FloatArray, coordinates: FloatArray) -> FloatArray:
    return radii * (1.0 + _SLACK) + _ROUNDING * float(np.max(np.abs(coordinates), initial=0.0))


def _candidates(
    tree: cKDTree, coordinates: FloatArray, radii: FloatArray, counts: IntArray, n_threads: int
) -> Iterator[tuple[int, int, IntArray]]:
    """Yield row ranges with the sorted indices of all targets within each row's radius, so many at a time as fit."""
    start = 0
    while start < counts.size:
        ends = np.cumsum(counts[start : start + _CANDIDATES])
        stop = start + max(1, int(np.searchsorted(ends, _CANDIDATES, side="right")))
        lists = tree.query_ball_point(coordinates[start:stop], radii[start:stop], workers=n_threads, return_sorted=True)
        yield start, stop, np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=int(ends[stop - start - 1]))
        start = stop


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
    c = compare(a, lam, b, n_eig=n_eig, n_threads=n_threads)
    coordinates, tree = _trees(c)
    n, n2 = c.x.shape[0], c.y.shape[0]
    # No scaled distance reaches 2**300, so a larger radius holds everything.
    scaled_radius = float(min(np.ldexp(radius, c.exponent), 2.0**300))
    radii = _slackened(np.full(n, scaled_radius), coordinates)
    counts = np.asarray(
        tree.query_ball_point(coordinates, radii, workers=n_threads, return_length=True), dtype=np.int64
    ).reshape(n)
    n_candidates = int(counts.sum())
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
    for start, stop, found in _candidates(tree, coordinates, radii, counts, n_threads):
        rows = np.repeat(np.arange(start, stop), counts[start:stop])
        squared = squared_between(c, rows, found, n_threads=n_threads)
        is_inside = squared <= scaled_radius * scaled_radius * (1.0 + _TIE)
        inside_rows = np.bincount(rows[is_inside] - start, minlength=stop - start)
        row_ends[start + 1 : stop + 1] = end + np.cumsum(inside_rows)
        n_inside = int(row_ends[stop]) - end
        indices[end : end + n_inside] = found[is_inside]
        np.multiply(np.sqrt(squared[is_inside]), c.unit, out=data[end : end + n_inside])
        end += n_inside
    indices.resize(end, refcheck=False)
    data.resize(end, refcheck=False)
    graph = csr_array((data, indices, row_ends), shape=(n, n2))
    graph.has_sorted_indices = True
    return graph


def nearest(
    a: Gaussians,
    lam: float,
    queries: Gaussians,
    k: int,
    *,
    n_eig: int | None = None,
    n_jobs: int | None = None,
) -> tuple[FloatArray, IntArray]:
    """Return the `k` Gaussians of `a` nearest to each of `queries` in GT distance, exactly, nearest first.

    Parameters
    ----------
    a, queries : Gaussians
        Points (n, m) with covariances (n, m, m).
    lam : float
        The paper's λ.
    k : int
        How many, at most n.
    n_eig : int, optional
        How many eigenvalues the trace in dcov keeps; all by default.
    n_jobs : int, optional
        Number of threads.

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
    c = compare(queries, lam, a, n_eig=n_eig, n_threads=n_threads)
    coordinates, tree = _trees(c)
    guesses = np.asarray(tree.query(coordinates, k=[*range(1, k + 1)], workers=n_threads)[1], dtype=np.int64)
    rows = np.repeat(np.arange(n_queries), k)
    squared = squared_between(c, rows, guesses.reshape(-1), n_threads=n_threads).reshape(n_queries, k)
    # Nothing beyond the k-th of any k Gaussians can be among the nearest.
    radii = _slackened(np.sqrt(squared.max(axis=1)), coordinates)
    counts = np.asarray(
        tree.query_ball_point(coordinates, radii, workers=n_threads, return_length=True), dtype=np.int64
    ).reshape(n_queries)
    distances, indices = np.empty((n_queries, k)), np.empty((n_queries, k), dtype=np.int64)
    for start, stop, found in _candidates(tree, coordinates, radii, counts, n_threads):
        rows = np.repeat(np.arange(start, stop), counts[start:stop])
        squared = squared_between(c, rows, found, n_threads=n_threads)
        order = np.lexsort((found, squared, rows))
        firsts = np.cumsum(counts[start:stop]) - counts[start:stop]
        chosen = order[firsts[:, None] + np.arange(k)]
        indices[start:stop] = found[chosen]
        distances[start:stop] = c.unit * np.sqrt(squared[chosen])
    return distances, indices
