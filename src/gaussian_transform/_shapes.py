"""Sets of Gaussians made ready for comparison, and the GT distances of their pairs.

The kernels want covariances as rows of features (up to three dimensions) or as factors F with Σ = F Fᵀ (beyond, and
wherever the trace is truncated), and numbers whose squares neither overflow nor vanish. `compare` brings two sets of
Gaussians there; `squared_between` and `fill_distances` then answer for listed pairs and for all pairs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, svds
from scipy.spatial.distance import cdist

from gaussian_transform._kernels.bures import N_FEATURES_2, N_FEATURES_3, features_2, features_3
from gaussian_transform._kernels.pairs import fill_rows, mirror_rows, squared_pairs
from gaussian_transform._kernels.singular import singular_values
from gaussian_transform._parallel import run_ranges
from gaussian_transform._typing import AnyArray, FloatArray, Gaussians, IntArray

# Coordinates are scaled to about 2**200 and variances to about 2**400: squares of variances stay below 2**1024, and
# what is 1e-130 of the largest coordinate still has a square variance.
_COORDINATE_EXPONENT = 200
# Bytes of the stacks of small matrices that one thread works on at a time.
_STACK_BYTES = 1 << 22
# Below this fraction of the traces the difference of traces has lost digits and is taken by aligned factors instead.
_SMALL = 1e-3
# Up to this size our rotations of many matrices at a time find singular values sooner than LAPACK (measured).
_JACOBI_SIZE = 12
# From this size on Lanczos iterations find a few singular values sooner than LAPACK finds all (measured: 2x at 200).
_LANCZOS_SIZE = 200


class Comparison(NamedTuple):
    """Two sets of Gaussians scaled alike by a power of two, ready for the kernels.

    Attributes
    ----------
    x, y : arrays of shapes (n, k) and (n2, k)
        The points times ``2**exponent``; one-dimensional points have a second coordinate 0.
    f, g : arrays of shapes (n, n_features) or (n, m, r), or None
        The covariances: rows of features, or factors; None where ``lam`` is 0 and they do not count.
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
    f: FloatArray | None
    y: FloatArray
    g: FloatArray | None
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


def compare(
    a: Gaussians, lam: float, b: Gaussians | None = None, *, n_eig: int | None = None, n_threads: int = 1
) -> Comparison:
    """Scale one or two sets of Gaussians and turn their covariances into what the kernels compare."""
    other = a if b is None else b
    m = a.points.shape[1]
    deviation = float(np.sqrt(_largest(a.covariances, other.covariances)))
    if lam == 0.0 or deviation == 0.0:
        exponent = coordinate_exponent(_largest(a.points, other.points))
        x = np.ldexp(a.points, exponent)
        y = x if b is None else np.ldexp(b.points, exponent)
        return Comparison(x, None, y, None, b is None, 0.0, exponent, n_eig)
    exponent = coordinate_exponent(max(_largest(a.points, other.points), float(np.sqrt(lam)) * deviation))
    shape_exponent = coordinate_exponent(deviation)
    has_features = m <= 3 and (n_eig is None or n_eig == m)

    def prepare(gaussians: Gaussians) -> tuple[FloatArray, FloatArray]:
        points = np.ldexp(gaussians.points, exponent, order="C")  # one layout: one compilation of the kernels
        covs = np.ldexp(gaussians.covariances, 2 * shape_exponent, order="C")
        if m == 1 and has_features:
            points = np.pad(points, ((0, 0), (0, 1)))
            covs = np.pad(covs, ((0, 0), (0, 1), (0, 1)))
        return points, (_features(covs, n_threads) if has_features else factors_of(covs, n_threads))

    x, f = prepare(a)
    y, g = (x, f) if b is None else prepare(b)
    if not has_features:
        f, g = _padded(f, g)
    scaled_lam = float(np.ldexp(lam, 2 * (exponent - shape_exponent)))
    return Comparison(x, f, y, g, b is None, scaled_lam, exponent, None if has_features else n_eig)


def compare_factors(factors: FloatArray, factors2: FloatArray | None, n_eig: int | None) -> Comparison:
    """Do what `compare` does for covariances F Fᵀ given by factors of shape (n, m, r), all points at the origin."""
    exponent = coordinate_exponent(_largest(factors, factors2))

    def prepare(given: FloatArray) -> FloatArray:
        scaled = np.ldexp(given, exponent)
        if scaled.shape[2] > scaled.shape[1]:  # F Fᵀ = RᵀR with the square R of Fᵀ = QR
            scaled = np.swapaxes(np.linalg.qr(np.swapaxes(scaled, 1, 2), mode="r"), 1, 2)
        return np.ascontiguousarray(scaled)

    f = prepare(factors)
    f, g = (f, f) if factors2 is None else _padded(f, prepare(factors2))
    x, y = np.zeros((f.shape[0], 1)), np.zeros((g.shape[0], 1))
    return Comparison(x, f, y, g, factors2 is None, 1.0, exponent, n_eig)


