"""What a fitted transform keeps, and how its users see it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gaussian_transform._parallel import effective_n_jobs
from gaussian_transform._shapes import check_memory, principal_factors
from gaussian_transform._typing import AnyArray, Factors, FloatArray, Gaussians, IntArray
from gaussian_transform.iteration import Frame, State


class FittedStates:
    """The distinct Gaussians of every iteration (`_states`), in the units of `_frame`, told in the user's."""

    n_jobs: int | None
    n_iter_: int
    _frame: Frame
    _states: list[State]
    _start: FloatArray
    _dtype: np.dtype[Any]

    @cached_property
    def covariances_(self) -> AnyArray:
        """Covariance of the neighbourhood of each point, shape (n, m, m)."""
        check_is_fitted(self)
        covariances = self._covariances_at(self.n_iter_)
        if not isinstance(covariances, Factors):
            return covariances
        n, m, _ = covariances.shape
        check_memory(
            covariances.dtype.itemsize * n * m * m,
            f"covariances_ of {n} points in {m} dimensions",
            "use factors_, which takes less, or factors_[:10].dense() for the first ten",
        )
        return covariances.dense()

    @cached_property
    def factors_(self) -> Factors:
        """Factors of the covariances: Σ_i = F_iᵀF_i with F_i = ``factors_[i]``, of shape (rank, m)."""
        check_is_fitted(self)
        principal = principal_factors(self._gaussians().covariances, 0, effective_n_jobs(self.n_jobs))
        return self._scaled(Factors(principal.rows, principal.begin, principal.rank))

    def _forget_shapes(self) -> None:
        """Forget what an earlier fit was asked for."""
        for name in ("covariances_", "factors_"):
            self.__dict__.pop(name, None)

    def _members(self, k: int) -> IntArray:
        """Return which point of state `k` each of the user's points has become."""
        members = self._states[0].of_previous
        for state in self._states[1 : k + 1]:
            members = state.of_previous[members]
        return members

    def _gaussians(self) -> Gaussians:
        """Return the final Gaussian of each of the user's points, in the frame."""
        return self._states[-1].gaussians.take(self._members(self.n_iter_))

    def _at(self, k: int) -> Gaussians:
        """Return the Gaussian of each of the user's points after `k` iterations, in the user's units and precision."""
        return Gaussians(self._points_at(k), self._covariances_at(k))

    def _points_at(self, k: int) -> AnyArray:
        now = self._states[k].gaussians.points[self._members(k)]
        is_still = np.all(now == self._frame.enter(self._start), axis=1)
        points = np.where(is_still[:, None], self._start, self._frame.leave(now))
        return points.astype(self._dtype)

    def _covariances_at(self, k: int) -> AnyArray | Factors:
        covariances = self._states[k].gaussians.covariances[self._members(k)]
        if isinstance(covariances, Factors):
            return self._scaled(covariances)
        return (covariances * self._frame.unit**2).astype(self._dtype)

    def _scaled(self, factors: Factors) -> Factors:
        """Return factors in the user's units and precision."""
        return replace(factors, rows=(factors.rows * self._frame.unit).astype(self._dtype))
