"""Algorithm 1 of the paper: one loop for the Gaussian transform and mean shift (λ = 0).

With N_i the closed ball of the current metric D^k around point i, one iteration moves every point to the weighted mean
of its ball, takes the covariance of the **moved** points over the **old** ball, and thereby has the next metric:

    x_i^{k+1} = mean of x^k over N_i,   Σ_i^{k+1} = covariance of x^{k+1} over N_i,
    D^{k+1}(i, j)² = ‖x_i^{k+1} − x_j^{k+1}‖² + λ·dcov²(Σ_i^{k+1}, Σ_j^{k+1}).

Metrics are never stored: a state is the Gaussians N(x_i, Σ_i), from which balls are found again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np
from scipy.sparse import csr_array

from gaussian_transform._typing import Factors, FloatArray, Gaussians, IntArray, KeyArray
from gaussian_transform.local_gaussians import (
    BallLists,
    BallMeans,
    Lists,
    LocalMeasures,
    SmoothMeasures,
    lists_by_full_matrix,
    lists_by_metric,
    lists_by_tree,
    source_keys,
)
from gaussian_transform.metrics import InputMetric
from gaussian_transform.propagation import PropagatingSweep
from gaussian_transform.row_sweep import RowSweep


class Variant(NamedTuple):
    """How neighbourhoods are found; the result is the same for all.

    Attributes
    ----------
    tests_all_pairs : bool
        Compute the distances of all pairs, instead of only those within reach by the Euclidean distance.
    propagates : bool
        Test each pair once and enter it in both balls; in one to three dimensions, where lists are not kept.
    merges : bool
        Merge collocated points, adding up their weights.
    """

    tests_all_pairs: bool = False
    propagates: bool = False
    merges: bool = True


VARIANTS = {
    "GT": Variant(tests_all_pairs=True, propagates=False, merges=False),
    "GT-v1": Variant(propagates=False, merges=False),
    "GT-v2": Variant(propagates=True, merges=False),
    "GT-v3": Variant(propagates=False, merges=True),
    "GT-v4": Variant(propagates=True, merges=True),
}
"""The five variants of the paper's table on acceleration."""


class Progress(NamedTuple):
    """Where a fit stands.

    Attributes
    ----------
    iteration : int
        The iteration that is being worked on; 0 while the first covariances are taken.
    n_iter : int
        Iterations to run.
    fraction : float
        Share of the passes over the data that are done, from 0 to 1.
    n_points : int
        Distinct points left after merging.
    """

    iteration: int
    n_iter: int
    fraction: float
    n_points: int


class State(NamedTuple):
    """The distinct points after an iteration.

    Attributes
    ----------
    gaussians : Gaussians
        The points and the covariances of their balls, in the units of the frame.
    weights : array of shape (n_distinct,)
        Mass of each; masses of merged points add up.
    of_previous : array of shape (n_distinct of the previous state,)
        Which of these points each point of the previous state has become (for state 0, each point of the user's).
    """

    gaussians: Gaussians
    weights: FloatArray
    of_previous: IntArray


class Frame(NamedTuple):
    """Units of the iteration: the user's X is ``center + unit * x``.

    A far-off origin and very large or small coordinates thereby lose nothing: ``unit`` is the power of two nearest to
    eps, and squares of x stay in range.
    """

    center: FloatArray
    unit: float

    @classmethod
    def of(cls, points: FloatArray, eps: float) -> Frame:
        """Return the frame for points of shape (n, m)."""
        center = 0.5 * points.min(axis=0) + 0.5 * points.max(axis=0)
        return cls(center, float(np.exp2(np.round(np.log2(eps)))))

    def enter(self, points: FloatArray) -> FloatArray:
        """Return coordinates in this frame."""
        return np.ascontiguousarray((points - self.center) / self.unit)

    def leave(self, points: FloatArray) -> FloatArray:
        """Return the user's coordinates."""
        return self.center + self.unit * points


