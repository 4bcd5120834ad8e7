"""The Wasserstein transform: distances between points become transport distances between their neighbourhoods.

One iteration takes the closed balls of the current metric D^k, restricts the weights to each and normalises them to a
probability measure, and lets D^{k+1}(i, j) be the exact p-Wasserstein distance of the two, with ground metric D^k (the
paper's Definition "The Wasserstein transform", with the truncation as localisation operator). WT1 is p = 1, WT2 p = 2.

Points with the same ball are at distance 0, and each pair of distinct balls is solved once. With p = 1 and the triangle
inequality, mass common to both balls stays where it is, which leaves much smaller problems.
"""

from __future__ import annotations

import math
import numbers
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from scipy.cluster import hierarchy
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist, squareform
from sklearn.base import BaseEstimator
from sklearn.metrics import pairwise_distances
from sklearn.utils.validation import check_is_fitted, validate_data

from gaussian_transform._kernels.transport import Problem, Tree, ball_distances, count_triangle_violations
from gaussian_transform._parallel import effective_n_jobs, run_ranges
from gaussian_transform._shapes import check_memory
from gaussian_transform._typing import AnyArray, FloatArray, IntArray
from gaussian_transform._validation import check_count, check_n_jobs, check_radius, check_weights
from gaussian_transform.iteration import Progress
from gaussian_transform.linkage import Method
from gaussian_transform.local_gaussians import TIE_TOLERANCE

__all__ = ["WassersteinTransform", "choose_eps", "wasserstein_iterates", "wasserstein_transform"]

_N_NEIGHBORS = 16
_N_REPORTS = 50
_REMEDY = "take a sample of the points, or use GaussianTransform, which needs no matrix"


def wasserstein_transform(
    distances: npt.ArrayLike,
    eps: float,
    *,
    p: float = 2,
    n_iter: int = 1,
    weights: npt.ArrayLike | None = None,
    n_jobs: int | None = None,
    callback: Callable[[Progress], object] | None = None,
) -> FloatArray:
    """Return the distances D^k after k iterations of the Wasserstein transform.

    With B_i the closed eps-ball of D^k around point i and α_i the weights restricted to it and normalised,

        D^{k+1}(i, j) = W_p(α_i, α_j) = min over couplings π of (Σ π(x, y)·D^k(x, y)^p)^(1/p).

    Parameters
    ----------
    distances : array_like of shape (n, n)
        Distances D⁰ of any finite metric space.
    eps : float
        Radius of the balls; a point is inside iff d² ≤ eps²·(1 + 1e-9).
    p : float
        Exponent, at least 1: 1 for WT1, 2 for WT2.
    n_iter : int
        Iterations k; 0 returns D⁰.
    weights : array_like of shape (n,), optional
        Weights of the points, equal by default. A point whose ball holds no weight is its own measure.
    n_jobs : int, optional
        Threads; all cores by default. The result does not depend on it.
    callback : callable, optional
        Called with a `Progress` now and then; its `n_points` is the number of distinct balls.

    Returns
    -------
    array of shape (n, n)
        D^k: symmetric, with zero diagonal, and again a (pseudo)metric if D⁰ is one.

    Examples
    --------
    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> wasserstein_transform(line, eps=1.0, p=1)
    array([[0. , 0.5, 1.5, 2. ],
           [0.5, 0. , 1. , 1.5],
           [1.5, 1. , 0. , 0.5],
           [2. , 1.5, 0.5, 0. ]])
    """
    ground = _check_distances(distances, "distances")
    options: dict[str, Any] = {"p": p, "n_iter": n_iter, "weights": weights, "n_jobs": n_jobs, "callback": callback}
    iterates = deque(wasserstein_iterates(ground, eps, **options), maxlen=1)
    return iterates[0] if iterates else ground.copy()


