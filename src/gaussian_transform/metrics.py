"""Input metrics other than the Euclidean one: by name, by a function, or as a matrix of distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from gaussian_transform._typing import FloatArray
from gaussian_transform._validation import check_distances
from gaussian_transform.local_gaussians import TIE_TOLERANCE


class InputMetric(Protocol):
    """A metric d_X of the user's, on points in the user's units."""

    @property
    def is_of_coordinates(self) -> bool:
        """Whether distances are computed from where points are, rather than given once for all."""

    def all_pairs(self, points: FloatArray) -> FloatArray:
        """Return the distances of all pairs, shape (n, n)."""

    def within(self, radius: float, points: FloatArray, others: FloatArray | None = None) -> csr_array:
        """Return the distances up to `radius` from points to `others` (by default themselves), zeros stored."""


class CoordinateMetric:
    """A metric that is computed from coordinates: a name that scikit-learn knows, or a function of two points."""

    is_of_coordinates = True

    def __init__(self, metric: str | Callable[..., float], n_jobs: int | None = None) -> None:
        self.metric = metric
        self.n_jobs = n_jobs

    def all_pairs(self, points: FloatArray) -> FloatArray:
        """Return the distances of all pairs."""
        if self.metric in ("euclidean", "l2"):
            # By differences, not by products: near points keep their distance, and ties on a grid stay ties.
            return cdist(points, points)
        distances: FloatArray = pairwise_distances(points, metric=self.metric, n_jobs=self.n_jobs)
        return check_distances(distances, "metric(X)")

    def within(self, radius: float, points: FloatArray, others: FloatArray | None = None) -> csr_array:
        """Return the distances up to `radius`, zeros stored."""
        # Slightly wider than the closed ball, so that the one rule for ties decides.
        search = NearestNeighbors(radius=radius * (1.0 + 1e-6), metric=self.metric, n_jobs=self.n_jobs)
        search.fit(points if others is None else others)
        distances, indices = search.radius_neighbors(points, sort_results=False)
        begin = np.concatenate([[0], np.cumsum([len(row) for row in indices])])
        shape = (len(points), len(points if others is None else others))
        graph = csr_array((np.concatenate(distances), np.concatenate(indices), begin), shape=shape)
        return _closed(graph, radius)


class PrecomputedMetric:
    """A metric given as a matrix of distances between the points of the fit."""

    is_of_coordinates = False

    def __init__(self, distances: npt.ArrayLike) -> None:
        self.distances = check_distances(distances, "distances")

    def all_pairs(self, points: FloatArray) -> FloatArray:
        """Return the distances of all pairs."""
        return self.distances

    def within(self, radius: float, points: FloatArray, others: FloatArray | None = None) -> csr_array:
        """Return the distances up to `radius`, zeros stored."""
        if others is not None:
            raise ValueError(
                "metric='precomputed' has no distances to points outside the fit; fit all points together, "
                "new ones with sample_weight 0."
            )
        is_inside = self.distances**2 <= radius**2 * (1.0 + TIE_TOLERANCE)
        begin = np.concatenate([[0], np.cumsum(is_inside.sum(axis=1))])
        return csr_array((self.distances[is_inside], np.nonzero(is_inside)[1], begin), shape=self.distances.shape)


def _closed(graph: csr_array, radius: float) -> csr_array:
    """Keep the entries of a graph that are inside the closed ball, with sorted indices."""
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    is_inside = graph.data**2 <= radius**2 * (1.0 + TIE_TOLERANCE)
    begin = np.concatenate([[0], np.cumsum(np.bincount(rows[is_inside], minlength=graph.shape[0]))])
    closed = csr_array((graph.data[is_inside], graph.indices[is_inside], begin), shape=graph.shape)
    closed.sort_indices()
    return closed
