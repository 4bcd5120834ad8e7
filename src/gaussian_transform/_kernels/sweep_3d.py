"""Means and covariances of GT balls in space, pairs recomputed on the fly: O(n) memory.

Covariances A = λΣ come as 14 columns: six entries of A, six of its adjugate (off-diagonal ones times √2, so that tr(AB)
and tr(adj A·adj B) are plain dot products), √det A and tr A. With c = ε² − ‖x−x'‖², P = (tr A + tr B − c)/2,
I₁ = tr(AB), I₂ = tr(adj A·adj B), r = √(det A·det B) and L = (P² − I₁)/2, the pair is inside iff c ≥ 0 and
(P ≤ 0 or L ≤ 0 or L² ≤ I₂ + 2rP): no roots, no eigenvalues. λ = 0 is mean shift: c ≥ 0 alone.
"""

from __future__ import annotations

import numpy as np

from gaussian_transform._kernels.rows import begin_stretches, narrow_stretches, row_of, rows_within
from gaussian_transform._parallel import njit

_NO_KEY = np.uint64(0)


@njit
def is_near_3d(c, trace_sum, i1, i2, r):
    """Tell whether c ≥ λ·dcov² from the invariants of two covariances."""
    p = 0.5 * (trace_sum - c)
    ell = 0.5 * (p * p - i1)
    return (p <= 0.0) | (ell <= 0.0) | (ell * ell <= i2 + 2.0 * r * p)


@njit
def _mean_sums(i, query, query_shape, a, b, points, shape, weights, keys, eps_squared, is_anisotropic):
    """Sum weights, weighted ways from query `i`, and keys over its members in the stretch ``a:b``."""
    x, y, z = query[0, i], query[1, i], query[2, i]
    k = i if is_anisotropic else 0  # without anisotropy there is one column, and it is not read
    q1, q2, q3, q4, q5, q6 = (query_shape[0, k], query_shape[1, k], query_shape[2, k],
                              query_shape[3, k], query_shape[4, k], query_shape[5, k])  # fmt: skip
    r1, r2, r3, r4, r5, r6 = (query_shape[6, k], query_shape[7, k], query_shape[8, k],
                              query_shape[9, k], query_shape[10, k], query_shape[11, k])  # fmt: skip
    root_det, trace = query_shape[12, k], query_shape[13, k]
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
        w = weights[j] if is_in else 0.0
        w_sum += w
        x_sum += w * dx
        y_sum += w * dy
        z_sum += w * dz
        key_sum += keys[j] if is_in else _NO_KEY
    return w_sum, x_sum, y_sum, z_sum, key_sum


@njit
def means_3d(
    start, stop, query_rows, query, query_shape, rows, points, shape, weights, keys, eps_squared, is_anisotropic,
    shift, mass, ball_key,
):  # fmt: skip
    """Write the way from each query to the mean of its ball, the ball's mass, and the sum of its members' keys."""
    reach_squared = eps_squared * (1.0 + 1e-9)
    reach = np.sqrt(reach_squared)
    i = start
    while i < stop:
        own = row_of(query_rows.start, i)
        near = rows_within(
            rows, query_rows.y_min[own], query_rows.y_max[own], query_rows.z_min[own], query_rows.z_max[own], reach
        )
        lo = begin_stretches(rows, points[0], near, query[0, i] - reach)
        hi = lo.copy()
        for i in range(i, min(stop, query_rows.start[own + 1])):  # noqa: B020 - rows are taken up where the last ended
            narrow_stretches(rows, points[0], near, query[0, i], query[1, i], query[2, i], reach_squared, lo, hi)
            w_sum = x_sum = y_sum = z_sum = 0.0
            key_sum = _NO_KEY
            for s in range(near.size):
                w, x, y, z, key = _mean_sums(
                    i, query, query_shape, lo[s], hi[s], points, shape, weights, keys, eps_squared, is_anisotropic
                )
                w_sum += w
                x_sum, y_sum, z_sum = x_sum + x, y_sum + y, z_sum + z
                key_sum += key
            mass[i] = w_sum
            ball_key[i] = key_sum
            scale = 1.0 / w_sum if w_sum > 0.0 else 0.0
            shift[0, i] = x_sum * scale
            shift[1, i] = y_sum * scale
            shift[2, i] = z_sum * scale
        i += 1


