"""Checks of what users pass: a failure is one sentence with the parameter, its value, what is needed, what to do."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
import numpy.typing as npt

from gaussian_transform._typing import BoolArray, FloatArray


def check_radius(eps: Any, name: str = "eps") -> float:
    """Return a radius: a finite number above 0."""
    value = _check_real(name, eps, "the radius of the neighbourhoods, in the units of the data")
    if not 0.0 < value < math.inf:
        raise ValueError(
            f"{name}={eps!r} must be a finite number above 0: the radius of the neighbourhoods, in the data's units."
        )
    return value


def check_height(height: Any, name: str = "distance_threshold") -> float:
    """Return the height of a cut: a number of at least 0."""
    value = _check_real(name, height, "the height at which the dendrogram is cut, in the units of the data")
    if not value >= 0.0:
        raise ValueError(f"{name}={height!r} must be at least 0: the height of the cut, in the data's units.")
    return value


def check_lam(lam: Any) -> float:
    """Return the weight of the covariances: a finite number, at least 0."""
    value = _check_real("lam", lam, "the weight of the covariances")
    if not 0.0 <= value < math.inf:
        raise ValueError(f"lam={lam!r} must be a finite number of at least 0; 0 is mean shift, 1 the paper's default.")
    return value


def check_count(name: str, value: Any, minimum: int) -> int:
    """Return a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name}={value!r} must be a whole number of at least {minimum}.")
    if value < minimum:
        raise ValueError(f"{name}={value!r} must be at least {minimum}.")
    return int(value)


def check_tol(tol: Any) -> float:
    """Return the tolerance for stopping early: a finite number, at least 0."""
    value = _check_real("tol", tol, "the longest move, as a share of eps, at which iterations stop")
    if not 0.0 <= value < math.inf:
        raise ValueError(f"tol={tol!r} must be a finite number of at least 0; 0 runs all iterations.")
    return value


def check_callback(callback: Any) -> Any:
    """Return what is called to report progress: None or a function."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r} must be None or a function of one argument, the progress so far.")
    return callback


def check_n_jobs(n_jobs: Any) -> int | None:
    """Return the number of threads: None, or a whole number other than 0."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs={n_jobs!r} must be None (all cores), a number of threads, or -1 (all cores), -2, ….")
    return None if n_jobs is None else int(n_jobs)


def check_weights(sample_weight: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return the weights of `n` points as probabilities; None means equal weights."""
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    try:
        given = np.asarray(sample_weight)
        if np.iscomplexobj(given):
            raise TypeError("they are complex")
        weights = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold one number for each of the {n} points: {error}.") from None
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}; it must have one weight for each of the {n} points."
        )
    if not np.all(np.isfinite(weights)):
        first = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise ValueError(
            f"sample_weight[{first}]={weights[first]} must be a finite number; use 0 to leave a point out."
        )
    if np.any(weights < 0.0):
        first = int(np.flatnonzero(weights < 0.0)[0])
        raise ValueError(f"sample_weight[{first}]={weights[first]} must not be negative; use 0 to leave a point out.")
    largest = float(weights.max())
    if largest == 0.0:
        raise ValueError("sample_weight is zero for every point; at least one weight must be above 0.")
    weights = weights / largest  # first, so that the sum cannot overflow
    weights[weights < 1e-290] = 0.0  # what cannot be divided by weighs nothing
    weights /= weights.sum()
    return weights


def check_extent(points: FloatArray, eps: float) -> None:
    """Make sure that eps, and distances in units of eps, can be squared."""
    if not 1e-153 <= eps <= 1e153:
        raise ValueError(f"eps={eps:g} must lie between 1e-153 and 1e153, so that it can be squared; rescale the data.")
    extent = float(np.max(points.max(axis=0) / 2.0 - points.min(axis=0) / 2.0)) * 2.0
    if extent / eps > 1e150:
        raise ValueError(
            f"eps={eps:g} is too small for points that span {extent:g}; the span must stay below 1e150 eps."
        )


def check_distances(distances: npt.ArrayLike, name: str) -> FloatArray:
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


def _refuse(name: str, matrix: FloatArray, is_wrong: BoolArray, why: str) -> None:
    if is_wrong.any():
        i, j = (int(k) for k in np.unravel_index(np.argmax(is_wrong), is_wrong.shape))
        raise ValueError(f"{name}[{i}, {j}]={matrix[i, j]:g} {why}.")


def _check_real(name: str, value: Any, meaning: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r} must be a number: {meaning}.")
    return float(value)
