"""The Gaussian transform and mean shift as transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gaussian_transform import _validation, linkage
from gaussian_transform._parallel import effective_n_jobs
from gaussian_transform._typing import AnyArray, FloatArray, Gaussians, IntArray
from gaussian_transform.distances import gt_distances, hellinger_embedding, nearest, radius_graph
from gaussian_transform.estimators._states import FittedStates
from gaussian_transform.estimators._surface import DistanceSurface
from gaussian_transform.iteration import GaussianIteration, Progress, Variant
from gaussian_transform.local_gaussians import at_origin
from gaussian_transform.metrics import CoordinateMetric, InputMetric, PrecomputedMetric
from gaussian_transform.neighborhoods import typical_radius, typical_radius_of_matrix
from gaussian_transform.profiles import find_profile


def check_points(estimator: BaseEstimator, X: npt.ArrayLike, *, is_new: bool = True) -> AnyArray:
    """Return points as a float64 or float32 array of shape (n, m); unless `is_new`, with the columns of the fit."""
    points: AnyArray = validate_data(estimator, X, dtype=[np.float64, np.float32], order="C", reset=is_new)
    return points


class _LocalTransform(OneToOneFeatureMixin, TransformerMixin, DistanceSurface, FittedStates, BaseEstimator):
    """What the transforms share; a subclass says which λ it uses."""

    eps: float | None
    n_iter: int
    kernel: str | Callable[..., Any]
    metric: str | Callable[..., float]
    base: Literal["euclidean", "metric"]
    merge: bool
    tol: float
    store_history: bool
    callback: Callable[[Progress], object] | None

    def _lam(self) -> float:
        raise NotImplementedError

    def _n_eig(self, n_features: int) -> int | None:
        return None

    def fit(
        self,
        X: npt.ArrayLike,
        y: object = None,
        sample_weight: npt.ArrayLike | None = None,
        distances: npt.ArrayLike | None = None,
    ) -> Self:
        """Run the iterations on a cloud.

        Parameters
        ----------
        X : array of shape (n, m)
            The points.
        y : None
            Ignored.
        sample_weight : array of shape (n,), optional
            Weights of the points, equal by default. They are normalised; a point of weight k counts as k points, and
            one of weight 0 moves along without being counted.
        distances : array of shape (n, n), optional
            With ``metric="precomputed"``, the distances of the input metric; X holds the coordinates all the same.
        """
        X = check_points(self, X)
        points = X.astype(np.float64, copy=False)
        weights = _validation.check_weights(sample_weight, len(points))
        metric = self._input_metric(len(points), distances)
        self.eps_ = self._radius(points, weights, metric)
        _validation.check_extent(points, self.eps_)
        self._iteration = self._make_iteration(points.shape[1], metric)
        frame, states = self._iteration.run(
            points,
            weights,
            _validation.check_count("n_iter", self.n_iter, 0),
            tol=_validation.check_tol(self.tol),
            callback=_validation.check_callback(self.callback),
        )
        self._frame, self._states = frame, states
        self._start = points
        self._dtype = X.dtype
        self.n_iter_ = len(states) - 1
        self.points_ = self._points_at(self.n_iter_)
        self._forget_shapes()
        self.history_ = [self._at(k) for k in range(len(states))] if self.store_history else None
        return self

    def fit_transform(
        self,
        X: npt.ArrayLike,
        y: object = None,
        sample_weight: npt.ArrayLike | None = None,
        distances: npt.ArrayLike | None = None,
    ) -> AnyArray:
        """Run the iterations on a cloud and return where its points end, shape (n, m); parameters as for `fit`."""
        return self.fit(X, y, sample_weight=sample_weight, distances=distances).points_

    def transform(self, X: npt.ArrayLike) -> AnyArray:
        """Take points through the iterations of the fit, as points of no mass, and return where they end.

        The points of the fit end at `points_`. A point without neighbours stays where it is.
        """
        travellers, X = self._travel(X)
        is_still = np.all(travellers.points == self._frame.enter(X.astype(np.float64)), axis=1)
        ends = np.where(is_still[:, None], X, self._frame.leave(travellers.points))
        return ends.astype(X.dtype, copy=False)

    def distances(self) -> AnyArray:
        """Return the matrix of GT distances after the iterations, shape (n, n)."""
        check_is_fitted(self, "points_")
        gaussians = self._gaussians()
        if not self._iteration.is_base_metric:
            return self._in_units(gt_distances(gaussians, self._lam(), **self._how()))
        base = self._base_metric().all_pairs(self._frame.leave(gaussians.points))
        apart = gt_distances(at_origin(gaussians), self._lam(), **self._how()) * self._frame.unit
        return np.hypot(base, apart).astype(self._dtype, copy=False)

    def neighbors_graph(self, radius: float | None = None) -> csr_array:
        """Return the GT distances up to `radius` (``eps_`` by default) as a sparse matrix.

        Zeros, the diagonal among them, are stored; pairs with d² ≤ radius²·(1 + 1e-9) are inside.
        """
        check_is_fitted(self, "points_")
        radius = self.eps_ if radius is None else _validation.check_radius(radius, "radius")
        if self._iteration.is_base_metric:
            return super().neighbors_graph(radius)
        graph = radius_graph(self._gaussians(), self._lam(), radius / self._frame.unit, **self._how())
        graph.data = self._in_units(graph.data)
        return graph

    def kneighbors(self, X: npt.ArrayLike | None = None, n_neighbors: int = 5) -> tuple[AnyArray, IntArray]:
        """Return the GT distances to the nearest points of the fit and their indices, both (n_queries, n_neighbors).

        Exact, nearest first. Points of `X` travel with the transform first; without it the points of the fit are asked,
        and none is its own neighbour.
        """
        check_is_fitted(self, "points_")
        k = _validation.check_count("n_neighbors", n_neighbors, 1)
        n = len(self.points_)
        if k > n - (X is None):
            raise ValueError(f"n_neighbors={k} must be at most {n - (X is None)}: the fit has {n} points.")
        if X is None:
            return self._own_neighbors(k)
        self._refuse_base_metric("kneighbors of new points")
        queries, _ = self._travel(X)
        lengths, indices = nearest(self._gaussians(), self._lam(), queries, k, **self._how())
        return self._in_units(lengths), indices

    def embedding(self) -> AnyArray:
        """Return points (x, √λ·vec Σ^½) of a Euclidean space, shape (n, m + m(m+1)/2).

        Their Euclidean distance E satisfies d ≤ E ≤ √2·d for the GT distance d, with E = d where covariances commute.
        """
        check_is_fitted(self, "points_")
        self._refuse_base_metric("embedding")
        embedded = self._in_units(hellinger_embedding(self._gaussians(), self._lam()))
        embedded[:, : self.n_features_in_] = self.points_
        return embedded

    def linkage(self, method: linkage.Method = "single") -> FloatArray:
        """Return the dendrogram of the GT distance as a SciPy linkage matrix, shape (n - 1, 4).

        "single" is an exact minimum spanning tree in O(n) memory; "complete", "average", "weighted" and "ward" need the
        distances of all pairs.
        """
        check_is_fitted(self, "points_")
        if self._iteration.is_base_metric:
            return super().linkage(method)
        Z = linkage.linkage(self._gaussians(), self._lam(), method, **self._how())
        Z[:, 2] *= self._frame.unit
        return Z

    def _input_metric(self, n: int, distances: npt.ArrayLike | None) -> InputMetric | None:
        """Return the input metric, None for the Euclidean one."""
        if self.base not in ("euclidean", "metric"):
            raise ValueError(f"base={self.base!r} must be 'euclidean' or 'metric'.")
        if self.metric != "precomputed":
            if distances is not None:
                raise ValueError(
                    f"distances are given, but metric={self.metric!r}; set metric='precomputed' to use them."
                )
            return None if self.metric == "euclidean" else CoordinateMetric(self.metric, n_jobs=self.n_jobs)
        if distances is None:
            raise ValueError(
                "metric='precomputed' needs fit(X, distances=D) with the coordinates X beside the matrix D: without "
                "coordinates there are no covariances. For a metric alone use WassersteinTransform."
            )
        metric = PrecomputedMetric(distances)
        if len(metric.distances) != n:
            raise ValueError(
                f"distances have {len(metric.distances)} rows, but X has {n} points; they must be the same."
            )
        return metric

    def _radius(self, points: FloatArray, weights: FloatArray, metric: InputMetric | None) -> float:
        if self.eps is not None:
            return _validation.check_radius(self.eps)
        if isinstance(metric, PrecomputedMetric):
            return typical_radius_of_matrix(metric.distances)
        return typical_radius(points[weights > 0.0], self.metric)

    def _base_metric(self) -> InputMetric:
        return cast(InputMetric, self._iteration.metric)

    def _refuse_base_metric(self, what: str) -> None:
        if self._iteration.is_base_metric:
            raise ValueError(
                f"{what} needs base='euclidean'; with base={self.base!r} use distances(), of all points fitted."
            )

    def _own_neighbors(self, k: int) -> tuple[AnyArray, IntArray]:
        """Return the neighbours of the points of the fit among each other."""
        n = len(self.points_)
        gaussians, base = self._gaussians(), None
        if self._iteration.is_base_metric:
            base = self._base_metric().all_pairs(self._frame.leave(gaussians.points)) / self._frame.unit
        lengths, indices = nearest(gaussians, self._lam(), gaussians, k + 1, base=base, **self._how())
        # Each point finds itself, or others at the same place with lower indices; one of them is left out.
        is_self = indices == np.arange(n)[:, None]
        is_self[~is_self.any(axis=1), k] = True
        keep = ~is_self
        return self._in_units(lengths[keep].reshape(n, k)), indices[keep].reshape(n, k)

    def _make_iteration(self, n_features: int, metric: InputMetric | None) -> GaussianIteration:
        profile = find_profile(self.kernel, n_features)
        if profile is not None and metric is not None:
            raise ValueError(f"kernel={self.kernel!r} needs metric='euclidean'; other metrics have closed balls only.")
        return GaussianIteration(
            eps=self.eps_,
            lam=self._lam(),
            profile=profile,
            n_eig=self._n_eig(n_features),
            metric=metric,
            is_base_metric=metric is not None and self.base == "metric",
            variant=Variant(merges=bool(self.merge)),
            n_threads=effective_n_jobs(_validation.check_n_jobs(self.n_jobs)),
        )

    def _travel(self, X: npt.ArrayLike) -> tuple[Gaussians, AnyArray]:
        """Return where new points end, in the frame, and the points themselves."""
        check_is_fitted(self, "points_")
        X = check_points(self, X, is_new=False)
        points = X.astype(np.float64, copy=False)
        _validation.check_extent(np.vstack([self._start, points]), self.eps_)
        return self._iteration.travel(self._frame, self._states, points), X

    def _in_units(self, lengths: FloatArray) -> AnyArray:
        return (lengths * self._frame.unit).astype(self._dtype, copy=False)

    def _how(self) -> dict[str, Any]:
        return {"n_eig": self._n_eig(self.n_features_in_), "n_jobs": self.n_jobs}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class GaussianTransform(_LocalTransform):
    """The Gaussian transform: points drawn to the means of their neighbourhoods under a distance that sees shape.

    Around every point a Gaussian is estimated from its neighbourhood. The GT distance between two points compares both
    their positions and these Gaussians,

        d(x, x')² = ‖x − x'‖² + λ·dcov²(Σ(x), Σ(x')),

    with dcov the Bures distance. Each iteration moves every point to the mean of its closed GT ball of radius eps and
    takes the covariances of the moved points anew (Algorithm 1 of the paper). Edges and crossings are thereby kept
    apart that mean shift (λ = 0) runs together.

    Parameters
    ----------
    eps : float, optional
        Radius of the neighbourhoods, in the units of the data. By default the median distance to the 16th nearest
        neighbour.
    lam : float, default 1
        Weight λ ≥ 0 of the covariances; 0 is mean shift.
    n_iter : int, default 1
        Iterations to run; 0 only measures distances.
    kernel : {"truncated", "gaussian", "cauchy"} or callable, default "truncated"
        Weight of a neighbour at distance d: 1 up to eps and 0 beyond, exp(−r/2), (1+r)^−(m/2+1), or a function of an
        array of r = d²/eps². Smooth kernels look at all pairs of points.
    metric : str or callable, default "euclidean"
        Metric of the first balls: any name that scikit-learn's `pairwise_distances` knows, a function of two points, or
        "precomputed" with the matrix given to `fit` beside the coordinates.
    base : {"euclidean", "metric"}, default "euclidean"
        What the covariances are added to: ‖x − x'‖ as in the paper, or the metric, d² = d_X² + λ·dcov². A precomputed
        one stays as it is while the points move.
    n_eig : int, optional
        Keep only this many eigenvalues in the trace of the Bures distance, as the paper's experiments do. It is
        another distance, not only a faster one, and 0 only between covariances that are equal: those with dcov² up to
        1e-12 of the larger trace. By default all are kept.
    merge : bool, default True
        Merge points that have become one, adding up their weights; faster, with the same result.
    tol : float, default 0
        Stop when no point moves by more than ``tol * eps``; 0 runs all iterations.
    store_history : bool, default False
        Keep the Gaussians of every iteration in `history_`.
    n_jobs : int, optional
        Threads to use, by default all cores; the result does not depend on it.
    callback : callable, optional
        Called with a `Progress` after every pass over the data.

    Attributes
    ----------
    points_ : array of shape (n, m)
        Where the points are after the iterations.
    covariances_ : array of shape (n, m, m)
        Covariance of the neighbourhood of each, made when it is first asked for. In many dimensions it may not fit into
        memory, and a MemoryError says so.
    factors_ : Factors
        The same in little memory: Σ_i = F_iᵀF_i with the rows F_i = ``factors_[i]`` of shape (rank, m), the principal
        axes of the neighbourhood, each as long as its standard deviation, the longest first.
    eps_ : float
        The radius used.
    n_iter_ : int
        Iterations run.
    history_ : list of Gaussians, or None
        With `store_history`, points and covariances after 0, 1, … iterations; the covariances as Factors where
        matrices of more than 8 dimensions would take twice as much memory.
    n_features_in_, feature_names_in_
        As for every estimator of scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> import gaussian_transform as gt
    >>> line = np.c_[np.arange(9.0), [0.1, -0.1, 0, 0.1, -0.1, 0, 0.1, -0.1, 0]]
    >>> cleaned = gt.GaussianTransform(eps=2.5, n_iter=2).fit_transform(line)
    >>> bool(np.abs(cleaned[:, 1]).max() < 0.05)
    True
    """

    def __init__(
        self,
        eps: float | None = None,
        lam: float = 1.0,
        *,
        n_iter: int = 1,
        kernel: str | Callable[..., Any] = "truncated",
        metric: str | Callable[..., float] = "euclidean",
        base: Literal["euclidean", "metric"] = "euclidean",
        n_eig: int | None = None,
        merge: bool = True,
        tol: float = 0.0,
        store_history: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.eps = eps
        self.lam = lam
        self.n_iter = n_iter
        self.kernel = kernel
        self.metric = metric
        self.base = base
        self.n_eig = n_eig
        self.merge = merge
        self.tol = tol
        self.store_history = store_history
        self.n_jobs = n_jobs
        self.callback = callback

    def _lam(self) -> float:
        return _validation.check_lam(self.lam)

    def _n_eig(self, n_features: int) -> int | None:
        if self.n_eig is None:
            return None
        n_eig = _validation.check_count("n_eig", self.n_eig, 1)
        return None if n_eig >= n_features else n_eig


class MeanShiftTransform(_LocalTransform):
    """Blurring mean shift: each iteration moves every point to the mean of its Euclidean ball; the λ = 0 member.

    Parameters
    ----------
    eps : float, optional
        Radius of the balls; by default the median distance to the 16th nearest neighbour.
    n_iter, kernel, metric, base, merge, tol, store_history, n_jobs, callback
        As for `GaussianTransform`.

    Attributes
    ----------
    points_, covariances_, factors_, eps_, n_iter_, history_
        As for `GaussianTransform`.

    Examples
    --------
    >>> import gaussian_transform as gt
    >>> gt.MeanShiftTransform(eps=1.5).fit_transform([[0.0], [1.0], [5.0]]).ravel()
    array([0.5, 0.5, 5. ])
    """

    def __init__(
        self,
        eps: float | None = None,
        *,
        n_iter: int = 1,
        kernel: str | Callable[..., Any] = "truncated",
        metric: str | Callable[..., float] = "euclidean",
        base: Literal["euclidean", "metric"] = "euclidean",
        merge: bool = True,
        tol: float = 0.0,
        store_history: bool = False,
        n_jobs: int | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.eps = eps
        self.n_iter = n_iter
        self.kernel = kernel
        self.metric = metric
        self.base = base
        self.merge = merge
        self.tol = tol
        self.store_history = store_history
        self.n_jobs = n_jobs
        self.callback = callback

    def _lam(self) -> float:
        return 0.0