@dataclass(frozen=True)
class GaussianIteration:
    """The iteration with all its parameters; `run` fits a cloud, `travel` takes unseen points along.

    Attributes
    ----------
    eps, lam : float
        Radius of the balls and weight of the covariances.
    profile : callable or None
        Smooth kernel, mapping an array of d²/ε² to weights; None for closed balls.
    n_eig : int or None
        Truncate traces to this many eigenvalues.
    metric : InputMetric or None
        Metric of the first balls; None for the Euclidean one.
    is_base_metric : bool
        Whether that metric takes the place of ‖x − x'‖ in the GT distance too.
    variant : Variant
        How neighbourhoods are found.
    n_threads : int
        Threads to use.
    """

    eps: float
    lam: float
    profile: Callable[[FloatArray], FloatArray] | None = None
    n_eig: int | None = None
    metric: InputMetric | None = None
    is_base_metric: bool = False
    variant: Variant = field(default_factory=Variant)
    n_threads: int = 1

    def run(
        self,
        points: FloatArray,
        weights: FloatArray,
        n_iter: int,
        *,
        tol: float = 0.0,
        callback: Callable[[Progress], object] | None = None,
    ) -> tuple[Frame, list[State]]:
        """Run up to `n_iter` iterations and return the states from 0 on.

        Stops early when no point moves by more than ``tol * eps``, if `tol` is above 0.
        """
        n_passes = 1 + 2 * n_iter

        def report(iteration: int, passes_done: int, state: State) -> None:
            if callback is not None:
                callback(Progress(iteration, n_iter, passes_done / n_passes, len(state.weights)))

        frame = Frame.of(points, self.eps)
        states = [self._initial(frame, frame.enter(points), weights)]
        report(0, 1, states[0])
        for k in range(n_iter):
            gaussians, mass = states[-1].gaussians, states[-1].weights
            balls = self._measures(frame, gaussians, mass)
            means = balls.means()
            report(k + 1, 2 * k + 2, states[-1])
            moved = gaussians.points + means.shift
            states.append(self._merge(Gaussians(moved, balls.covariances(moved)), mass, _keys_of_moved(means)))
            is_settled = tol > 0.0 and _longest(means.shift) * frame.unit <= tol * self.eps
            report(k + 1, n_passes if is_settled else 2 * k + 3, states[-1])
            if is_settled:
                break
        return frame, states

    def travel(self, frame: Frame, states: list[State], points: FloatArray) -> Gaussians:
        """Take unseen points through the iterations of a fit, as points of no mass; the result is in the frame."""
        here = frame.enter(points)
        first = states[0]
        balls = self._first_measures(frame, first.gaussians, first.weights, queries=_unshaped(here))
        travellers = Gaussians(here, balls.covariances(first.gaussians.points))
        for now, after in pairwise(states):
            balls = self._measures(frame, now.gaussians, now.weights, queries=travellers)
            moved = travellers.points + balls.means().shift
            travellers = Gaussians(moved, balls.covariances(after.gaussians.points[after.of_previous]))
        return travellers

    def _initial(self, frame: Frame, points: FloatArray, weights: FloatArray) -> State:
        """Return state 0: the points where they are, with the covariances of their balls in the input metric."""
        is_mergeable = self.variant.merges and (self.metric is None or self.metric.is_of_coordinates)
        distinct = _Distinct.rows(points) if is_mergeable else None
        of_previous = np.arange(len(points)) if distinct is None else distinct.inverse
        if distinct is not None:
            points, weights = points[distinct.first], distinct.add_up(weights)
        balls = self._first_measures(frame, _unshaped(points), weights)
        return State(Gaussians(points, balls.covariances(points)), weights, of_previous)

    def _merge(self, gaussians: Gaussians, weights: FloatArray, ball_keys: KeyArray) -> State:
        """Return the next state; points whose balls had the same members have become the same Gaussian."""
        # Points at one place stay apart in a base metric that does not know where they are.
        is_fixed = self.is_base_metric and self.metric is not None and not self.metric.is_of_coordinates
        distinct = _Distinct.keys(ball_keys) if self.variant.merges and not is_fixed else None
        if distinct is None:
            return State(gaussians, weights, np.arange(len(weights)))
        return State(gaussians.take(distinct.first), distinct.add_up(weights), distinct.inverse)

    def _first_measures(
        self, frame: Frame, sources: Gaussians, weights: FloatArray, *, queries: Gaussians | None = None
    ) -> LocalMeasures:
        """Return the localised measures of the input metric."""
        if self.metric is None:
            return replace(self, lam=0.0)._measures(frame, sources, weights, queries=queries)
        lists = Lists.of(self._base_distances(frame, sources, queries))
        return BallLists(lists, sources, weights, queries=queries, n_threads=self.n_threads)

    def _measures(
        self, frame: Frame, sources: Gaussians, weights: FloatArray, *, queries: Gaussians | None = None
    ) -> LocalMeasures:
        """Return the localised measures of the GT distance."""
        eps, lam, n_eig, n_threads = self.eps / frame.unit, self.lam, self.n_eig, self.n_threads
        if self.profile is not None:
            return SmoothMeasures(
                sources,
                weights,
                eps=eps,
                lam=lam,
                profile=self.profile,
                queries=queries,
                n_eig=n_eig,
                n_threads=n_threads,
            )
        if self.is_base_metric:
            base = self._base_distances(frame, sources, queries)
            base.data /= frame.unit
            lists = lists_by_metric(base, sources, queries, eps=eps, lam=lam, n_eig=n_eig, n_threads=n_threads)
        elif self.variant.tests_all_pairs:
            lists = lists_by_full_matrix(sources, queries, eps=eps, lam=lam, n_eig=n_eig, n_threads=n_threads)
        elif sources.points.shape[1] > 3 or n_eig is not None:
            lists = lists_by_tree(sources, queries, eps=eps, lam=lam, n_eig=n_eig, n_threads=n_threads)
        else:
            sweep = PropagatingSweep if self.variant.propagates and queries is None else RowSweep
            return sweep(sources, weights, eps=eps, lam=lam, queries=queries, n_threads=n_threads)
        return BallLists(lists, sources, weights, queries=queries, n_threads=n_threads)

    def _base_distances(self, frame: Frame, sources: Gaussians, queries: Gaussians | None) -> csr_array:
        """Return the distances of the input metric up to eps, in the user's units."""
        metric = cast(InputMetric, self.metric)  # the callers have looked
        points = frame.leave(sources.points)
        if queries is None:
            return metric.within(self.eps, points)
        return metric.within(self.eps, frame.leave(queries.points), points)


