"""Minimum spanning tree in the GT distance, exact and without the matrix of distances.

Two algorithms give the same tree. In few dimensions it is Borůvka's: searches in a kd-tree of the Gaussians exclude
nearly all pairs unseen. In many dimensions only single pairs can be excluded, and exact distances cost an eigenvalue
problem each: there it is Prim's, which meets every pair once and puts off its exact distance until that matters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from gaussian_transform._factors import PrincipalFactors
from gaussian_transform._kernels.kd_tree import Tree, build_tree, measure_nodes
from gaussian_transform._kernels.spanning_tree import (
    Cloud,
    Searches,
    bound_pairs,
    choose_edges,
    join_components,
    label_nodes,
    search_points,
)
from gaussian_transform._parallel import effective_n_jobs, run_ranges
from gaussian_transform._shapes import Comparison, compare, roots_of, squared_between
from gaussian_transform._typing import BoolArray, Factors, FloatArray, Gaussians, IntArray
from gaussian_transform._validation import check_lam, check_n_jobs

# Measured: in ten dimensions both algorithms take about as long.
_MAX_TREE_DIMENSION = 10
# Measured in two and three dimensions; beyond, an exact distance costs more than searching again.
_N_REMEMBERED, _N_REMEMBERED_BEYOND_SPACE = 6, 1
_LEAF_SIZE = 16
# Pairs that may wait for each point, and entries of the embedding that are worth handing to another thread.
_MAX_WAITING, _ENTRIES_PER_RANGE = 8, 1 << 18


class SpanningTree(NamedTuple):
    """A spanning tree of n points.

    Attributes
    ----------
    edges : array of shape (n - 1, 2)
        Indices of the two ends of each edge, the smaller first; edges by increasing (length, smaller, larger index).
    lengths : array of shape (n - 1,)
        GT distance of the two ends.
    """

    edges: IntArray
    lengths: FloatArray


def minimum_spanning_tree(gaussians: Gaussians, lam: float, *, n_jobs: int | None = None) -> SpanningTree:
    """Return the minimum spanning tree of the complete graph whose lengths are GT distances.

    The length of an edge is the square root of ‖x−x'‖² + λ·dcov²(Σ, Σ'). Among edges of equal length those with smaller
    indices are taken first, which makes the tree unique.

    The Euclidean distance of the embedding (x, √(λ/2)·Σ^½) is at most the GT distance and at least its 1/√2. It
    excludes most pairs, exact distances decide among the others. The memory is O(n m²), or that of factors where the
    covariances are kept as such: then the roots of the eigenvalues take the place of Σ^½.

    Parameters
    ----------
    gaussians : Gaussians
        Points (n, m) with their covariances (n, m, m).
    lam : float
        Weight λ ≥ 0 of the squared Bures distance.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.

    Returns
    -------
    SpanningTree
        Its n − 1 edges and their lengths.

    Examples
    --------
    >>> import numpy as np
    >>> from gaussian_transform._typing import Gaussians
    >>> points = np.array([[0.0, 0.0], [3.0, 0.0], [1.0, 0.0]])
    >>> covariances = np.zeros((3, 2, 2))
    >>> covariances[1] = np.diag([4.0, 0.0])  # a Bures distance of 2 from a zero covariance
    >>> tree = minimum_spanning_tree(Gaussians(points, covariances), lam=3.0)
    >>> tree.edges.tolist(), tree.lengths.round(9).tolist()
    ([[0, 2], [1, 2]], [1.0, 4.0])
    """
    gaussians = check_gaussians(gaussians)
    lam = check_lam(lam)
    n_threads = effective_n_jobs(check_n_jobs(n_jobs))
    n = gaussians.points.shape[0]
    first = _first_copies(gaussians, lam)
    is_copy = first < np.arange(n)
    kept = np.flatnonzero(~is_copy)
    copies = np.flatnonzero(is_copy)
    different = _embed(gaussians.take(kept), lam, n_threads)
    find = _boruvka if gaussians.points.shape[1] <= _MAX_TREE_DIMENSION else _prim
    tree = find(different, n_threads)
    edges = np.concatenate([np.stack([first[copies], copies], axis=1), np.sort(kept[tree.edges], axis=1)])
    lengths = np.concatenate([np.zeros(copies.size), tree.lengths])
    order = np.lexsort((edges[:, 1], edges[:, 0], lengths))
    return SpanningTree(edges[order], lengths[order])


def check_gaussians(gaussians: Gaussians) -> Gaussians:
    """Return points and covariances in double precision; refuse what does not fit together or is not finite."""
    points = np.ascontiguousarray(gaussians.points, dtype=np.float64)
    covs = gaussians.covariances
    if isinstance(covs, Factors):
        covs = replace(covs, rows=np.ascontiguousarray(covs.rows, dtype=np.float64))
    else:
        covs = np.ascontiguousarray(covs, dtype=np.float64)
    if points.ndim != 2 or 0 in points.shape or covs.shape != (*points.shape, points.shape[1]):
        raise ValueError(
            f"gaussians have points of shape {points.shape} and covariances of shape {covs.shape}; "
            "they must have shapes (n, m) and (n, m, m) with n and m at least 1."
        )
    if not (np.isfinite(points).all() and np.isfinite(covs.rows if isinstance(covs, Factors) else covs).all()):
        raise ValueError("gaussians contain NaN or infinite values; remove or replace these points first.")
    return Gaussians(points, covs)


def _first_copies(gaussians: Gaussians, lam: float) -> IntArray:
    """Return for each Gaussian the smallest index of one equal to it in every bit; covariances count if λ > 0.

    Rows are brought together by a hash. When two different rows share one, copies may be missed, which costs only time.
    """
    n, m = gaussians.points.shape
    columns, covs = gaussians.points, gaussians.covariances
    if lam > 0.0:  # of factors only those are the same that share their rows
        shapes = np.where(covs.rank > 0, covs.begin, -1) if isinstance(covs, Factors) else covs.reshape(n, m * m)
        columns = np.hstack([columns, shapes.reshape(n, -1)])
    columns = columns + 0.0  # -0.0 becomes 0.0
    hashes = np.zeros(n, np.uint64)
    for bits in columns.view(np.uint64).T:
        hashes = (hashes ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    order = np.argsort(hashes, kind="stable")
    is_first = np.ones(n, np.bool_)
    is_first[1:] = np.any(columns[order[1:]] != columns[order[:-1]], axis=1)
    first = np.empty(n, np.int64)
    first[order] = order[is_first][np.cumsum(is_first) - 1]
    return first


class _Embedded(NamedTuple):
    """Gaussians with the coordinates that bound their distances.

    Attributes
    ----------
    compared : Comparison
        The Gaussians as exact distances need them.
    roots : array of shape (n, m(m+1)/2), or (n, 0) where only the points count
        Entries of √λ·Σ^½ on and above the diagonal, the latter times √2. Or, of factors, the roots of the largest
        eigenvalues times √(2λ): then half of a squared difference, too, is at most λ·dcov², but all of it tells
        nothing.
    traces : array of shape (n,) or None
        Of factors, the traces of λΣ: the sum of two is no less than λ·dcov².
    """

    compared: Comparison
    roots: FloatArray
    traces: FloatArray | None = None


def _embed(gaussians: Gaussians, lam: float, n_threads: int) -> _Embedded:
    compared = compare(gaussians, lam, n_threads=n_threads)
    n, m = compared.x.shape
    if compared.f is None:
        return _Embedded(compared, np.empty((n, 0)))
    if m > _MAX_TREE_DIMENSION and isinstance(gaussians.covariances, Factors):
        principal = cast(PrincipalFactors, compared.f)
        deviations = np.sqrt(2.0 * compared.lam) * principal.deviations()
        return _Embedded(compared, deviations, compared.lam * principal.traces)
    row, column = np.triu_indices(m)
    weight = np.sqrt(np.where(row == column, compared.lam, 2.0 * compared.lam))
    return _Embedded(compared, roots_of(compared.f)[:, row, column] * weight)


def _boruvka(embedded: _Embedded, n_threads: int) -> SpanningTree:
    """Find the spanning tree of Gaussians that are all different, its edges in no particular order."""
    cloud, tree = _grow_tree(embedded)
    n, m = cloud.points.shape
    k = _N_REMEMBERED if m <= 3 else _N_REMEMBERED_BEYOND_SPACE
    searches = Searches(
        near=np.empty((n, k), np.int64),
        near_squared=np.empty((n, k)),
        n_found=np.zeros(n, np.int64),
        n_used=np.zeros(n, np.int64),
        seen_squared=np.zeros(n),
    )
    parent, component = np.arange(n), np.arange(n)
    node_component = np.empty(tree.start.size, np.int64)
    best_squared, best_edge = np.empty(n), np.empty((n, 2), np.int64)
    edges, squared = np.empty((n - 1, 2), np.int64), np.empty(n - 1)

    def search(start: int, stop: int) -> None:
        search_points(start, stop, cloud, tree, component, node_component, best_squared, searches)

    n_edges = 0
    while n_edges < n - 1:
        label_nodes(component, tree, node_component)
        choose_edges(cloud.order, component, searches, best_squared, best_edge)
        # The ranges do not depend on the number of threads, hence nor does the result.
        run_ranges(search, n, n_threads=n_threads, grain=max(256, n // 64))
        choose_edges(cloud.order, component, searches, best_squared, best_edge)
        n_edges = join_components(best_squared, best_edge, n_edges, parent, component, edges, squared)
    return SpanningTree(cloud.order[edges], embedded.compared.unit * np.sqrt(squared))


def _grow_tree(embedded: _Embedded) -> tuple[Cloud, Tree]:
    """Return the Gaussians in the order of a kd-tree of their embedding, and the tree."""
    (points, shapes), roots = embedded.compared[:2], embedded.roots
    n = points.shape[0]
    columns = np.ascontiguousarray(np.hstack([points, roots]).T)
    n_nodes = 2 ** (1 + max(0, int(np.ceil(np.log2(n / _LEAF_SIZE))))) - 1
    corners = (n_nodes, columns.shape[0])
    tree = Tree(
        start=np.empty(n_nodes, np.int64),
        stop=np.empty(n_nodes, np.int64),
        lower=np.empty(corners),
        upper=np.empty(corners),
        center=np.empty(n_nodes, np.int64),
        radius=np.empty(n_nodes),
    )
    order = np.arange(n)
    build_tree(columns, order, tree)
    measure_nodes(columns, order, tree)
    if shapes is None:
        features = np.empty((n, 0))
    elif isinstance(shapes, PrincipalFactors):  # rows of zeros come first there
        features = shapes.take(order).padded()[:, ::-1].reshape(n, -1)
    else:
        features = shapes[order]
    return Cloud(embedded.compared.lam, order, points[order], roots[order], features), tree


class _Waiting(NamedTuple):
    """Pairs whose exact distance has been put off.

    Attributes
    ----------
    inner, outer : arrays of shape (n_pairs,)
        A point in the tree and one that is not.
    lower : array of shape (n_pairs,)
        Lower bound of their squared distance.
    """

    inner: IntArray
    outer: IntArray
    lower: FloatArray

    def where(self, is_chosen: BoolArray) -> _Waiting:
        """Return some of the pairs."""
        return _Waiting(self.inner[is_chosen], self.outer[is_chosen], self.lower[is_chosen])

    def joined_by(self, inner: int, outer: IntArray, lower: FloatArray) -> _Waiting:
        """Return these pairs and those of one more inner point."""
        return _Waiting(
            np.concatenate([self.inner, np.full(outer.size, inner)]),
            np.concatenate([self.outer, outer]),
            np.concatenate([self.lower, lower]),
        )


def _prim(embedded: _Embedded, n_threads: int) -> SpanningTree:
    """Find the spanning tree of Gaussians that are all different, its edges in the order in which it grows.

    The next edge is no longer than the least upper bound of any: exact distances are needed only of pairs with a lower
    bound up to there. The other pairs wait, and most are dropped when something nearer to their outer point turns up.
    """
    n = embedded.roots.shape[0]
    is_outside = np.ones(n, np.bool_)
    squared, nearest = np.full(n, np.inf), np.zeros(n, np.int64)
    limit = np.full(n, np.inf)  # of the squared distance to the tree
    waiting = _Waiting(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    edges, lengths = np.empty((n - 1, 2), np.int64), np.empty(n - 1)
    latest = 0
    for row in range(n - 1):
        is_outside[latest] = False
        outside = np.flatnonzero(is_outside)
        lower, upper = _bounds(embedded, latest, outside, n_threads)
        limit[outside] = np.minimum(limit[outside], upper)
        waiting = waiting.joined_by(latest, outside, lower)
        waiting = waiting.where(is_outside[waiting.outer] & (waiting.lower <= limit[waiting.outer]))
        reach = np.inf if waiting.lower.size > _MAX_WAITING * n else limit[outside].min()
        is_due = waiting.lower <= reach
        _settle(embedded.compared, waiting.where(is_due), limit, n_threads, squared, nearest)
        waiting = waiting.where(~is_due)
        np.minimum(limit, squared, out=limit)
        tied = outside[squared[outside] == squared[outside].min()]
        ends = np.sort(np.stack([tied, nearest[tied]], axis=1), axis=1)
        latest = int(tied[np.lexsort((ends[:, 1], ends[:, 0]))[0]])
        edges[row], lengths[row] = (latest, nearest[latest]), squared[latest]
    return SpanningTree(edges, embedded.compared.unit * np.sqrt(lengths))


def _bounds(embedded: _Embedded, i: int, others: IntArray, n_threads: int) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds of the squared distances of `i` to `others`."""
    lower, upper = np.empty(others.size), np.empty(others.size)
    points, roots = embedded.compared.x, embedded.roots

    def work(start: int, stop: int) -> None:
        bound_pairs(i, others[start:stop], points, roots, lower[start:stop], upper[start:stop])

    run_ranges(
        work, others.size, n_threads=n_threads, grain=1 + _ENTRIES_PER_RANGE // (points.shape[1] + roots.shape[1])
    )
    if embedded.traces is not None:
        # Twice the one less the other is what the points are apart.
        upper = (2.0 * lower - upper + embedded.traces[i] + embedded.traces[others]) * (1.0 + 1e-11)
    return lower, upper


def _settle(
    compared: Comparison,
    pairs: _Waiting,
    limit: FloatArray,
    n_threads: int,
    squared: FloatArray,
    nearest: IntArray,
) -> None:
    """Take exact distances of pairs into account: `squared` to the `nearest` inner point of each outer one."""
    exact = squared_between(compared, pairs.inner, pairs.outer, n_threads=n_threads, limits=limit[pairs.outer])
    order = np.lexsort((pairs.inner, exact, pairs.outer))
    outer, first = np.unique(pairs.outer[order], return_index=True)
    inner, exact = pairs.inner[order[first]], exact[order[first]]
    is_nearer = (exact < squared[outer]) | ((exact == squared[outer]) & (inner < nearest[outer]))
    squared[outer[is_nearer]], nearest[outer[is_nearer]] = exact[is_nearer], inner[is_nearer]
