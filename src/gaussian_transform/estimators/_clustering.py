"""Hierarchical clustering in the GT distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, get_args

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from gaussian_transform import _validation, linkage
from gaussian_transform._typing import AnyArray, FloatArray, Gaussians, IntArray
from gaussian_transform.distances import nearest
from gaussian_transform.estimators._transform import GaussianTransform, check_points
from gaussian_transform.iteration import Progress


class GaussianTransformClustering(ClusterMixin, BaseEstimator):
    """Clusters of the GT distance: a Gaussian transform, its dendrogram, and a cut.

    Parameters
    ----------
    eps, lam, n_iter, kernel, metric, n_eig, merge, tol, n_jobs, callback
        As for `GaussianTransform`.
    n_clusters : int, optional
        How many clusters to cut the dendrogram into.
    distance_threshold : float, optional
        Cut at this height instead. Without either it is cut at eps: points are together that are linked by a chain of
        overlapping GT balls.
    linkage : {"single", "complete", "average", "weighted", "ward"}, default "single"
        "single" takes O(n) memory, the others the distances of all pairs.

    Attributes
    ----------
    labels_ : array of shape (n,)
        Cluster of each point, numbered from the heaviest.
    n_clusters_ : int
        How many there are.
    linkage_matrix_ : array of shape (n_massive - 1, 4)
        The dendrogram, of the points with weight above 0, as a SciPy linkage matrix.
    transform_ : GaussianTransform
        The fitted transform.

    Examples
    --------
    >>> import gaussian_transform as gt
    >>> junction = gt.datasets.make_t_junction()
    >>> clusters = gt.GaussianTransformClustering(eps=10, n_iter=2, n_clusters=4).fit(junction.points)
    >>> clusters.n_clusters_
    4
    """

    def __init__(
        self,
        eps: float | None = None,
        lam: float = 1.0,
        *,
        n_iter: int = 1,
        n_clusters: int | None = None,
        distance_threshold: float | None = None,
        linkage: linkage.Method = "single",
        kernel: str | Callable[..., Any] = "truncated",
        metric: str | Callable[..., float] = "euclidean",
        n_eig: int | None = None,
        merge: bool = True,
        tol: float = 0.0,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.eps = eps
        self.lam = lam
        self.n_iter = n_iter
        self.n_clusters = n_clusters
        self.distance_threshold = distance_threshold
        self.linkage = linkage
        self.kernel = kernel
        self.metric = metric
        self.n_eig = n_eig
        self.merge = merge
        self.tol = tol
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Cluster points of shape (n, m); see `GaussianTransform.fit` for the weights."""
        X = check_points(self, X)
        if self.n_clusters is not None and self.distance_threshold is not None:
            raise ValueError(
                f"n_clusters={self.n_clusters!r} and distance_threshold={self.distance_threshold!r} are both given; "
                "give one of them, or neither to cut at eps."
            )
        if self.linkage not in get_args(linkage.Method):
            methods = ", ".join(map(repr, get_args(linkage.Method)))
            raise ValueError(f"linkage={self.linkage!r} must be one of {methods}.")
        weights = _validation.check_weights(sample_weight, len(X))
        self.transform_ = self._make_transform().fit(X, sample_weight=weights)
        gaussians = self.transform_._gaussians()
        # Points of no mass take no part in the tree: they are labelled as `predict` would.
        is_massive = weights > 0.0
        self._massive = gaussians.take(is_massive)
        self.linkage_matrix_ = self._dendrogram()
        massive_labels = self._cut(self.linkage_matrix_)
        massive_labels = _from_heaviest(massive_labels, weights[is_massive], X[is_massive])
        self._massive_labels = massive_labels
        self.labels_ = np.empty(len(X), np.int64)
        self.labels_[is_massive] = massive_labels
        if not np.all(is_massive):
            self.labels_[~is_massive] = self._label(gaussians.take(~is_massive))
        self.n_clusters_ = int(massive_labels.max()) + 1
        return self

    def predict(self, X: npt.ArrayLike) -> IntArray:
        """Return the cluster of new points: they travel with the transform and join the nearest point of the fit.

        The points of the fit get their own labels.
        """
        check_is_fitted(self, "labels_")
        travellers, _ = self.transform_._travel(check_points(self, X, is_new=False))
        return self._label(travellers)

    def _label(self, gaussians: Gaussians) -> IntArray:
        _, index = nearest(self._massive, self.transform_._lam(), gaussians, 1, n_jobs=self.n_jobs)
        labels: IntArray = self._massive_labels[index[:, 0]]
        return labels

    def _make_transform(self) -> GaussianTransform:
        names = ("eps", "lam", "n_iter", "kernel", "metric", "n_eig", "merge", "tol", "n_jobs", "callback")
        return GaussianTransform(**{name: getattr(self, name) for name in names})

    def _dendrogram(self) -> FloatArray:
        Z = linkage.linkage(self._massive, self.transform_._lam(), self.linkage, **self.transform_._how())
        Z[:, 2] *= self.transform_._frame.unit
        return Z

    def _cut(self, Z: FloatArray) -> IntArray:
        if self.n_clusters is not None:
            return linkage.cut(Z, n_clusters=_validation.check_count("n_clusters", self.n_clusters, 1))
        height = self.transform_.eps_ if self.distance_threshold is None else self.distance_threshold
        return linkage.cut(Z, distance_threshold=_validation.check_height(height))


def _from_heaviest(labels: IntArray, weights: FloatArray, X: AnyArray) -> IntArray:
    """Return labels numbered by falling weight, and by the first point's position where weights agree to 9 digits.

    Neither depends on the order of the points, nor on whether one came as copies or with a weight.
    """
    mass = np.bincount(labels, weights)
    by_position = np.lexsort(X.T[::-1])
    _, first = np.unique(labels[by_position], return_index=True)
    order = np.lexsort((first, -np.round(mass, 9)))
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    numbered: IntArray = rank[labels]
    return numbered
