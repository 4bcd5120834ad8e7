"""Each pair in space tested once and entered in both balls: the paper's neighbourhood propagation.

A strip of a sorted cloud is taken at a time; points of it meet only points after them. The caller runs strips at once
only when they do not reach each other, starts the sums of a point with the point itself, and gives columns as for
`sweep_3d`.
"""

from __future__ import annotations

import numpy as np

from gaussian_transform._kernels.rows import begin_stretches, later_rows_within, narrow_stretches, row_of
from gaussian_transform._kernels.sweep_3d import is_near_3d
from gaussian_transform._parallel import njit

_NO_KEY = np.uint64(0)


@njit
def _enter_means_3d(i, a, b, points, shape, weights, keys, eps_squared, is_anisotropic, sums, ball_key):
    """Enter the pairs of point `i` with its members in the stretch ``a:b`` in the sums of both."""
    x, y, z, w_own, key_own = points[0, i], points[1, i], points[2, i], weights[i], keys[i]
    k = i if is_anisotropic else 0  # without anisotropy there is one column, and it is not read
    q1, q2, q3, q4, q5, q6 = shape[0, k], shape[1, k], shape[2, k], shape[3, k], shape[4, k], shape[5, k]
    r1, r2, r3, r4, r5, r6 = shape[6, k], shape[7, k], shape[8, k], shape[9, k], shape[10, k], shape[11, k]
    root_det, trace = shape[12, k], shape[13, k]
    w_sum = x_sum = y_sum = z_sum = 0.0
    key_sum = _NO_KEY
    for j in range(np.uint64(a), np.uint64(b)):
        dx, dy, dz = points[0, j] - x, points[1, j] - y, points[2, j] - z
        c = eps_squared - (dx * dx + dy * dy + dz * dz)
        is_in = c >= 0.0
        if is_anisotropic:
            i1 = q1 * shape[0, j] + q2 * shape[1, j] + q3 * shape[2, j]
            i1 += q4 * shape[3, j] + q5 * shape[4, j] + q6 * shape[5, j]
            i2 = r1 * shape[6, j] + r2 * shape[7, j] + r3 * shape[8, j]
            i2 += r4 * shape[9, j] + r5 * shape[10, j] + r6 * shape[11, j]
            is_in &= is_near_3d(c, shape[13, j] + trace, i1, i2, shape[12, j] * root_det)
        w, w_back = (weights[j], w_own) if is_in else (0.0, 0.0)
        w_sum += w
        x_sum += w * dx
        y_sum += w * dy
        z_sum += w * dz
        key_sum += keys[j] if is_in else _NO_KEY
        sums[0, j] += w_back
        sums[1, j] -= w_back * dx
        sums[2, j] -= w_back * dy
        sums[3, j] -= w_back * dz
        ball_key[j] += key_own if is_in else _NO_KEY
    sums[0, i] += w_sum
    sums[1, i] += x_sum
    sums[2, i] += y_sum
    sums[3, i] += z_sum
    ball_key[i] += key_sum


@njit
def propagate_means_3d(start, stop, rows, points, shape, weights, keys, eps_squared, is_anisotropic, sums, ball_key):
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
            narrow_stretches(rows, points[0], near, points[0, i], points[1, i], points[2, i], reach_squared, lo, hi)
            for s in range(near.size):
                _enter_means_3d(
                    i, max(lo[s], i + 1), hi[s], points, shape, weights, keys, eps_squared, is_anisotropic,
                    sums, ball_key,
                )  # fmt: skip
        i += 1


@njit
def _enter_moments_3d(i, a, b, points, shape, weights, moved, eps_squared, is_anisotropic, sums):
    """Enter the moved points of the pairs of `i` with its members in ``a:b`` in the sums of both."""
    x, y, z, w_own = points[0, i], points[1, i], points[2, i], weights[i]
    moved_x, moved_y, moved_z = moved[0, i], moved[1, i], moved[2, i]
    k = i if is_anisotropic else 0
    q1, q2, q3, q4, q5, q6 = shape[0, k], shape[1, k], shape[2, k], shape[3, k], shape[4, k], shape[5, k]
    r1, r2, r3, r4, r5, r6 = shape[6, k], shape[7, k], shape[8, k], shape[9, k], shape[10, k], shape[11, k]
    root_det, trace = shape[12, k], shape[13, k]
    w_sum = u_sum = v_sum = t_sum = uu = vv = tt = uv = ut = vt = 0.0
    for j in range(np.uint64(a), np.uint64(b)):
        dx, dy, dz = points[0, j] - x, points[1, j] - y, points[2, j] - z
        c = eps_squared - (dx * dx + dy * dy + dz * dz)
        is_in = c >= 0.0
        if is_anisotropic:
            i1 = q1 * shape[0, j] + q2 * shape[1, j] + q3 * shape[2, j]
            i1 += q4 * shape[3, j] + q5 * shape[4, j] + q6 * shape[5, j]
            i2 = r1 * shape[6, j] + r2 * shape[7, j] + r3 * shape[8, j]
            i2 += r4 * shape[9, j] + r5 * shape[10, j] + r6 * shape[11, j]
            is_in &= is_near_3d(c, shape[13, j] + trace, i1, i2, shape[12, j] * root_det)
        w, w_back = (weights[j], w_own) if is_in else (0.0, 0.0)
        u, v, t = moved[0, j] - moved_x, moved[1, j] - moved_y, moved[2, j] - moved_z
        w_sum += w
        u_sum, v_sum, t_sum = u_sum + w * u, v_sum + w * v, t_sum + w * t
        uu, vv, tt = uu + w * u * u, vv + w * v * v, tt + w * t * t
        uv, ut, vt = uv + w * u * v, ut + w * u * t, vt + w * v * t
        sums[0, j] += w_back
        sums[1, j] -= w_back * u
        sums[2, j] -= w_back * v
        sums[3, j] -= w_back * t
        sums[4, j] += w_back * u * u
        sums[5, j] += w_back * v * v
        sums[6, j] += w_back * t * t
        sums[7, j] += w_back * u * v
        sums[8, j] += w_back * u * t
        sums[9, j] += w_back * v * t
    own = (w_sum, u_sum, v_sum, t_sum, uu, vv, tt, uv, ut, vt)
    for k in range(10):
        sums[k, i] += own[k]


@njit
def propagate_moments_3d(start, stop, rows, points, shape, weights, moved, eps_squared, is_anisotropic, sums):
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
            narrow_stretches(rows, points[0], near, points[0, i], points[1, i], points[2, i], reach_squared, lo, hi)
            for s in range(near.size):
                _enter_moments_3d(
                    i, max(lo[s], i + 1), hi[s], points, shape, weights, moved, eps_squared, is_anisotropic, sums
                )
        i += 1