def wasserstein_iterates(
    ground: FloatArray,
    eps: float,
    *,
    p: float = 2,
    n_iter: int = 1,
    weights: npt.ArrayLike | None = None,
    n_jobs: int | None = None,
    callback: Callable[[Progress], object] | None = None,
) -> Iterator[FloatArray]:
    """Yield D¹, …, D^n_iter of the Wasserstein transform one after the other.

    Parameters
    ----------
    ground : array of shape (n, n)
        Distances D⁰, taken as they are: finite, not negative, symmetric, with zero diagonal.
    eps, p, n_iter, weights, n_jobs, callback
        As in `wasserstein_transform`.

    Yields
    ------
    array of shape (n, n)
        The next distances.

    Examples
    --------
    >>> pair = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> [float(D[0, 1]) for D in wasserstein_iterates(pair, 0.5, n_iter=2)]
    [1.0, 1.0]
    """
    eps, p = check_radius(eps), _check_exponent(p)
    n_iter, n_threads = check_count("n_iter", n_iter, 0), effective_n_jobs(check_n_jobs(n_jobs))
    masses = _whole_weights(weights, ground.shape[0])
    for iteration in range(1, n_iter + 1):

        def report(fraction: float, n_balls: int, iteration: int = iteration) -> None:
            if callback is not None:
                callback(Progress(iteration, n_iter, (iteration - 1 + fraction) / n_iter, n_balls))

        balls = _distinct_balls(ground, eps, masses)
        n_blocks = 1 if callback is None else _N_REPORTS
        ground = _ball_distances(ground, balls, p, n_threads=n_threads, n_blocks=n_blocks, report=report)
        yield ground


def choose_eps(distances: FloatArray) -> float:
    """Return a radius for the balls: the median over all points of the distance to the 16th nearest other point.

    With fewer than 17 points the farthest other point counts. Where that median is 0 (most points have 16 copies) it is
    the smallest such distance above 0, and if there is none, 1: with all points in one place no radius matters.

    Parameters
    ----------
    distances : array of shape (n, n)
        Distances with zero diagonal.

    Returns
    -------
    float
        The radius.

    Examples
    --------
    >>> choose_eps(np.array([[0.0, 2.0], [2.0, 0.0]]))
    2.0
    """
    k = min(_N_NEIGHBORS, distances.shape[0] - 1)
    reach = np.array([np.partition(row, k)[k] for row in distances])
    eps = float(np.median(reach))
    if eps == 0.0:
        eps = float(np.min(reach[reach > 0.0], initial=np.inf))
    return eps if 0.0 < eps < np.inf else 1.0


class _Balls(NamedTuple):
    """Distinct balls: ball b holds ``members[begin[b]:begin[b + 1]]`` with `weights` that add up to ``mass[b]``."""

    of_point: IntArray
    begin: IntArray
    members: IntArray
    weights: FloatArray
    mass: FloatArray


def _distinct_balls(ground: FloatArray, eps: float, masses: FloatArray) -> _Balls:
    """Return the closed balls, each once, without the points that have no weight."""
    reach = eps * math.sqrt(1.0 + TIE_TOLERANCE)
    has_mass = masses > 0.0
    number: dict[bytes, int] = {}
    of_point = np.empty(ground.shape[0], np.int64)
    members: list[IntArray] = []
    for i, row in enumerate(ground):
        ball = np.flatnonzero((row <= reach) & has_mass)
        if ball.size == 0:
            ball = np.array([i])
        of_point[i] = number.setdefault(ball.tobytes(), len(members))
        if of_point[i] == len(members):
            members.append(ball)
    # Powers of two keep whole numbers exact, and products of any two masses in range.
    weights = [masses[ball] if masses[ball[0]] > 0.0 else np.ones(1) for ball in members]
    exponents = [math.frexp(float(w.sum()))[1] for w in weights]
    weights = [np.ldexp(w, -e) for w, e in zip(weights, exponents, strict=True)]
    return _Balls(
        of_point=of_point,
        begin=np.cumsum([0, *(ball.size for ball in members)]),
        members=np.concatenate(members),
        weights=np.concatenate(weights),
        mass=np.array([w.sum() for w in weights]),
    )


