"""Bures distances between covariance matrices, semi-definite ones included, and Wasserstein distances of Gaussians.

The distance is dcov²(A, B) = tr A + tr B − 2 tr((A^½ B A^½)^½), and that last trace is the nuclear norm of FᵀG for any
factors A = F Fᵀ and B = G Gᵀ. Up to three dimensions closed forms give it without eigenvalues of the pair; beyond,
singular values do. Equal matrices are at distance exactly 0, small distances keep their relative accuracy, and matrices
of any rank, zero included, are ordinary input.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gaussian_transform._kernels.bures import mark_semidefinite
from gaussian_transform._parallel import effective_n_jobs
from gaussian_transform._shapes import (
    Comparison,
    check_memory,
    compare,
    compare_factors,
    coordinate_exponent,
    fill_distances,
    roots_of,
    squared_between,
)
from gaussian_transform._typing import AnyArray, FloatArray, Gaussians, IntArray
from gaussian_transform._validation import check_n_jobs

__all__ = ["bures_distance", "bures_distances", "gaussian_wasserstein", "square_roots"]


def square_roots(covs: npt.ArrayLike) -> AnyArray:
    """Return the symmetric positive semi-definite square roots Σ^½ of covariances.

    Parameters
    ----------
    covs : array_like of shape (..., m, m)
        Symmetric positive semi-definite matrices of any rank.

    Returns
    -------
    array of shape (..., m, m)
        The roots; float32 if `covs` is, else float64.

    Examples
    --------
    >>> square_roots([[4.0, 0.0], [0.0, 0.0]])
    array([[2., 0.],
           [0., 0.]])
    """
    given, dtype = _as_covariances(covs, "covs")
    m = given.shape[-1]
    flat = given.reshape(-1, m, m)
    c = compare(_at_origin(flat), 1.0)
    if c.f is None:
        return np.zeros(given.shape, dtype=dtype)
    roots = np.ldexp(roots_of(c.f), -c.exponent)[:, :m, :m]
    return roots.reshape(given.shape).astype(dtype, copy=False)


def bures_distance(A: npt.ArrayLike, B: npt.ArrayLike) -> Any:
    """Return the Bures distances dcov between the matrices of `A` and those of `B`, element by element.

    The formula is dcov²(A, B) = tr A + tr B − 2 tr((A^½ B A^½)^½), the covariance part of the 2-Wasserstein distance
    between Gaussians.

    Parameters
    ----------
    A, B : array_like of shape (..., m, m)
        Symmetric positive semi-definite matrices; the leading dimensions are broadcast. Negative eigenvalues within
        1e-8 of the trace (2e-6 for float32) are taken for rounding, hence for 0.

    Returns
    -------
    float or array of shape (...)
        The distances; float32 if both inputs are, else float64.

    Notes
    -----
    The distance of well-conditioned matrices is right to a few roundings of √(tr A + tr B). Of a nearly singular matrix
    the entries themselves, rounded to float64, fix the distance only to about 1e-8 of that;
    ``bures_distances(..., factors=True)`` does better where the data are at hand.

    Examples
    --------
    >>> print(bures_distance([[4.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]))
    1.4142135623730951
    """
    a, dtype_a = _as_covariances(A, "A")
    b, dtype_b = _as_covariances(B, "B")
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"A and B must hold matrices of one size, but have shapes {a.shape} and {b.shape}; compare matrices of the"
            " same space."
        )
    shape = _broadcast_shape(a.shape[:-2], b.shape[:-2], "A", "B")
    distances = _distances_by_index(a, b, shape).astype(np.result_type(dtype_a, dtype_b), copy=False)
    return distances.reshape(shape)[()]


def bures_distances(
    covs: npt.ArrayLike,
    covs2: npt.ArrayLike | None = None,
    *,
    factors: bool = False,
    n_eig: int | None = None,
    n_jobs: int | None = None,
) -> AnyArray:
    """Return the Bures distances dcov between all covariances of one set, or between all of two.

    Parameters
    ----------
    covs : array_like of shape (n, m, m)
        Symmetric positive semi-definite matrices; with ``factors=True`` of shape (n, m, r), matrices F that stand for
        F Fᵀ, such as centred points over the root of their number.
    covs2 : array_like of shape (n2, m, m) or (n2, m, r2), optional
        The other set; `covs` itself if omitted, and then the result is exactly symmetric with a diagonal of zeros.
    factors : bool, default=False
        Whether factors are given. The distance is then ‖F‖² + ‖G‖² − 2‖FᵀG‖_*, at a cost that depends on r, not m, and
        without the loss that forming F Fᵀ brings where it is nearly singular.
    n_eig : int, optional
        Keep only the `n_eig` largest singular values of FᵀG (roots of the eigenvalues of AB) in the trace, as in the
        paper's experiments. This is another dissimilarity, never below the distance except where matrices count as
        equal: it is 0 where dcov² is at most 1e-12 of the larger trace, which is what rounding leaves of equal ones.
    n_jobs : int, optional
        Number of threads; all cores by default, negative numbers count from all cores as in joblib.

    Returns
    -------
    array of shape (n, n2)
        The distances; float32 if both inputs are, else float64.

    Examples
    --------
    >>> bures_distances([np.eye(2), 4 * np.eye(2), np.zeros((2, 2))]).round(3)
    array([[0.   , 1.414, 1.414],
           [1.414, 0.   , 2.828],
           [1.414, 2.828, 0.   ]])
    """
    n_threads = effective_n_jobs(check_n_jobs(n_jobs))
    check = _as_factors if factors else _as_covariances
    first, dtype = check(covs, "covs")
    second = None
    if covs2 is not None:
        second, dtype2 = check(covs2, "covs2")
        dtype = np.result_type(dtype, dtype2)
    for name, given in (("covs", first), ("covs2", second)):
        if given is not None and given.ndim != 3:
            needed = "(n, m, r)" if factors else "(n, m, m)"
            raise ValueError(f"{name} must have shape {needed} but has shape {given.shape}; stack the matrices.")
    if second is not None and first.shape[1] != second.shape[1]:
        raise ValueError(
            f"covs and covs2 must hold matrices of one size, but have shapes {first.shape} and {second.shape}; compare"
            " matrices of the same space."
        )
    _check_n_eig(n_eig, first.shape[1])
    c: Comparison
    if factors:
        c = compare_factors(first, second, n_eig)
    else:
        other = None if second is None else _at_origin(second)
        c = compare(_at_origin(first), 1.0, other, n_eig=n_eig, n_threads=n_threads)
    n, n2 = c.x.shape[0], c.y.shape[0]
    check_memory(8 * n * n2, f"the {n} x {n2} matrix of distances", "compare fewer covariances at a time")
    out = np.empty((n, n2))
    fill_distances(c, out, n_threads=n_threads)
    return out.astype(dtype, copy=False)


def gaussian_wasserstein(mean1: npt.ArrayLike, cov1: npt.ArrayLike, mean2: npt.ArrayLike, cov2: npt.ArrayLike) -> Any:
    """Return the 2-Wasserstein distances √(‖m₁ − m₂‖² + dcov²(Σ₁, Σ₂)) between Gaussians, element by element.

    Parameters
    ----------
    mean1, mean2 : array_like of shape (..., m)
        Means.
    cov1, cov2 : array_like of shape (..., m, m)
        Covariances, symmetric positive semi-definite of any rank. All leading dimensions are broadcast.

    Returns
    -------
    float or array of shape (...)
        The distances; float32 if all inputs are, else float64.

    Examples
    --------
    >>> print(gaussian_wasserstein([0.0, 0.0], np.eye(2), [3.0, 4.0], np.eye(2)))
    5.0
    """
    first, dtype1 = _as_floats(mean1, "mean1")
    second, dtype2 = _as_floats(mean2, "mean2")
    distances = bures_distance(cov1, cov2)
    m = np.shape(cov1)[-1]
    for name, mean in (("mean1", first), ("mean2", second)):
        if mean.ndim < 1 or mean.shape[-1] != m:
            raise ValueError(
                f"{name} must have shape (..., {m}) to go with the covariances but has shape {mean.shape}."
            )
    shape = _broadcast_shape(first.shape[:-1], second.shape[:-1], "mean1", "mean2")
    _broadcast_shape(shape, np.shape(distances), "the means", "the covariances")
    # Halves first: the difference of two means near the largest number must not overflow before it is scaled.
    half_gap = 0.5 * first - 0.5 * second
    exponent = coordinate_exponent(float(np.max(np.abs(half_gap), initial=0.0)))
    apart = np.ldexp(np.linalg.norm(np.ldexp(half_gap, exponent), axis=-1), 1 - exponent)
    dtype = np.result_type(dtype1, dtype2, np.asarray(distances).dtype)
    return np.hypot(apart, distances).astype(dtype, copy=False)[()]


def _at_origin(covs: FloatArray) -> Gaussians:
    return Gaussians(np.zeros(covs.shape[:2]), covs)


def _broadcast_shape(shape: tuple[int, ...], shape2: tuple[int, ...], name: str, name2: str) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(shape, shape2)
    except ValueError:
        raise ValueError(
            f"The leading dimensions {shape} of {name} and {shape2} of {name2} do not broadcast; make them equal or 1."
        ) from None


def _distances_by_index(a: FloatArray, b: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Distances of the broadcast pairs, each given matrix prepared once however often it is repeated."""
    m = a.shape[-1]

    def positions(batch: tuple[int, ...]) -> IntArray:
        numbers = np.arange(int(np.prod(batch, dtype=np.int64)), dtype=np.int64).reshape(batch)
        return np.array(np.broadcast_to(numbers, shape)).reshape(-1)

    n_threads = effective_n_jobs(None)
    c = compare(_at_origin(a.reshape(-1, m, m)), 1.0, _at_origin(b.reshape(-1, m, m)), n_threads=n_threads)
    squared = squared_between(c, positions(a.shape[:-2]), positions(b.shape[:-2]), n_threads=n_threads)
    return c.unit * np.sqrt(squared)


def _check_n_eig(n_eig: int | None, m: int) -> None:
    if n_eig is None:
        return
    if isinstance(n_eig, bool) or not isinstance(n_eig, (int, np.integer)) or not 1 <= n_eig <= m:
        raise ValueError(
            f"n_eig must be an integer from 1 to the dimension {m}, or None, but is {n_eig!r}; None keeps all of them."
        )


def _as_floats(given: npt.ArrayLike, name: str) -> tuple[FloatArray, np.dtype[Any]]:
    """Return `given` in float64 with the dtype that the answer shall have."""
    array = np.asarray(given)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers but has dtype {array.dtype}; convert it to float64.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite but contains NaN or infinity; remove or replace such entries.")
    dtype = np.dtype(np.float32) if array.dtype == np.float32 else np.dtype(np.float64)
    return np.asarray(array, dtype=np.float64), dtype


def _as_factors(given: npt.ArrayLike, name: str) -> tuple[FloatArray, np.dtype[Any]]:
    array, dtype = _as_floats(given, name)
    if array.ndim < 2 or 0 in array.shape[-2:]:
        raise ValueError(f"{name} must have shape (n, m, r) with m and r at least 1 but has shape {array.shape}.")
    return array, dtype


def _as_covariances(given: npt.ArrayLike, name: str) -> tuple[FloatArray, np.dtype[Any]]:
    """Check that `given` holds covariances; name what is wrong with which matrix otherwise."""
    array, dtype = _as_floats(given, name)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.shape[-1] == 0:
        raise ValueError(
            f"{name} must have shape (..., m, m) with m at least 1 but has shape {array.shape}; give square matrices."
        )
    m = array.shape[-1]
    flat = array.reshape(-1, m, m)
    # Entries of float32 are rounded more coarsely, and their eigenvalues with them.
    tolerance = max(1e-8, 16.0 * float(np.finfo(dtype).eps))
    largest = np.max(np.abs(flat), axis=(1, 2), initial=0.0)
    skew = np.max(np.abs(0.5 * flat - 0.5 * np.swapaxes(flat, 1, 2)), axis=(1, 2), initial=0.0)
    asymmetric = np.flatnonzero(skew > 0.5 * tolerance * largest)
    if asymmetric.size:
        worst = int(asymmetric[0])
        raise ValueError(
            f"{name} must hold symmetric matrices, but matrix {worst} differs from its transpose by"
            f" {2.0 * skew[worst]:.3g}; give (A + A.T) / 2."
        )
    scaled = np.ldexp(flat, 2 * coordinate_exponent(float(np.sqrt(np.max(largest, initial=0.0)))), order="C")
    is_semidefinite = np.empty(flat.shape[0], dtype=np.bool_)
    mark_semidefinite(scaled, tolerance, is_semidefinite)
    if not is_semidefinite.all():
        worst = int(np.argmin(is_semidefinite))
        smallest = float(np.linalg.eigvalsh(flat[worst])[0])
        raise ValueError(
            f"{name} must hold positive semi-definite matrices, but matrix {worst} has the eigenvalue {smallest:.3g};"
            " covariances have none below 0, so check how it was computed."
        )
    return array, dtype
