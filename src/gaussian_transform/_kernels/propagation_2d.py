"""Each pair in the plane tested once and entered in both balls: the paper's neighbourhood propagation.

A strip of a sorted cloud is taken at a time; points of it meet only points after them. The caller runs strips at once
only when they do not reach each other, starts the sums of a point with the point itself, and gives columns as for
`sweep_2d`.
"""

from __future__ import annotations

import numpy as np

from gaussian_transform._kernels.rows import begin_stretches, later_rows_within, narrow_stretches, row_of
from gaussian_transform._kernels.sweep_2d import is_near_2d
from gaussian_transform._parallel import njit

_NO_KEY = np.uint64(0)


@njit
def _enter_means_2d(i, a, b, points, shape, weights, keys, eps_squared, is_anisotropic, sums, ball_key):
    """Enter the pairs of point `i` with its members in the stretch ``a:b`` in the sums of both."""
    x, y, w_own, key_own = points[0, i], points[1, i], weights[i], keys[i]
    k = i if is_anisotropic else 0  # without anisotropy there is one column, and it is not read
    q1, q2, q3, h = shape[0, k], shape[1, k], shape[2, k], shape[3, k]
    w_sum = x_sum = y_sum = 0.0
    key_sum = _NO_KEY
    for j in range(np.uint64(a), np.uint64(b)):
        dx, dy = points[0, j] - x, points[1, j] - y
        c = eps_squared - (dx * dx + dy * dy)
        is_in = c >= 0.0
        if is_anisotropic:
            d1, d2, d3 = shape[0, j] - q1, shape[1, j] - q2, shape[2, j] - q3
            is_in &= is_near_2d(c, shape[3, j] + h, d1 * d1 + d2 * d2 + d3 * d3)
        w, w_back = (weights[j], w_own) if is_in else (0.0, 0.0)
        w_sum += w
        x_sum += w * dx
        y_sum += w * dy
        key_sum += keys[j] if is_in else _NO_KEY
        sums[0, j] += w_back
        sums[1, j] -= w_back * dx
        sums[2, j] -= w_back * dy
        ball_key[j] += key_own if is_in else _NO_KEY
    sums[0, i] += w_sum
    sums[1, i] += x_sum
    sums[2, i] += y_sum
    ball_key[i] += key_sum


@njit
def propagate_means_2d(start, stop, rows, points, shape, weights, keys, eps_squared, is_anisotropic, sums, ball_key):
    """Add weights, weighted ways and keys of all pairs whose first point is in the strip to `sums` of both points."""
    reach_squared = eps_squared * (1.0 + 1e-9)
    reach = np.sqrt(reach_squared)
    i = start
    while i < stop:
        own = row_of(rows.start, i)
        near = later_rows_within(rows, own, reach)
        lo = begin_stretches(rows, points[0], near, points[0, i] - reach)
        hi = lo.copy()
        for i in range(i, min(stop, rows.start[own + 1])):  # noqa: B020 - rows are taken up where the last ended
            narrow_stretches(rows, points[0], near, points[0, i], points[1, i], 0.0, reach_squared, lo, hi)
            for s in range(near.size):
                _enter_means_2d(
                    i, max(lo[s], i + 1), hi[s], points, shape, weights, keys, eps_squared, is_anisotropic,
                    sums, ball_key,
                )  # fmt: skip
        i += 1


@njit
def _enter_moments_2d(i, a, b, points, shape, weights, moved, eps_squared, is_anisotropic, sums):
    """Enter the moved points of the pairs of `i` with its members in ``a:b`` in the sums of both."""
    x, y, w_own = points[0, i], points[1, i], weights[i]
    moved_x, moved_y = moved[0, i], moved[1, i]
    k = i if is_anisotropic else 0
    q1, q2, q3, h = shape[0, k], shape[1, k], shape[2, k], shape[3, k]
    w_sum = u_sum = v_sum = uu = uv = vv = 0.0
    for j in range(np.uint64(a), np.uint64(b)):
        dx, dy = points[0, j] - x, points[1, j] - y
        c = eps_squared - (dx * dx + dy * dy)
        is_in = c >= 0.0
        if is_anisotropic:
            d1, d2, d3 = shape[0, j] - q1, shape[1, j] - q2, shape[2, j] - q3
            is_in &= is_near_2d(c, shape[3, j] + h, d1 * d1 + d2 * d2 + d3 * d3)
        w, w_back = (weights[j], w_own) if is_in else (0.0, 0.0)
        u, v = moved[0, j] - moved_x, moved[1, j] - moved_y
        w_sum += w
        u_sum, v_sum = u_sum + w * u, v_sum + w * v
        uu, vv, uv = uu + w * u * u, vv + w * v * v, uv + w * u * v
        sums[0, j] += w_back
        sums[1, j] -= w_back * u
        sums[2, j] -= w_back * v
        sums[3, j] += w_back * u * u
        sums[4, j] += w_back * v * v
        sums[5, j] += w_back * u * v
    sums[0, i] += w_sum
    sums[1, i] += u_sum
    sums[2, i] += v_sum
    sums[3, i] += uu
    sums[4, i] += vv
    sums[5, i] += uv


@njit
def propagate_moments_2d(start, stop, rows, points, shape, weights, moved, eps_squared, is_anisotropic, sums):
    """Add weights, first and second moments of the moved points, about the moved point itself, to `sums` of both."""
    reach_squared = eps_squared * (1.0 + 1e-9)
    reach = np.sqrt(reach_squared)
    i = start
    while i < stop:
        own = row_of(rows.start, i)
        near = later_rows_within(rows, own, reach)
        lo = begin_stretches(rows, points[0], near, points[0, i] - reach)
        hi = lo.copy()
        for i in range(i, min(stop, rows.start[own + 1])):  # noqa: B020 - rows are taken up where the last ended
            narrow_stretches(rows, points[0], near, points[0, i], points[1, i], 0.0, reach_squared, lo, hi)
            for s in range(near.size):
                _enter_moments_2d(
                    i, max(lo[s], i + 1), hi[s], points, shape, weights, moved, eps_squared, is_anisotropic, sums
                )
        i += 1