def _ball_distances(
    ground: FloatArray,
    balls: _Balls,
    p: float,
    *,
    n_threads: int,
    n_blocks: int,
    report: Callable[[float, int], None],
) -> FloatArray:
    """Return W_p of the balls of all pairs of points; report after each of about `n_blocks` equal parts of the work."""
    n_balls = balls.mass.size
    largest = int(np.diff(balls.begin).max())
    is_cancelling = p == 1.0 and _is_metric(ground, n_threads)
    between = np.empty((n_balls, n_balls))

    def work(first: int, start: int, stop: int) -> None:
        problem, tree = _work_arrays(largest)
        ball_distances(
            first + start, first + stop, balls.begin, balls.members, balls.weights, balls.mass, ground, p,
            is_cancelling, problem, tree, between,
        )  # fmt: skip

    # Row r has n_balls − r − 1 pairs: these edges leave the same number of pairs in each block.
    edges = np.unique(np.rint(n_balls * (1.0 - np.sqrt(1.0 - np.linspace(0.0, 1.0, n_blocks + 1)))).astype(np.int64))
    for first, end in pairwise(edges.tolist()):
        run_ranges(partial(work, first), end - first, n_threads=n_threads, grain=1)
        report(1.0 - (1.0 - end / n_balls) ** 2, n_balls)
    return between if n_balls == balls.of_point.size else between[np.ix_(balls.of_point, balls.of_point)]


def _work_arrays(n: int) -> tuple[Problem, Tree]:
    """Return what a thread needs to solve problems with up to `n` points a side."""
    problem = Problem(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty((n, n)))
    parent, child, after, before, depth = np.empty((5, 2 * n), np.int64)
    return problem, Tree(parent, child, after, before, depth, np.empty(2 * n), np.empty(2 * n))


def _is_metric(ground: FloatArray, n_threads: int) -> bool:
    """Tell whether the triangle inequality holds, up to rounding."""
    counts = np.zeros(ground.shape[0], np.int64)
    run_ranges(lambda a, b: count_triangle_violations(a, b, ground, counts), counts.size, n_threads=n_threads, grain=16)
    return not counts.any()


