"""Sets of Gaussians made ready for comparison, and the GT distances of their pairs.

The kernels want covariances as rows of features (up to three dimensions) or as principal factors (beyond, and wherever
the trace is truncated), and numbers whose squares neither overflow nor vanish. `compare` brings two sets of Gaussians
there; `squared_between` and `fill_distances` then answer for listed pairs and for all pairs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, svds
from scipy.spatial.distance import cdist

from gaussian_transform._factors import PrincipalFactors, principal_of_covariances, principal_of_factors
from gaussian_transform._kernels.bures import N_FEATURES_2, N_FEATURES_3, features_2, features_3
from gaussian_transform._kernels.pairs import fill_rows, mirror_rows, squared_pairs
from gaussian_transform._kernels.products import squared_apart
from gaussian_transform._pairs import EQUAL, Limits, Tally, bures_squared
from gaussian_transform._parallel import run_ranges
from gaussian_transform._typing import AnyArray, Factors, FloatArray, Gaussians, IntArray

# Coordinates are scaled to about 2**200 and variances to about 2**400: squares of variances stay below 2**1024, and
# what is 1e-130 of the largest coordinate still has a square variance.
_COORDINATE_EXPONENT = 200
# Pairs that are listed at a time where all of them are asked for.
_LISTED_PAIRS = 1 << 20
# From this size on Lanczos iterations find a few singular values sooner than LAPACK finds all (measured: 2x at 200).
_LANCZOS_SIZE = 200


class Comparison(NamedTuple):
    """Two sets of Gaussians scaled alike by a power of two, ready for the kernels.

    Attributes
    ----------
    x, y : arrays of shapes (n, k) and (n2, k)
        The points times ``2**exponent``; one-dimensional points have a second coordinate 0.
    f, g : arrays of shapes (n, n_features) and (n2, n_features), or PrincipalFactors, or None
        The covariances; None where ``lam`` is 0 and they do not count.
    is_symmetric : bool
        Whether both sets are the same one.
    lam : float
        The weight of the squared Bures distance, in the scaled units.
    exponent : int
        Distances of the scaled Gaussians are ``2**exponent`` times the distances of the given ones.
    n_eig : int or None
        How many singular values the trace is truncated to.
    """

    x: FloatArray
    f: FloatArray | PrincipalFactors | None
    y: FloatArray
    g: FloatArray | PrincipalFactors | None
    is_symmetric: bool
    lam: float
    exponent: int
    n_eig: int | None

    @property
    def unit(self) -> float:
        """What a distance of the scaled Gaussians is multiplied by."""
        return float(np.ldexp(1.0, -self.exponent))


def coordinate_exponent(largest: float) -> int:
    """Return the power of two that brings coordinates up to `largest` to the range where the kernels are safe."""
    exponent = _COORDINATE_EXPONENT - int(np.frexp(largest)[1]) if largest > 0.0 else 0
    # Beyond, the unit 2**-exponent itself would leave the range of normal numbers.
    return min(max(exponent, -1000), 1000)


def available_bytes() -> int | None:
    """Return the memory that this process may still take, or None where the system does not tell."""
    limits = []
    try:
        limits.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        # Linux counts the file cache as used there; what it would give back is told here.
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        limits[0] = 1024 * int(fields["MemAvailable"].split()[0])
        group = Path("/sys/fs/cgroup")
        cache = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())["inactive_file"]
        used = int((group / "memory.current").read_text()) - int(cache)
        limits.append(int((group / "memory.max").read_text()) - used)  # "max" is no number: no limit
    except (AttributeError, OSError, ValueError, KeyError):
        pass
    return min(limits) if limits else None


def check_memory(n_bytes: int, what: str, remedy: str) -> None:
    """Raise MemoryError if `n_bytes` for `what` exceed the memory available, and say what to do instead."""
    available = available_bytes()
    if available is not None and n_bytes > available:
        raise MemoryError(f"{what} needs {n_bytes:,} bytes of memory but {available:,} are available; {remedy}.")


def _largest(*arrays: AnyArray | None) -> float:
    return max((float(np.max(np.abs(array))) for array in arrays if array is not None and array.size), default=0.0)


def _deviation(covs: FloatArray | Factors) -> float:
    """Return about the largest standard deviation of some covariances."""
    return _largest(covs.rows) if isinstance(covs, Factors) else float(np.sqrt(_largest(covs)))


def compare(
    a: Gaussians,
    lam: float,
    b: Gaussians | None = None,
    *,
    n_eig: int | None = None,
    n_threads: int = 1,
    largest: float = 0.0,
) -> Comparison:
    """Scale one or two sets of Gaussians and turn their covariances into what the kernels compare.

    `largest` is the largest length that distances are to be compared with, if any is.
    """
    other = a if b is None else b
    m = a.points.shape[1]
    deviation = max(_deviation(a.covariances), _deviation(other.covariances))
    largest = max(largest, _largest(a.points, other.points))
    if lam == 0.0 or deviation == 0.0:
        exponent = coordinate_exponent(largest)
        x = np.ldexp(a.points, exponent)
        y = x if b is None else np.ldexp(b.points, exponent)
        return Comparison(x, None, y, None, b is None, 0.0, exponent, n_eig)
    exponent = coordinate_exponent(max(largest, float(np.sqrt(lam)) * deviation))
    shape_exponent = coordinate_exponent(deviation)
    has_features = m <= 3 and (n_eig is None or n_eig == m)
    prepare = _features if has_features else principal_factors

    def scale(points: FloatArray) -> FloatArray:
        # One layout: one compilation of the kernels. A line is the first axis of a plane.
        points = np.ldexp(points, exponent, order="C")
        return np.pad(points, ((0, 0), (0, 1))) if m == 1 and has_features else points

    x, f = scale(a.points), prepare(a.covariances, shape_exponent, n_threads)
    y, g = (x, f) if b is None else (scale(b.points), prepare(b.covariances, shape_exponent, n_threads))
    scaled_lam = float(np.ldexp(lam, 2 * (exponent - shape_exponent)))
    return Comparison(x, f, y, g, b is None, scaled_lam, exponent, None if has_features else n_eig)


def compare_factors(factors: FloatArray, factors2: FloatArray | None, n_eig: int | None) -> Comparison:
    """Do what `compare` does for covariances F Fᵀ given by factors of shape (n, m, r), all points at the origin."""

    def listed(given: FloatArray) -> Factors:
        n, m, r = given.shape
        return Factors(np.swapaxes(given, 1, 2).reshape(n * r, m), r * np.arange(n), np.full(n, r))

    exponent = coordinate_exponent(_largest(factors, factors2))
    f = principal_of_factors(listed(factors), exponent, 1)
    g = f if factors2 is None else principal_of_factors(listed(factors2), exponent, 1)
    x, y = np.zeros((len(f.rank), 1)), np.zeros((len(g.rank), 1))
    return Comparison(x, f, y, g, factors2 is None, 1.0, exponent, n_eig)


def principal_factors(covs: FloatArray | Factors, exponent: int, n_threads: int) -> PrincipalFactors:
    """Return the principal factors of covariances in either form, times ``2**exponent``."""
    if isinstance(covs, Factors):
        return principal_of_factors(covs, exponent, n_threads)
    return principal_of_covariances(covs, exponent, n_threads)


def _features(covs: FloatArray | Factors, exponent: int, n_threads: int) -> FloatArray:
    scaled = np.ldexp(covs.dense() if isinstance(covs, Factors) else covs, 2 * exponent, order="C")
    n, m, _ = scaled.shape
    if m == 1:
        scaled = np.pad(scaled, ((0, 0), (0, 1), (0, 1)))
    fill, n_features = (features_3, N_FEATURES_3) if m == 3 else (features_2, N_FEATURES_2)
    features = np.empty((n, n_features))
    run_ranges(lambda start, stop: fill(scaled[start:stop], features[start:stop]), n, n_threads=n_threads, grain=4096)
    return features


def roots_of(shapes: FloatArray | PrincipalFactors) -> FloatArray:
    """Return the symmetric roots Σ^½ (n, m, m) of features or of principal factors."""
    if isinstance(shapes, PrincipalFactors):
        return shapes.roots()
    n, n_features = shapes.shape
    if n_features == N_FEATURES_2:
        # Σ^½ = (Σ + √det Σ) / √(tr Σ + 2√det Σ), by Cayley and Hamilton.
        difference, off, root_det = shapes[:, 0], shapes[:, 1], shapes[:, 2]
        half_trace = np.linalg.norm(shapes[:, :3], axis=1)
        norm = np.sqrt(2.0 * (half_trace + root_det))
        inverse = np.divide(1.0, norm, out=np.zeros(n), where=norm > 0.0)
        upper = (half_trace + root_det + difference, off, half_trace + root_det - difference)
        return np.stack([upper[k] * inverse for k in (0, 1, 1, 2)], axis=1).reshape(n, 2, 2)
    entries = shapes[:, :6] * shapes[:, 13:]
    return entries[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(n, 3, 3)


def _largest_sum(f: FloatArray, g: FloatArray, n_eig: int) -> float:
    """Sum of the `n_eig` largest singular values of F Gᵀ, by Lanczos iterations that never form the product."""
    size = (f.shape[0], g.shape[0])
    operator = LinearOperator(
        size,
        matvec=lambda v: f @ (g.T @ v),
        rmatvec=lambda v: g @ (f.T @ v),
        matmat=lambda v: f @ (g.T @ v),
        rmatmat=lambda v: g @ (f.T @ v),
        dtype=np.float64,
    )
    try:
        # A fixed start: the same pair gives the same distance every time.
        start = np.random.default_rng(0).standard_normal(min(size))
        return float(np.sum(svds(operator, n_eig, v0=start, return_singular_vectors=False)))
    except ArpackError:
        return float(np.sum(np.linalg.svd(f @ g.T, compute_uv=False)[:n_eig]))


def _by_iterations(
    f: PrincipalFactors, i: IntArray, g: PrincipalFactors, j: IntArray, n_eig: int, squared: FloatArray
) -> IntArray:
    """Write the truncated squared distances of the pairs where iterations are sooner done; return the other pairs.

    Covariances that may be equal are left to the exact distance.
    """
    rank = np.minimum(f.rank[i], g.rank[j])
    is_large = (rank >= _LANCZOS_SIZE) & (10 * n_eig <= rank)
    if np.any(is_large):
        apart = np.sum((f.deviations()[i] - g.deviations()[j]) ** 2, axis=1)
        is_large &= apart > 2.0 * EQUAL * np.maximum(f.traces[i], g.traces[j])
    for p in np.flatnonzero(is_large):
        total = _largest_sum(f.factor(i[p]), g.factor(j[p]), n_eig)
        squared[p] = max(f.traces[i[p]] + g.traces[j[p]] - 2.0 * total, 0.0)
    return np.flatnonzero(~is_large)


def _shape_squared(
    c: Comparison, i: IntArray, j: IntArray, limits: Limits | None, tally: Tally | None, n_threads: int
) -> FloatArray:
    """Return dcov² of the pairs by principal factors, as far as the limits ask for it."""
    f, g = c.f, c.g
    if not (isinstance(f, PrincipalFactors) and isinstance(g, PrincipalFactors)):
        return np.zeros(i.size)
    squared = np.empty(i.size)
    rest = np.arange(i.size) if c.n_eig is None else _by_iterations(f, i, g, j, c.n_eig, squared)
    squared[rest] = bures_squared(
        f, i[rest], g, j[rest], n_eig=c.n_eig, n_threads=n_threads,
        limits=None if limits is None else limits.at(rest), tally=tally,
    )  # fmt: skip
    return squared


def squared_between(
    c: Comparison,
    i: IntArray,
    j: IntArray,
    *,
    n_threads: int,
    base_squared: FloatArray | None = None,
    limits: FloatArray | None = None,
    is_membership: bool = False,
    tally: Tally | None = None,
) -> FloatArray:
    """Return the squared distances, in scaled units, of the pairs ``(i[p], j[p])``.

    `base_squared` takes the place of ‖x − y‖². Squared distances beyond the `limits` (n_pairs,) need not be exact, only
    beyond; for a mere `is_membership` those within need not be exact either.
    """
    out = np.empty(i.size)
    if isinstance(c.f, np.ndarray) and isinstance(c.g, np.ndarray):
        x, f, y, g = c.x, c.f, c.y, c.g

        def by_features(start: int, stop: int) -> None:
            pairs = slice(start, stop)
            squared_pairs(x, f, i[pairs], y, g, j[pairs], c.is_symmetric, c.lam, out[pairs])

        run_ranges(by_features, i.size, n_threads=n_threads, grain=8192)
        return out if base_squared is None else out + base_squared  # then all points are at one place
    first, second = (np.minimum(i, j), np.maximum(i, j)) if c.is_symmetric else (i, j)
    if base_squared is not None:
        out[:] = base_squared
    else:

        def apart(start: int, stop: int) -> None:
            squared_apart(c.x, first[start:stop], c.y, second[start:stop], out[start:stop])

        run_ranges(apart, i.size, n_threads=n_threads, grain=max(16, (1 << 19) // max(1, c.x.shape[1])))
    if c.f is None:
        return out
    within = None if limits is None else Limits(c.lam, limits - out, limits + out, is_membership)
    out += c.lam * _shape_squared(c, first, second, within, tally, n_threads)
    return out


def fill_distances(c: Comparison, out: FloatArray, *, n_threads: int) -> None:
    """Write all distances, in the given Gaussians' units, to `out`: (n, n2), or condensed as SciPy does.

    A symmetric matrix is exactly symmetric with a diagonal of exact zeros.
    """
    n = c.x.shape[0]
    is_condensed = out.ndim == 1
    if isinstance(c.f, np.ndarray) and isinstance(c.g, np.ndarray):
        x, f, y, g = (np.ascontiguousarray(array.T) for array in (c.x, c.f, c.y, c.g))
        flat = out.reshape(-1)

        def rows(start: int, stop: int) -> None:
            fill_rows(x, f, y, g, c.is_symmetric, is_condensed, c.lam, c.unit, start, stop, flat)

        run_ranges(rows, n, n_threads=n_threads, grain=16)
    elif c.f is None:
        run_ranges(lambda start, stop: _fill_euclidean(c, start, stop, out), n, n_threads=n_threads, grain=16)
    else:
        for i, j, place in _listed_pairs(c, is_condensed):
            squared = squared_between(c, i, j, n_threads=n_threads)
            out.reshape(-1)[place] = c.unit * np.sqrt(squared)
    if c.is_symmetric and not is_condensed:
        np.fill_diagonal(out, 0.0)
        run_ranges(lambda start, stop: mirror_rows(start, stop, out), n, n_threads=n_threads, grain=32)


def _fill_euclidean(c: Comparison, start: int, stop: int, out: FloatArray) -> None:
    n2 = c.y.shape[0]
    for i in range(start, stop):
        first = i + 1 if c.is_symmetric else 0
        begin = i * n2 - i * (i + 1) // 2
        row = out[begin : begin + n2 - first] if out.ndim == 1 else out[i, first:]
        np.multiply(cdist(c.x[i : i + 1], c.y[first:])[0], c.unit, out=row)


def _listed_pairs(c: Comparison, is_condensed: bool) -> Iterator[tuple[IntArray, IntArray, IntArray | slice]]:
    """Yield all pairs, of a symmetric matrix those right of the diagonal, and their places in the flattened one."""
    n, n2 = c.x.shape[0], c.y.shape[0]
    step = max(1, _LISTED_PAIRS // max(1, n2))
    done = 0
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        firsts = rows + 1 if c.is_symmetric else np.zeros_like(rows)
        counts = n2 - firsts
        i = np.repeat(rows, counts)
        j = np.arange(i.size) - np.repeat(np.cumsum(counts) - counts - firsts, counts)
        yield i, j, slice(done, done + i.size) if is_condensed else i * n2 + j
        done += i.size
