"""Hierarchical clustering in the GT distance: spanning tree, dendrogram and flat clusters.

Single linkage needs no matrix of distances: it is the minimum spanning tree read by increasing length, and the tree is
found exactly in O(n) memory. The other methods of SciPy go through the condensed matrix of all n(n−1)/2 distances.
"""

from __future__ import annotations

import numbers
from typing import Literal, get_args

import numpy as np
from scipy.cluster import hierarchy

from gaussian_transform._kernels.spanning_tree import merge_along, root_clusters
from gaussian_transform._typing import FloatArray, Gaussians, IntArray
from gaussian_transform._validation import check_count, check_lam, check_n_jobs
from gaussian_transform.distances import check_memory, condensed_gt_distances
from gaussian_transform.local_gaussians import TIE_TOLERANCE
from gaussian_transform.spanning_tree import SpanningTree, check_gaussians, minimum_spanning_tree

__all__ = ["Method", "SpanningTree", "cut", "linkage", "minimum_spanning_tree", "single_linkage"]

Method = Literal["single", "complete", "average", "weighted", "ward"]

_REMEDY = 'use method="single" without n_eig, which needs no matrix of distances, or fewer points'


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
    gaussians = check_gaussians(gaussians)
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


def _n_merges_up_to(distance_threshold: object, heights: FloatArray) -> int:
    if not isinstance(distance_threshold, numbers.Real) or not float(distance_threshold) >= 0.0:
        raise ValueError(f"distance_threshold={distance_threshold!r} must be a number of at least 0.")
    return int(np.searchsorted(heights, float(distance_threshold) * np.sqrt(1.0 + TIE_TOLERANCE), side="right"))


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