def _whole_weights(weights: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return the weights as whole numbers if they are multiples of the smallest one, else as they are.

    Transport of whole numbers is exact, and multiples are what equal weights and counts of copies are once normalised.
    """
    check_weights(weights, n)
    given = np.broadcast_to(np.asarray(1.0 if weights is None else weights, dtype=np.float64), n)
    # By a power of two: sums stay in range, whole numbers stay exact.
    given = np.ldexp(given, -math.frexp(float(given.max()))[1])
    smallest = np.min(given[given > 0.0])
    if smallest < 2.0**-26 / n:  # products of two masses would not be exact
        return given
    multiples = given / smallest
    whole = np.rint(multiples)
    return whole if np.all(np.abs(multiples - whole) <= 4.0 * np.finfo(np.float64).eps * whole) else given


def _check_exponent(p: Any) -> float:
    if isinstance(p, bool) or not isinstance(p, numbers.Real):
        raise TypeError(f"p={p!r} must be a number of at least 1: 1 for WT1, 2 for WT2.")
    value = float(p)
    if not 1.0 <= value < math.inf:
        raise ValueError(f"p={p!r} must be a finite number of at least 1: 1 for WT1, 2 for WT2.")
    return value


def _check_distances(distances: npt.ArrayLike, name: str) -> FloatArray:
    """Return distances as a float64 matrix with zero diagonal that is symmetric in every bit."""
    given = np.asarray(distances)
    if given.ndim != 2 or given.shape[0] != given.shape[1] or given.size == 0:
        raise ValueError(
            f"{name} has shape {given.shape}; it must be the square matrix of the distances of all pairs of points "
            '(for coordinates of points use WassersteinTransform with metric="euclidean").'
        )
    if not (np.issubdtype(given.dtype, np.number) or given.dtype in (np.bool_, np.object_)) or np.iscomplexobj(given):
        raise ValueError(f"{name} has dtype {given.dtype}; distances must be real numbers.")
    # What rounding, in the precision given, leaves of a difference of squares.
    precision = np.finfo(given.dtype).eps if given.dtype in (np.float16, np.float32) else np.finfo(np.float64).eps
    # Kernels are compiled for arrays that may be written to; others are copied.
    checked = np.require(given, np.float64, ["C", "W"])
    _refuse(name, checked, ~np.isfinite(checked), "must be a finite number; drop the point or fill in its distances")
    _refuse(name, checked, checked < 0.0, "must not be negative; distances are at least 0")
    tolerance = float(np.sqrt(precision)) * float(checked.max())
    diagonal = np.diag(checked)
    if np.any(diagonal > tolerance):
        i = int(np.argmax(diagonal))
        raise ValueError(f"{name}[{i}, {i}]={diagonal[i]:g} must be 0: every point is at distance 0 from itself.")
    difference = np.abs(checked - checked.T)
    i, j = (int(k) for k in np.unravel_index(np.argmax(difference), difference.shape))
    if difference[i, j] > tolerance:
        raise ValueError(
            f"{name}[{i}, {j}]={checked[i, j]:g} and {name}[{j}, {i}]={checked[j, i]:g} must be equal; symmetrise the "
            "matrix first, for instance by (D + D.T) / 2."
        )
    if difference[i, j] > 0.0:
        checked = 0.5 * checked + 0.5 * checked.T
    if diagonal.any():
        checked = checked.copy()
        np.fill_diagonal(checked, 0.0)
    return checked


def _refuse(name: str, matrix: FloatArray, is_wrong: npt.NDArray[np.bool_], why: str) -> None:
    if is_wrong.any():
        i, j = (int(k) for k in np.unravel_index(np.argmax(is_wrong), is_wrong.shape))
        raise ValueError(f"{name}[{i}, {j}]={matrix[i, j]:g} {why}.")


class WassersteinTransform(BaseEstimator):  # type: ignore[misc]
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
    >>> X = np.array([[0.0], [1.0], [2.0], [9.0]])
    >>> WassersteinTransform(eps=1.0, p=1).fit(X).distances_
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
        ground = _check_distances(X if is_precomputed else self._pairwise(X), "X" if is_precomputed else "metric(X)")
        self.eps_ = choose_eps(ground) if self.eps is None else check_radius(self.eps)
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
        """Return the distances after the last iteration, of shape (n, n)."""
        check_is_fitted(self)
        distances: AnyArray = self.distances_
        return distances

    def linkage(self, method: Method = "single") -> FloatArray:
        """Return the dendrogram of hierarchical clustering in the transformed distance.

        Parameters
        ----------
        method : {"single", "complete", "average", "weighted", "ward"}
            As in `scipy.cluster.hierarchy.linkage`.

        Returns
        -------
        array of shape (n - 1, 4)
            Merges as SciPy writes them.
        """
        distances = self.distances()
        if method not in get_args(Method):
            raise ValueError(
                f"method={method!r} is unknown; it must be one of {', '.join(map(repr, get_args(Method)))}."
            )
        if distances.shape[0] == 1:
            return np.empty((0, 4))
        merges: FloatArray = hierarchy.linkage(squareform(distances, checks=False), method)
        return merges

    def neighbors_graph(self, radius: float) -> csr_array:
        """Return the sparse matrix of all transformed distances with d² ≤ radius²·(1 + 1e-9).

        Parameters
        ----------
        radius : float
            Pairs farther apart are left out.

        Returns
        -------
        csr_array of shape (n, n)
            Distances with sorted indices; zeros, the diagonal among them, are stored.
        """
        distances = self.distances()
        is_near = distances <= check_radius(radius, "radius") * math.sqrt(1.0 + TIE_TOLERANCE)
        begin = np.concatenate([[0], np.cumsum(is_near.sum(axis=1))])
        return csr_array((distances[is_near], np.nonzero(is_near)[1], begin), shape=distances.shape)

    def _pairwise(self, X: AnyArray) -> AnyArray:
        if isinstance(self.metric, str) and self.metric in ("euclidean", "l2"):
            # By differences, not by products: near points keep their distance, and ties on a grid stay ties.
            return cdist(X, X)
        distances: AnyArray = pairwise_distances(X, metric=self.metric)
        return distances

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.metric, str) and self.metric == "precomputed"
        return tags
