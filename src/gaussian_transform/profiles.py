"""Smooth kernels: profiles f of r = d²/ε², as in the paper's Definition of a multiscale smooth kernel.

A profile is bounded, differentiable, positive and decays fast enough that means and covariances exist; the stability
theorem for smooth kernels then holds for every sample, which it does not for closed balls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from gaussian_transform._parallel import elementwise
from gaussian_transform._typing import FloatArray

Profile: TypeAlias = Callable[[FloatArray], FloatArray]

KERNELS = ("truncated", "gaussian", "cauchy")


def find_profile(kernel: str | Callable[..., object], n_features: int) -> Profile | None:
    """Return the profile of a kernel by name, or of a user's function; None for closed balls ("truncated").

    "gaussian" is f(r) = exp(−r/2). "cauchy" is f(r) = (1+r)^−(m/2+1) in m dimensions: one power more than the paper's
    M_m needs to be finite. A function takes an array; a numba function of a number is compiled into a loop.
    """
    if kernel == "truncated":
        return None
    if kernel == "gaussian":
        return _gaussian
    if kernel == "cauchy":
        return partial(_cauchy, power=0.5 * n_features + 1.0)
    if callable(kernel):
        return _UserProfile(kernel)
    raise ValueError(f"kernel={kernel!r} must be one of {', '.join(map(repr, KERNELS))} or a function of r = d²/eps².")


def _gaussian(r: FloatArray) -> FloatArray:
    weights: FloatArray = np.exp(-0.5 * r)
    return weights


def _cauchy(r: FloatArray, power: float) -> FloatArray:
    weights: FloatArray = (1.0 + r) ** -power
    return weights


class _UserProfile:
    """A user's function, its answers checked; it pickles if the function does."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.apply = elementwise(function)

    def __getstate__(self) -> Callable[..., object]:
        return self.function

    def __setstate__(self, function: Callable[..., object]) -> None:
        self.__init__(function)  # type: ignore[misc]

    def __call__(self, r: FloatArray) -> FloatArray:
        try:
            weights = np.asarray(self.apply(r), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"kernel must turn an array of r = d²/eps² into numbers, but it failed: {error}."
            ) from error
        if weights.shape != r.shape:
            raise ValueError(f"kernel returned shape {weights.shape} for r of shape {r.shape}; it must keep the shape.")
        if not np.all(np.isfinite(weights)) or np.any(weights < 0.0):
            bad = r[~np.isfinite(weights) | (weights < 0.0)][0]
            raise ValueError(f"kernel must be finite and not negative for every r ≥ 0; it is not at r={bad:g}.")
        return weights
