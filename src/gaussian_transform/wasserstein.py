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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gaussian_transform._kernels.transport import Problem, Tree, ball_distances, count_triangle_violations
from gaussian_transform._parallel import effective_n_jobs, run_ranges
from gaussian_transform._typing import FloatArray, IntArray
from gaussian_transform._validation import check_count, check_distances, check_n_jobs, check_radius, check_weights
from gaussian_transform.iteration import Progress
from gaussian_transform.local_gaussians import TIE_TOLERANCE

__all__ = ["wasserstein_iterates", "wasserstein_transform"]

_N_REPORTS = 50


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
    ground = check_distances(distances, "distances")
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
    if smallest < given.sum() * 2.0**-25:  # products of two masses would not be exact
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