class _Distinct(NamedTuple):
    """Groups of equal points: the first member of each, and the group of each point."""

    first: IntArray
    inverse: IntArray

    @classmethod
    def keys(cls, keys: KeyArray) -> _Distinct | None:
        """Group equal keys, groups in the order of their first members; None where all differ."""
        ordered = np.sort(keys)
        if not np.any(ordered[1:] == ordered[:-1]):
            return None
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        return cls(first[order], rank[inverse])

    @classmethod
    def rows(cls, points: FloatArray) -> _Distinct | None:
        """Group equal rows; None where all differ."""
        bits = np.ascontiguousarray(points + 0.0).view(np.uint64)  # + 0.0 turns -0.0 into 0.0
        salt = np.uint64(0x9E3779B97F4A7C15)
        key = np.zeros(len(points), np.uint64)
        for column in bits.T:
            key = (key ^ column) * salt
            key ^= key >> np.uint64(32)
        distinct = cls.keys(key)
        if distinct is not None and not np.array_equal(points[distinct.first][distinct.inverse], points):
            _, first, inverse = np.unique(points, axis=0, return_index=True, return_inverse=True)
            return cls(first, inverse)
        return distinct

    def add_up(self, weights: FloatArray) -> FloatArray:
        """Return the total weight of each group."""
        return np.bincount(self.inverse, weights, minlength=self.first.size).astype(np.float64, copy=False)


def _keys_of_moved(means: BallMeans) -> KeyArray:
    """Return the keys of the balls; one without mass moves nothing, so that its points share no place and no key."""
    own_keys = source_keys(means.keys.size)
    return np.where(means.mass > 0.0, means.keys, own_keys)


def _unshaped(points: FloatArray) -> Gaussians:
    """Return Gaussians without extent, for metrics that are Euclidean."""
    return Gaussians(points, Factors.zeros(*points.shape))


def _longest(shift: FloatArray) -> float:
    return float(np.sqrt(np.max(np.einsum("ij,ij->i", shift, shift))))
