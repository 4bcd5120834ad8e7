"""Balls in one to three dimensions without lists: pairs are recomputed on the fly over rows of a sorted cloud."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from gaussian_transform._kernels.rows import n_candidates
from gaussian_transform._kernels.sweep_2d import covariances_2d, means_2d
from gaussian_transform._kernels.sweep_3d import covariances_3d, means_3d
from gaussian_transform._parallel import run_ranges
from gaussian_transform._typing import FloatArray, Gaussians, KeyArray
from gaussian_transform.local_gaussians import TIE_TOLERANCE, BallMeans, source_keys
from gaussian_transform.neighborhoods import SortedCloud, sort_into_rows


class RowSweep:
    """Closed balls in one to three dimensions, pairs recomputed on the fly: O(n) memory.

    Coordinates are expected in units in which eps is near 1 (`iteration` sees to it).
    """

    def __init__(
        self,
        sources: Gaussians,
        weights: FloatArray,
        *,
        eps: float,
        lam: float,
        queries: Gaussians | None = None,
        n_threads: int = 1,
    ) -> None:
        self._eps_squared = eps * eps * (1.0 + TIE_TOLERANCE)
        self._lam = lam
        self._m = sources.points.shape[1]
        self._n_threads = n_threads
        self._sources, height = _sort_for_balls(sources.points, eps)
        self._source_shape = self._columns(sources, self._sources)
        self._weights = weights[self._sources.order]
        if queries is None:
            self._queries, self._query_shape = self._sources, self._source_shape
        else:
            self._queries = sort_into_rows(queries.points, height)
            self._query_shape = self._columns(queries, self._queries)
        self._about = self._queries.coordinates

    def means(self) -> BallMeans:
        """Return the means of all balls."""
        queries, sources = self._queries, self._sources
        d, n = queries.coordinates.shape
        shift, mass, keys = np.empty((d, n)), np.empty(n), np.empty(n, np.uint64)
        kernel = means_3d if self._m == 3 else means_2d
        own_keys = source_keys(sources.order.size)[sources.order]

        def work(start: int, stop: int) -> None:
            kernel(
                start, stop, queries.rows, queries.coordinates, self._query_shape, sources.rows, sources.coordinates,
                self._source_shape, self._weights, own_keys, self._eps_squared, self._lam > 0.0, shift, mass, keys,
            )  # fmt: skip

        self._run(work, n)
        self._about = queries.coordinates + shift
        return self._in_order(shift, mass, keys)

    def covariances(self, moved: FloatArray) -> FloatArray:
        """Return the covariances of the `moved` sources over the same balls."""
        d, n = self._queries.coordinates.shape
        moved_columns = self._moved_columns(moved)
        entries = np.empty((d * (d + 1) // 2, n))
        self._run(lambda start, stop: self._sweep_covariances(start, stop, moved_columns, entries), n)
        return self._matrices(entries)

    def _sweep_covariances(self, start: int, stop: int, moved_columns: FloatArray, entries: FloatArray) -> None:
        queries, sources = self._queries, self._sources
        kernel = covariances_3d if self._m == 3 else covariances_2d
        kernel(
            start, stop, queries.rows, queries.coordinates, self._query_shape, sources.rows, sources.coordinates,
            self._source_shape, self._weights, moved_columns, self._eps_squared, self._lam > 0.0, self._about, entries,
        )  # fmt: skip

    def _run(self, work: Callable[[int, int], None], n: int) -> None:
        # Ranges small enough to share unevenly dense clouds fairly, large enough that handing them out costs nothing.
        grain = min(max(n // (16 * self._n_threads), 512), 65536)
        run_ranges(work, n, n_threads=self._n_threads, grain=grain)

    def _columns(self, gaussians: Gaussians, cloud: SortedCloud) -> FloatArray:
        if self._lam == 0.0:
            return np.zeros((14 if self._m == 3 else 4, 1))
        covariances = cast(FloatArray, gaussians.covariances)  # no factors in so few dimensions
        return (_shape_3d if self._m == 3 else _shape_2d)(covariances, self._lam, cloud)

    def _moved_columns(self, moved: FloatArray) -> FloatArray:
        columns = np.zeros_like(self._sources.coordinates)
        columns[: self._m] = moved[self._sources.order].T
        return columns

    def _in_order(self, shift: FloatArray, mass: FloatArray, keys: KeyArray) -> BallMeans:
        """Return means in the order of the queries."""
        position = np.empty_like(self._queries.order)
        position[self._queries.order] = np.arange(position.size)
        return BallMeans(shift[: self._m, position].T.copy(), mass[position], keys[position])

    def _matrices(self, entries: FloatArray) -> FloatArray:
        """Return covariances in the order of the queries."""
        m, order = self._m, self._queries.order
        covariances = np.empty((order.size, m, m))
        for k, (i, j) in enumerate(zip(*entry_axes(entries), strict=True)):
            if j < m:
                covariances[order, i, j] = covariances[order, j, i] = entries[k]
        return covariances


def entry_axes(entries: FloatArray) -> tuple[list[int], list[int]]:
    """Return the axes i, j of the entries Σ_ij as the kernels write them: the diagonal, then the upper triangle."""
    return ([0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]) if len(entries) == 6 else ([0, 1, 0], [0, 1, 1])


def _sort_for_balls(points: FloatArray, eps: float) -> tuple[SortedCloud, float]:
    """Sort a cloud into rows and return their height: high rows for sparse balls (fewer stretches), low for full ones.

    The fractions of eps minimise the time measured on clouds with 10 to 2,000 points a ball.
    """
    cloud = sort_into_rows(points, eps)
    m = points.shape[1]
    if m == 1:
        return cloud, eps
    sample = np.linspace(0, cloud.order.size - 1, num=min(cloud.order.size, 64)).astype(np.int64)
    per_point = n_candidates(cloud.rows, cloud.coordinates, sample, eps) / sample.size
    fraction = (700.0 / per_point) ** (1.0 / 2.0) if m == 2 else (1600.0 / per_point) ** (1.0 / 3.0)
    if fraction >= 1.0:
        return cloud, eps
    height = eps * float(max(fraction, 0.25))
    return sort_into_rows(points, height), height


def _shape_2d(covariances: FloatArray, lam: float, cloud: SortedCloud) -> FloatArray:
    """Return the columns (q₁, q₂, q₃, h)·2λ of `_kernels.sweep_2d` in row order."""
    shape = np.zeros((4, cloud.order.size))
    a = covariances[cloud.order, 0, 0]
    if covariances.shape[1] == 1:
        shape[0] = lam * a
    else:
        b, c = covariances[cloud.order, 1, 1], covariances[cloud.order, 0, 1]
        shape[0] = lam * (a - b)
        shape[1] = 2.0 * lam * c
        shape[2] = 2.0 * lam * np.sqrt(np.maximum(a * b - c * c, 0.0))
    shape[3] = np.sqrt(shape[0] ** 2 + shape[1] ** 2 + shape[2] ** 2)
    return shape


def _shape_3d(covariances: FloatArray, lam: float, cloud: SortedCloud) -> FloatArray:
    """Return the 14 columns of `_kernels.sweep_3d` in row order."""
    entries = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]
    xx, yy, zz, xy, xz, yz = (lam * covariances[cloud.order, i, j] for i, j in entries)
    shape = np.empty((14, cloud.order.size))
    shape[0], shape[1], shape[2] = xx, yy, zz
    shape[3], shape[4], shape[5] = np.sqrt(2.0) * xy, np.sqrt(2.0) * xz, np.sqrt(2.0) * yz
    shape[6], shape[7], shape[8] = yy * zz - yz * yz, xx * zz - xz * xz, xx * yy - xy * xy
    shape[9] = np.sqrt(2.0) * (xz * yz - xy * zz)
    shape[10] = np.sqrt(2.0) * (xy * yz - xz * yy)
    shape[11] = np.sqrt(2.0) * (xy * xz - xx * yz)
    determinant = xx * shape[6] + xy * shape[9] / np.sqrt(2.0) + xz * shape[10] / np.sqrt(2.0)
    shape[12] = np.sqrt(np.maximum(determinant, 0.0))
    shape[13] = xx + yy + zz
    return shape
