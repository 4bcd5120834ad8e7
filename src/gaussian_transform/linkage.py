"""Hierarchical clustering in the GT distance: spanning tree, dendrogram and flat clusters.

Single linkage needs no matrix of distances: it is the minimum spanning tree read by increasing length, and the tree is
found exactly in O(n) memory. The other methods of SciPy go through the condensed matrix of all n(n−1)/2 distances.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.cluster import hierarchy

from gaussian_transform._kernels.kd_tree import Tree, build_tree, measure_nodes
from gaussian_transform._kernels.spanning_tree import (
    Cloud,
    Searches,
    choose_edges,
    join_components,
    label_nodes,
    merge_along,
    root_clusters,
    search_points,
)
from gaussian_transform._parallel import effective_n_jobs, run_ranges
from gaussian_transform._shapes import compare, roots_of
from gaussian_transform._typing import FloatArray, Gaussians, IntArray
from gaussian_transform._validation import check_count, check_lam, check_n_jobs
from gaussian_transform.distances import check_memory, condensed_gt_distances
from gaussian_transform.local_gaussians import TIE_TOLERANCE

Method = Literal["single", "complete", "average", "weighted", "ward"]

# Measured in two and three dimensions; beyond, an exact distance costs more than searching again.
_N_REMEMBERED, _N_REMEMBERED_BEYOND_SPACE = 6, 1
_LEAF_SIZE = 16
_REMEDY = 'use method="single" without n_eig, which needs no matrix of distances, or fewer points'


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

    Borůvka's algorithm over a kd-tree of the embedding (x, √(λ/2)·Σ^½), whose Euclidean distance is at most the GT
    distance and at least its 1/√2: it prunes, exact distances decide. The memory is O(n m²).

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
    >>> tree.edges.tolist(), tree.lengths.tolist()
    ([[0, 2], [1, 2]], [1.0, 4.0])
    """
    _check(gaussians)
    lam = check_lam(lam)
    n_threads = effective_n_jobs(check_n_jobs(n_jobs))
    n = gaussians.points.shape[0]
    first = _first_copies(gaussians, lam)
    is_copy = first < np.arange(n)
    kept = np.flatnonzero(~is_copy)
    copies = np.flatnonzero(is_copy)
    tree = _boruvka(Gaussians(gaussians.points[kept], gaussians.covariances[kept]), lam, n_threads)
    edges = np.concatenate([np.stack([first[copies], copies], axis=1), np.sort(kept[tree.edges], axis=1)])
    lengths = np.concatenate([np.zeros(copies.size), tree.lengths])
    order = np.lexsort((edges[:, 1], edges[:, 0], lengths))
    return SpanningTree(edges[order], lengths[order])


def single_linkage(gaussians: Gaussians, lam: float, *, n_jobs: int | None = None) -> FloatArray:
    """Return the single linkage dendrogram in the GT distance, without the matrix of distances.

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
    array of shape (n - 1, 4)
        Merges as SciPy writes them: the two clusters, the height, the number of points; heights never decrease.

    Examples
    --------
    >>> import numpy as np
    >>> from gaussian_transform._typing import Gaussians
    >>> line = Gaussians(np.array([[0.0], [1.0], [5.0], [7.0]]), np.zeros((4, 1, 1)))
    >>> single_linkage(line, lam=1.0).tolist()
    [[0.0, 1.0, 1.0, 2.0], [2.0, 3.0, 2.0, 2.0], [4.0, 5.0, 4.0, 4.0]]
    """
    tree = minimum_spanning_tree(gaussians, lam, n_jobs=n_jobs)
    n = tree.lengths.size + 1
    merges = np.empty((n - 1, 4))
    merge_along(tree.edges, tree.lengths, np.empty(n, np.int64), np.empty(n, np.int64), merges)
    return merges


