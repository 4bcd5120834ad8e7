"""The Wasserstein transform as an estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from gaussian_transform._shapes import check_memory
from gaussian_transform._typing import AnyArray
from gaussian_transform._validation import check_count, check_distances, check_radius
from gaussian_transform.estimators._surface import DistanceSurface
from gaussian_transform.iteration import Progress
from gaussian_transform.metrics import CoordinateMetric
from gaussian_transform.neighborhoods import typical_radius_of_matrix
from gaussian_transform.wasserstein import wasserstein_iterates

_REMEDY = "take a sample of the points, or use GaussianTransform, which needs no matrix"


class WassersteinTransform(DistanceSurface, BaseEstimator):
    """Distances between the neighbourhoods of points by exact optimal transport, iterated.

    Each iteration replaces the distance of two points by the p-Wasserstein distance of the measures in their eps-balls,
    with the present distance as ground metric. The method needs distances only, hence works in any metric space. All
    pairs are solved: O(n²) memory, and time O(n² N³ log N) for N points a ball. `GaussianTransform` is the faster
    relative for points with coordinates.

    Parameters
    ----------
    eps : float, optional
        Radius of the balls. By default the median over all points of the distance to the 16th nearest other point.
    p : float
        Exponent of the Wasserstein distance, at least 1: 1 for WT1, 2 for WT2.
    n_iter : int
        Number of iterations; 0 keeps the given distances.
    metric : str or callable
        How distances of points are measured: a metric of `sklearn.metrics.pairwise_distances`, a function of two
        points, or "precomputed" to fit a matrix of distances.
    store_history : bool
        Keep the distances of all iterations.
    n_jobs : int, optional
        Threads; all cores by default. The result does not depend on it.
    callback : callable, optional
        Called with a `Progress` now and then during the fit.

    Attributes
    ----------
    distances_ : array of shape (n, n)
        Distances after the last iteration; float32 if the data are, else float64.
    eps_ : float
        The radius used.
    n_iter_ : int
        Iterations run.
    history_ : list of arrays of shape (n, n), or None
        D⁰, D¹, …, the last being `distances_`, if `store_history`.
    n_features_in_ : int
        Number of columns of the data.

    Examples
    --------
    >>> import numpy as np
    >>> import gaussian_transform as gt
    >>> X = np.array([[0.0], [1.0], [2.0], [9.0]])
    >>> gt.WassersteinTransform(eps=1.0, p=1).fit(X).distances_
    array([[0. , 0.5, 1. , 8.5],
           [0.5, 0. , 0.5, 8. ],
           [1. , 0.5, 0. , 7.5],
           [8.5, 8. , 7.5, 0. ]])
    """

    def __init__(
        self,
        eps: float | None = None,
        *,
        p: float = 2,
        n_iter: int = 1,
        metric: str | Callable[[AnyArray, AnyArray], float] = "euclidean",
        store_history: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.eps = eps
        self.p = p
        self.n_iter = n_iter
        self.metric = metric
        self.store_history = store_history
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> WassersteinTransform:
        """Transform the distances of `X`.

        Parameters
        ----------
        X : array_like of shape (n, m), or (n, n) with metric="precomputed"
            Points, or their distances.
        y : None
            Ignored.
        sample_weight : array_like of shape (n,), optional
            Weights of the points, equal by default.

        Returns
        -------
        WassersteinTransform
            The fitted estimator.
        """
        is_precomputed = isinstance(self.metric, str) and self.metric == "precomputed"
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=not is_precomputed)
        n = X.shape[0]
        n_kept = 3 + (check_count("n_iter", self.n_iter, 0) if self.store_history else 0)
        check_memory(8 * n_kept * n * n, f"The Wasserstein transform with {n_kept} matrices of {n} x {n}", _REMEDY)
        ground = check_distances(X, "X") if is_precomputed else CoordinateMetric(self.metric).all_pairs(X)
        self.eps_ = typical_radius_of_matrix(ground) if self.eps is None else check_radius(self.eps)
        iterates = wasserstein_iterates(
            ground,
            self.eps_,
            p=self.p,
            n_iter=self.n_iter,
            weights=sample_weight,
            n_jobs=self.n_jobs,
            callback=self.callback,
        )
        history = [ground.astype(X.dtype)] if self.store_history or self.n_iter == 0 else []
        for distances in iterates:
            if not self.store_history:
                history.clear()
            history.append(distances.astype(X.dtype, copy=False))
        self.distances_ = history[-1]
        self.history_ = history if self.store_history else None
        self.n_iter_ = int(self.n_iter)
        return self

    def distances(self) -> AnyArray:
        """Return the distances after the last iteration, shape (n, n)."""
        check_is_fitted(self)
        distances: AnyArray = self.distances_
        return distances

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.metric, str) and self.metric == "precomputed"
        return tags