def _padded(f: FloatArray, g: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give two sets of factors the same number of columns by zeros on the left, where `factors_of` has its smallest."""
    if f.shape[2] == g.shape[2]:
        return f, g
    n_columns = max(f.shape[2], g.shape[2])
    f, g = (np.pad(factors, ((0, 0), (0, 0), (n_columns - factors.shape[2], 0))) for factors in (f, g))
    return f, g


def _features(covs: FloatArray, n_threads: int) -> FloatArray:
    n, m, _ = covs.shape
    fill, n_features = (features_2, N_FEATURES_2) if m == 2 else (features_3, N_FEATURES_3)
    features = np.empty((n, n_features))
    run_ranges(lambda start, stop: fill(covs[start:stop], features[start:stop]), n, n_threads=n_threads, grain=4096)
    return features


def factors_of(covs: FloatArray, n_threads: int) -> FloatArray:
    """Return factors F of shape (n, m, r) with Σ = F Fᵀ and orthogonal columns; r is the largest rank.

    Eigenvalues that the rounding of the largest could have made count as 0.
    """
    n, m, _ = covs.shape
    factors = np.empty((n, m, m))
    norms = np.empty((n, m))

    def work(start: int, stop: int) -> None:
        values, vectors = np.linalg.eigh(0.5 * (covs[start:stop] + np.swapaxes(covs[start:stop], 1, 2)))
        noise = m * np.finfo(np.float64).eps * values[:, -1:]
        norms[start:stop] = np.sqrt(np.where(values > noise, values, 0.0))
        np.multiply(vectors, norms[start:stop, None, :], out=factors[start:stop])

    run_ranges(work, n, n_threads=n_threads, grain=max(1, _STACK_BYTES // (32 * m * m)))
    rank = max(1, int(np.max(np.count_nonzero(norms, axis=1), initial=0)))
    return factors if rank == m else np.ascontiguousarray(factors[:, :, m - rank :])  # values ascend: the last columns


def roots_of(shapes: FloatArray) -> FloatArray:
    """Return the symmetric roots Σ^½ (n, m, m) of features, or of factors as `factors_of` makes them."""
    if shapes.ndim == 3:
        norms = np.sqrt(np.einsum("nij,nij->nj", shapes, shapes))
        directions = shapes / np.where(norms > 0.0, norms, 1.0)[:, None, :]
        roots = directions @ np.swapaxes(shapes, 1, 2)
        return 0.5 * (roots + np.swapaxes(roots, 1, 2))
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
    """Sum of the `n_eig` largest singular values of FᵀG, by Lanczos iterations that never form the product."""
    size = (f.shape[1], g.shape[1])
    operator = LinearOperator(
        size,
        matvec=lambda v: f.T @ (g @ v),
        rmatvec=lambda v: g.T @ (f @ v),
        matmat=lambda v: f.T @ (g @ v),
        rmatmat=lambda v: g.T @ (f @ v),
        dtype=np.float64,
    )
    try:
        # A fixed start: the same pair gives the same distance every time.
        start = np.random.default_rng(0).standard_normal(min(size))
        return float(np.sum(svds(operator, n_eig, v0=start, return_singular_vectors=False)))
    except ArpackError:
        return float(np.sum(np.linalg.svd(f.T @ g, compute_uv=False)[:n_eig]))


def _singular_values(products: FloatArray) -> FloatArray:
    """Return the singular values (p, r), in no order, of matrices of shape (p, r, r)."""
    if products.shape[1] > _JACOBI_SIZE:
        return np.asarray(np.linalg.svd(products, compute_uv=False), dtype=np.float64)
    values = np.empty(products.shape[:2])
    singular_values(products, values)
    return values


def _factor_squared(f: FloatArray, g: FloatArray, n_eig: int | None) -> FloatArray:
    """Squared Bures distances ‖F‖² + ‖G‖² − 2‖FᵀG‖_* of stacks of factors (p, m, r) and (p, m, r), or one with many.

    With FᵀG = W S Vᵀ the same is ‖FW − GV‖²: where the distance is small this keeps the digits that the difference of
    traces loses. A truncated trace leaves out the singular values after the first `n_eig`.
    """
    traces = np.einsum("pij,pij->p", f, f) + np.einsum("pij,pij->p", g, g)
    if n_eig is not None and f.shape[2] >= _LANCZOS_SIZE and 10 * n_eig <= f.shape[2]:
        pairs = zip(*np.broadcast_arrays(f, g), traces, strict=True)
        return np.array(
            [0.0 if np.array_equal(p, q) else max(t - 2.0 * _largest_sum(p, q, n_eig), 0.0) for p, q, t in pairs]
        )
    products = np.swapaxes(f, 1, 2) @ g
    values = _singular_values(products)
    squared: FloatArray = np.maximum(traces - 2.0 * values.sum(axis=1), 0.0)
    small = np.flatnonzero(squared < _SMALL * traces)
    if small.size:
        near_f, near_g = (stack if stack.shape[0] == 1 else stack[small] for stack in (f, g))
        left, _, right = np.linalg.svd(products[small])
        apart = near_f @ left - near_g @ np.swapaxes(right, 1, 2)
        squared[small] = np.einsum("pij,pij->p", apart, apart)
    if n_eig is not None:
        squared += 2.0 * np.sort(values, axis=1)[:, : max(values.shape[1] - n_eig, 0)].sum(axis=1)
    if small.size:
        squared[small[np.all(near_f == near_g, axis=(1, 2))]] = 0.0
    return squared


def _stack_size(shapes: FloatArray | None) -> int:
    """How many pairs one thread may work on at a time."""
    return 4096 if shapes is None else max(1, _STACK_BYTES // (32 * shapes.shape[1] * shapes.shape[2]))


def squared_between(c: Comparison, i: IntArray, j: IntArray, *, n_threads: int) -> FloatArray:
    """Return the squared distances, in scaled units, of the pairs ``(i[p], j[p])``."""
    out = np.empty(i.size)
    if c.f is not None and c.g is not None and c.f.ndim == 2:
        x, f, y, g = c.x, c.f, c.y, c.g

        def by_features(start: int, stop: int) -> None:
            pairs = slice(start, stop)
            squared_pairs(x, f, i[pairs], y, g, j[pairs], c.is_symmetric, c.lam, out[pairs])

        run_ranges(by_features, i.size, n_threads=n_threads, grain=8192)
        return out
    first, second = (np.minimum(i, j), np.maximum(i, j)) if c.is_symmetric else (i, j)

    def by_factors(start: int, stop: int) -> None:
        p, q = first[start:stop], second[start:stop]
        apart = c.x[p] - c.y[q]
        out[start:stop] = np.einsum("pk,pk->p", apart, apart)
        if c.f is not None and c.g is not None:
            out[start:stop] += c.lam * _factor_squared(c.f[p], c.g[q], c.n_eig)

    run_ranges(by_factors, i.size, n_threads=n_threads, grain=_stack_size(c.f))
    return out


def fill_distances(c: Comparison, out: FloatArray, *, n_threads: int) -> None:
    """Write all distances, in the given Gaussians' units, to `out`: (n, n2), or condensed as SciPy does.

    A symmetric matrix is exactly symmetric with a diagonal of exact zeros.
    """
    n, n2 = c.x.shape[0], c.y.shape[0]
    is_condensed = out.ndim == 1
    if c.f is not None and c.g is not None and c.f.ndim == 2:
        x, f, y, g = (np.ascontiguousarray(array.T) for array in (c.x, c.f, c.y, c.g))
        flat = out.reshape(-1)

        def rows(start: int, stop: int) -> None:
            fill_rows(x, f, y, g, c.is_symmetric, is_condensed, c.lam, c.unit, start, stop, flat)

        run_ranges(rows, n, n_threads=n_threads, grain=16)
    else:

        def rows_by_factors(start: int, stop: int) -> None:
            for i in range(start, stop):
                first = i + 1 if c.is_symmetric else 0
                begin = i * n2 - i * (i + 1) // 2
                row = out[begin : begin + n2 - first] if is_condensed else out[i, first:]
                _fill_row_by_factors(c, i, first, row)

        run_ranges(rows_by_factors, n, n_threads=n_threads, grain=16 if c.f is None else 1)
    if c.is_symmetric and not is_condensed:
        np.fill_diagonal(out, 0.0)
        run_ranges(lambda start, stop: mirror_rows(start, stop, out), n, n_threads=n_threads, grain=32)


def _fill_row_by_factors(c: Comparison, i: int, first: int, row: FloatArray) -> None:
    row[:] = cdist(c.x[i : i + 1], c.y[first:], "sqeuclidean")[0]
    if c.f is not None and c.g is not None:
        step = _stack_size(c.g)
        for start in range(0, row.size, step):
            partners = c.g[first + start : first + min(start + step, row.size)]
            row[start : start + step] += c.lam * _factor_squared(c.f[i : i + 1], partners, c.n_eig)
    np.multiply(np.sqrt(row, out=row), c.unit, out=row)