def linkage(
    gaussians: Gaussians,
    lam: float,
    method: Method = "single",
    *,
    n_eig: int | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    """Return the dendrogram of hierarchical clustering in the GT distance.

    Parameters
    ----------
    gaussians : Gaussians
        Points (n, m) with their covariances (n, m, m).
    lam : float
        Weight λ ≥ 0 of the squared Bures distance.
    method : {"single", "complete", "average", "weighted", "ward"}
        As in `scipy.cluster.hierarchy.linkage`. "single" needs O(n) memory, the others the n(n−1)/2 distances.
        "ward" applies Ward's update to GT distances, which are not Euclidean: its heights increase, but are no sums of
        squares. SciPy's "centroid" and "median" are not offered: their heights may decrease, so they cannot be cut.
    n_eig : int, optional
        How many eigenvalues the trace in the Bures distance keeps; all by default. A truncated distance is no metric,
        and then "single" needs the distances of all pairs, too.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.

    Returns
    -------
    array of shape (n - 1, 4)
        Merges as SciPy writes them: the two clusters, the height, the number of points.

    Raises
    ------
    MemoryError
        When the distances do not fit into memory.

    Examples
    --------
    >>> import numpy as np
    >>> from gaussian_transform._typing import Gaussians
    >>> line = Gaussians(np.array([[0.0], [1.0], [5.0]]), np.zeros((3, 1, 1)))
    >>> linkage(line, lam=1.0, method="average")[:, 2].tolist()
    [1.0, 4.5]
    """
    if method not in get_args(Method):
        raise ValueError(f"method={method!r} is unknown; it must be one of {', '.join(map(repr, get_args(Method)))}.")
    if method == "single" and n_eig is None:
        return single_linkage(gaussians, lam, n_jobs=n_jobs)
    _check(gaussians)
    n = gaussians.points.shape[0]
    if n == 1:
        return np.empty((0, 4))
    # SciPy works on a copy of the distances.
    check_memory(2 * 8 * (n * (n - 1) // 2), f"{method} linkage of all distances between {n} points", _REMEDY)
    distances = condensed_gt_distances(gaussians, check_lam(lam), n_eig=n_eig, n_jobs=check_n_jobs(n_jobs))
    merges: FloatArray = hierarchy.linkage(distances, method)
    return merges


def cut(Z: FloatArray, n_clusters: int | None = None, distance_threshold: float | None = None) -> IntArray:
    """Return flat clusters of a dendrogram: a number of them, or those that merge up to a height.

    Exactly one of `n_clusters` and `distance_threshold` must be given.

    Parameters
    ----------
    Z : array of shape (n - 1, 4)
        Dendrogram of `linkage`, or of SciPy with heights that never decrease.
    n_clusters : int, optional
        How many clusters to make, from 1 to n. Of merges at the same height the first ones in `Z` are made.
    distance_threshold : float, optional
        Merges of height h are made iff h² ≤ t²·(1 + 1e-9).

    Returns
    -------
    array of shape (n,)
        Label of each point, 0, 1, … from the largest cluster to the smallest; of clusters of the same size the one with
        the smallest index first.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.array([[1.0, 2.0, 0.5, 2.0], [0.0, 3.0, 4.0, 3.0]])
    >>> cut(Z, n_clusters=2).tolist()
    [1, 0, 0]
    >>> cut(Z, distance_threshold=4.0).tolist()
    [0, 0, 0]
    """
    Z = np.asarray(Z, dtype=np.float64)
    _check_dendrogram(Z)
    n = Z.shape[0] + 1
    if (n_clusters is None) == (distance_threshold is None):
        raise ValueError(
            f"n_clusters={n_clusters!r} and distance_threshold={distance_threshold!r} were given; give exactly one."
        )
    if n_clusters is not None:
        n_merges = n - check_count("n_clusters", n_clusters, 1)
        if n_merges < 0:
            raise ValueError(f"n_clusters={n_clusters} must be at most the number of points, {n}.")
    else:
        n_merges = _n_merges_up_to(distance_threshold, Z[:, 2])
    cluster = np.empty(n + n_merges, np.int64)
    root_clusters(Z, n_merges, cluster)
    _, representative, inverse, size = np.unique(
        cluster[:n], return_index=True, return_inverse=True, return_counts=True
    )
    label = np.empty(size.size, np.int64)
    label[np.lexsort((representative, -size))] = np.arange(size.size)
    return label[inverse]


def _n_merges_up_to(distance_threshold: float | None, heights: FloatArray) -> int:
    if distance_threshold is None or not distance_threshold >= 0.0:
        raise ValueError(f"distance_threshold={distance_threshold!r} must be a number of at least 0.")
    return int(np.searchsorted(heights, distance_threshold * np.sqrt(1.0 + TIE_TOLERANCE), side="right"))


def _check(gaussians: Gaussians) -> None:
    points, covs = gaussians
    if points.ndim != 2 or 0 in points.shape or covs.shape != (*points.shape, points.shape[1]):
        raise ValueError(
            f"gaussians have points of shape {points.shape} and covariances of shape {covs.shape}; "
            "they must have shapes (n, m) and (n, m, m) with n and m at least 1."
        )
    if not (np.isfinite(points).all() and np.isfinite(covs).all()):
        raise ValueError("gaussians contain NaN or infinite values; remove or replace these points first.")


def _check_dendrogram(Z: FloatArray) -> None:
    if Z.ndim != 2 or Z.shape[1] != 4:
        raise ValueError(f"Z has shape {Z.shape}; it must have the shape (n - 1, 4) of a SciPy linkage matrix.")
    clusters, heights = Z[:, :2], Z[:, 2]
    n_before = Z.shape[0] + 1 + np.arange(Z.shape[0])
    is_known = (clusters >= 0) & (clusters < n_before[:, None]) & (clusters == np.floor(clusters))
    if not np.all(is_known) or np.unique(clusters).size < clusters.size:
        raise ValueError("Z merges clusters that do not exist yet or are merged already; pass an unchanged dendrogram.")
    if not np.all(np.diff(heights, prepend=0.0) >= 0.0):
        raise ValueError("Z has heights that decrease, so it cannot be cut; use a method that linkage offers.")


def _first_copies(gaussians: Gaussians, lam: float) -> IntArray:
    """Return for each Gaussian the smallest index of one equal to it in every bit; covariances count if λ > 0.

    Rows are brought together by a hash. When two different rows share one, copies may be missed, which costs only time.
    """
    n, m = gaussians.points.shape
    columns = gaussians.points if lam == 0.0 else np.hstack([gaussians.points, gaussians.covariances.reshape(n, m * m)])
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


def _boruvka(gaussians: Gaussians, lam: float, n_threads: int) -> SpanningTree:
    """Find the spanning tree of Gaussians that are all different, its edges in no particular order."""
    n = gaussians.points.shape[0]
    cloud, tree, unit = _grow_tree(gaussians, lam, n_threads)
    k = _N_REMEMBERED if cloud.points.shape[1] <= 3 else _N_REMEMBERED_BEYOND_SPACE
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
        run_ranges(search, n, n_threads=n_threads, grain=max(256, n // 64))
        choose_edges(cloud.order, component, searches, best_squared, best_edge)
        n_edges = join_components(best_squared, best_edge, n_edges, parent, component, edges, squared)
    return SpanningTree(cloud.order[edges], unit * np.sqrt(squared))


def _grow_tree(gaussians: Gaussians, lam: float, n_threads: int) -> tuple[Cloud, Tree, float]:
    """Return the Gaussians in the order of a kd-tree of their embedding, the tree, and the unit of their distances."""
    compared = compare(gaussians, lam, n_threads=n_threads)
    n, m = compared.x.shape
    if compared.f is None:
        roots, features = np.empty((n, 0)), np.empty((n, 0))
    else:
        row, column = np.triu_indices(m)
        weight = np.sqrt(np.where(row == column, compared.lam, 2.0 * compared.lam))
        roots = roots_of(compared.f)[:, row, column] * weight
        features = compared.f if compared.f.ndim == 2 else np.swapaxes(compared.f, 1, 2).reshape(n, -1)
    n_nodes = 2 ** (1 + max(0, int(np.ceil(np.log2(n / _LEAF_SIZE))))) - 1
    columns = np.ascontiguousarray(np.hstack([compared.x, roots]).T)
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
    cloud = Cloud(compared.lam, order, compared.x[order], roots[order], features[order])
    return cloud, tree, compared.unit