@njit
def _moment_sums(
    i, query, query_shape, a, b, points, shape, weights, moved, center_x, center_y, center_z, eps_squared,
    is_anisotropic,
):  # fmt: skip
    """Sum weights, first and second moments of the moved members of query `i` in ``a:b`` about a center."""
    x, y, z = query[0, i], query[1, i], query[2, i]
    k = i if is_anisotropic else 0  # without anisotropy there is one column, and it is not read
    q1, q2, q3, q4, q5, q6 = (query_shape[0, k], query_shape[1, k], query_shape[2, k],
                              query_shape[3, k], query_shape[4, k], query_shape[5, k])  # fmt: skip
    r1, r2, r3, r4, r5, r6 = (query_shape[6, k], query_shape[7, k], query_shape[8, k],
                              query_shape[9, k], query_shape[10, k], query_shape[11, k])  # fmt: skip
    root_det, trace = query_shape[12, k], query_shape[13, k]
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
        w = weights[j] if is_in else 0.0
        u, v, t = moved[0, j] - center_x, moved[1, j] - center_y, moved[2, j] - center_z
        wu, wv, wt = w * u, w * v, w * t
        w_sum += w
        u_sum, v_sum, t_sum = u_sum + wu, v_sum + wv, t_sum + wt
        uu, vv, tt = uu + wu * u, vv + wv * v, tt + wt * t
        uv, ut, vt = uv + wu * v, ut + wu * t, vt + wv * t
    return w_sum, u_sum, v_sum, t_sum, uu, vv, tt, uv, ut, vt


@njit
def covariances_3d(
    start, stop, query_rows, query, query_shape, rows, points, shape, weights, moved, eps_squared, is_anisotropic,
    about, covariance,
):  # fmt: skip
    """Write the covariance (Σ₁₁, Σ₂₂, Σ₃₃, Σ₁₂, Σ₁₃, Σ₂₃) of the `moved` points over each query's ball.

    Sums are taken about the point `about`; where that turns out to lie far outside the moved ball, so that subtracting
    the mean would cost digits, they are taken once more about the mean.
    """
    reach_squared = eps_squared * (1.0 + 1e-9)
    reach = np.sqrt(reach_squared)
    i = start
    while i < stop:
        own = row_of(query_rows.start, i)
        near = rows_within(
            rows, query_rows.y_min[own], query_rows.y_max[own], query_rows.z_min[own], query_rows.z_max[own], reach
        )
        lo = begin_stretches(rows, points[0], near, query[0, i] - reach)
        hi = lo.copy()
        for i in range(i, min(stop, query_rows.start[own + 1])):  # noqa: B020 - rows are taken up where the last ended
            narrow_stretches(rows, points[0], near, query[0, i], query[1, i], query[2, i], reach_squared, lo, hi)
            center_x, center_y, center_z = about[0, i], about[1, i], about[2, i]
            for _ in range(2):
                w_sum = x = y = z = xx = yy = zz = xy = xz = yz = 0.0
                for s in range(near.size):
                    w, u, v, t, uu, vv, tt, uv, ut, vt = _moment_sums(
                        i, query, query_shape, lo[s], hi[s], points, shape, weights, moved, center_x, center_y,
                        center_z, eps_squared, is_anisotropic,
                    )  # fmt: skip
                    w_sum += w
                    x, y, z = x + u, y + v, z + t
                    xx, yy, zz = xx + uu, yy + vv, zz + tt
                    xy, xz, yz = xy + uv, xz + ut, yz + vt
                scale = 1.0 / w_sum if w_sum > 0.0 else 0.0
                x, y, z = x * scale, y * scale, z * scale
                xx, yy, zz = xx * scale - x * x, yy * scale - y * y, zz * scale - z * z
                xy, xz, yz = xy * scale - x * y, xz * scale - x * z, yz * scale - y * z
                if x * x + y * y + z * z <= 100.0 * (xx + yy + zz):
                    break
                center_x, center_y, center_z = center_x + x, center_y + y, center_z + z
            covariance[0, i], covariance[1, i], covariance[2, i] = max(xx, 0.0), max(yy, 0.0), max(zz, 0.0)
            covariance[3, i], covariance[4, i], covariance[5, i] = xy, xz, yz
        i += 1
