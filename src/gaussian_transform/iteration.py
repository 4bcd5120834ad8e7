"""Algorithm 1 of the paper: one loop for the Gaussian transform and mean shift (λ = 0).

With N_i the closed ball of the current metric D^k around point i, one iteration moves every point to the weighted mean of
its ball, takes the covariance of the **moved** points over the **old** ball, and thereby has the next metric:

    x_i^{k+1} = mean of x^k over N_i,   Σ_i^{k+1} = covariance of x^{k+1} over N_i,
    D^{k+1}(i, j)² = ‖x_i^{k+1} − x_j^{k+1}‖² + λ·dcov²(Σ_i^{k+1}, Σ_j^{k+1}).

Metrics are never stored: a state is the Gaussians N(x_i, Σ_i), from which balls are found again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gaussian_transform._typing import FloatArray, Gaussians, IntArray, KeyArray
from gaussian_transform.local_gaussians import BallLists, LocalMeasures, SmoothMeasures
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
    variant : Variant
        How neighbourhoods are found.
    n_threads : int
        Threads to use.
    """

    eps: float
    lam: float
    profile: Callable[[FloatArray], FloatArray] | None = None
    n_eig: int | None = None
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
            balls = self._measures(frame, gaussians, mass, self.lam)
            means = balls.means()
            report(k + 1, 2 * k + 2, states[-1])
            moved = gaussians.points + means.shift
            states.append(self._merge(Gaussians(moved, balls.covariances(moved)), mass, means.keys))
            report(k + 1, 2 * k + 3, states[-1])
            if tol > 0.0 and _longest(means.shift) * frame.unit <= tol * self.eps:
                break
        return frame, states

    def travel(self, frame: Frame, states: list[State], points: FloatArray) -> Gaussians:
        """Take unseen points through the iterations of a fit, as points of no mass; the result is in the frame."""
        here = frame.enter(points)
        first = states[0]
        balls = self._measures(frame, first.gaussians, first.weights, 0.0, queries=_unshaped(here))
        travellers = Gaussians(here, balls.covariances(first.gaussians.points))
        for now, after in zip(states, states[1:], strict=False):
            balls = self._measures(frame, now.gaussians, now.weights, self.lam, queries=travellers)
            moved = travellers.points + balls.means().shift
            travellers = Gaussians(moved, balls.covariances(after.gaussians.points[after.of_previous]))
        return travellers

    def _initial(self, frame: Frame, points: FloatArray, weights: FloatArray) -> State:
        """Return state 0: the points where they are, with the covariances of their balls in the input metric."""
        distinct = _Distinct.rows(points) if self.variant.merges else None
        of_previous = np.arange(len(points)) if distinct is None else distinct.inverse
        if distinct is not None:
            points, weights = points[distinct.first], distinct.add_up(weights)
        balls = self._measures(frame, _unshaped(points), weights, 0.0)
        return State(Gaussians(points, balls.covariances(points)), weights, of_previous)

    def _merge(self, gaussians: Gaussians, weights: FloatArray, ball_keys: KeyArray) -> State:
        """Return the next state; points whose balls had the same members have become the same Gaussian."""
        distinct = _Distinct.keys(ball_keys) if self.variant.merges else None
        if distinct is None:
            return State(gaussians, weights, np.arange(len(weights)))
        merged = Gaussians(*(array[distinct.first] for array in gaussians))
        return State(merged, distinct.add_up(weights), distinct.inverse)

    def _measures(
        self,
        frame: Frame,
        sources: Gaussians,
        weights: FloatArray,
        lam: float,
        *,
        queries: Gaussians | None = None,
    ) -> LocalMeasures:
        """Choose the way to go over the balls."""
        eps, n_threads = self.eps / frame.unit, self.n_threads
        if self.profile is not None:
            return SmoothMeasures(
                sources, weights, eps=eps, lam=lam, profile=self.profile, queries=queries, n_eig=self.n_eig,
                n_threads=n_threads,
            )  # fmt: skip
        if sources.points.shape[1] > 3 or self.n_eig is not None or self.variant.tests_all_pairs:
            return BallLists(
                sources, weights, eps=eps, lam=lam, queries=queries, n_eig=self.n_eig, n_threads=n_threads,
                tests_all_pairs=self.variant.tests_all_pairs,
            )  # fmt: skip
        sweep = PropagatingSweep if self.variant.propagates and queries is None else RowSweep
        return sweep(sources, weights, eps=eps, lam=lam, queries=queries, n_threads=n_threads)


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


def _unshaped(points: FloatArray) -> Gaussians:
    """Return Gaussians without extent, for metrics that are Euclidean."""
    return Gaussians(points, np.zeros((*points.shape, points.shape[1])))


def _longest(shift: FloatArray) -> float:
    return float(np.sqrt(np.max(np.einsum("ij,ij->i", shift, shift))))
