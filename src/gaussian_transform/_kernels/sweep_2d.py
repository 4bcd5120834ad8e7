"""Means and covariances of GT balls in the plane, pairs recomputed on the fly: O(n) memory.

Covariances come as columns (2λq₁, 2λq₂, 2λq₃, 2λh) with q = ((Σ₁₁−Σ₂₂)/2, Σ₁₂, √det Σ) and h = |q| = tr Σ/2. With
c = ε² − ‖x−x'‖², Q = |q−q'|² and H = h+h' (both in that scale) the closed form of the Bures distance turns into a test
without roots: the pair is inside iff c ≥ 0 and (c ≥ H or Q ≤ c(2H − c)). λ = 0 is mean shift: c ≥ 0 alone.

The inner loops vectorise because they choose instead of branching and because their index is unsigned, which spares the
check for negative ones; the test on ``is_anisotropic`` is moved out of them by the compiler.
"""

from __future__ import annotations

import numpy as np

from gaussian_transform._kernels.rows import begin_stretches, narrow_stretches, row_of, rows_within
from gaussian_transform._parallel import njit

_NO_KEY = np.uint64(0)


@njit
def is_near_2d(c, big_h, big_q):
    """Tell whether c ≥ λ·dcov² from H and Q of two covariances."""
    return (c >= big_h) | (big_q <= c * (2.0 * big_h - c))


@njit
def _mean_sums(i, query, query_shape, a, b, points, shape, weights, keys, eps_squared, is_anisotropic):
    """Sum weights, weighted ways from query `i`, and keys over its members in the stretch ``a:b``."""
    x, y = query[0, i], query[1, i]
    k = i if is_anisotropic else 0  # without anisotropy there is one column, and it is not read
    q1, q2, q3, h = query_shape[0, k], query_shape[1, k], query_shape[2, k], query_shape[3, k]
    w_sum = x_sum = y_sum = 0.0
    key_sum = _NO_KEY
    for j in range(np.uint64(a), np.uint64(b)):
        dx, dy = points[0, j] - x, points[1, j] - y
        c = eps_squared - (dx * dx + dy * dy)
        is_in = c >= 0.0
        if is_anisotropic:
            d1, d2, d3 = shape[0, j] - q1, shape[1, j] - q2, shape[2, j] - q3
            is_in &= is_near_2d(c, shape[3, j] + h, d1 * d1 + d2 * d2 + d3 * d3)
        w = weights[j] if is_in else 0.0
        w_sum += w
        x_sum += w * dx
        y_sum += w * dy
        key_sum += keys[j] if is_in else _NO_KEY
    return w_sum, x_sum, y_sum, key_sum


@njit
def means_2d(
    start, stop, query_rows, query, query_shape, rows, points, shape, weights, keys, eps_squared, is_anisotropic,
    shift, mass, ball_key,
):  # fmt: skip
    """Write the way from each query to the mean of its ball, the ball's mass, and the sum of its members' keys."""
    reach_squared = eps_squared * (1.0 + 1e-9)
    reach = np.sqrt(reach_squared)
    i = start
    while i < stop:
        own = row_of(query_rows.start, i)
        near = rows_within(rows, query_rows.y_min[own], query_rows.y_max[own], 0.0, 0.0, reach)
        lo = begin_stretches(rows, points[0], near, query[0, i] - reach)
        hi = lo.copy()
        for i in range(i, min(stop, query_rows.start[own + 1])):  # noqa: B020 - rows are taken up where the last ended
            narrow_stretches(rows, points[0], near, query[0, i], query[1, i], 0.0, reach_squared, lo, hi)
            w_sum = x_sum = y_sum = 0.0
            key_sum = _NO_KEY
            for s in range(near.size):
                w, x, y, key = _mean_sums(
                    i, query, query_shape, lo[s], hi[s], points, shape, weights, keys, eps_squared, is_anisotropic
                )
                w_sum += w
                x_sum += x
                y_sum += y
                key_sum += key
            mass[i] = w_sum
            ball_key[i] = key_sum
            scale = 1.0 / w_sum if w_sum > 0.0 else 0.0
            shift[0, i] = x_sum * scale
            shift[1, i] = y_sum * scale
        i += 1


@njit
def _moment_sums(
    i, query, query_shape, a, b, points, shape, weights, moved, center_x, center_y, eps_squared, is_anisotropic
):  # fmt: skip
    """Sum weights, first and second moments of the moved members of query `i` in ``a:b`` about a center."""
    x, y = query[0, i], query[1, i]
    k = i if is_anisotropic else 0  # without anisotropy there is one column, and it is not read
    q1, q2, q3, h = query_shape[0, k], query_shape[1, k], query_shape[2, k], query_shape[3, k]
    w_sum = u_sum = v_sum = uu = uv = vv = 0.0
    for j in range(np.uint64(a), np.uint64(b)):
        dx, dy = points[0, j] - x, points[1, j] - y
        c = eps_squared - (dx * dx + dy * dy)
        is_in = c >= 0.0
        if is_anisotropic:
            d1, d2, d3 = shape[0, j] - q1, shape[1, j] - q2, shape[2, j] - q3
            is_in &= is_near_2d(c, shape[3, j] + h, d1 * d1 + d2 * d2 + d3 * d3)
        w = weights[j] if is_in else 0.0
        u, v = moved[0, j] - center_x, moved[1, j] - center_y
        w_sum += w
        u_sum += w * u
        v_sum += w * v
        uu += w * u * u
        uv += w * u * v
        vv += w * v * v
    return w_sum, u_sum, v_sum, uu, uv, vv


@njit
def covariances_2d(
    start, stop, query_rows, query, query_shape, rows, points, shape, weights, moved, eps_squared, is_anisotropic,
    about, covariance,
):  # fmt: skip
    """Write the covariance (Σ₁₁, Σ₂₂, Σ₁₂) of the `moved` points over each query's ball of the unmoved ones.

    Sums are taken about the point `about`; where that turns out to lie far outside the moved ball, so that subtracting
    the mean would cost digits, they are taken once more about the mean.
    """
    reach_squared = eps_squared * (1.0 + 1e-9)
    reach = np.sqrt(reach_squared)
    i = start
    while i < stop:
        own = row_of(query_rows.start, i)
        near = rows_within(rows, query_rows.y_min[own], query_rows.y_max[own], 0.0, 0.0, reach)
        lo = begin_stretches(rows, points[0], near, query[0, i] - reach)
        hi = lo.copy()
        for i in range(i, min(stop, query_rows.start[own + 1])):  # noqa: B020 - rows are taken up where the last ended
            narrow_stretches(rows, points[0], near, query[0, i], query[1, i], 0.0, reach_squared, lo, hi)
            center_x, center_y = about[0, i], about[1, i]
            for _ in range(2):
                w_sum = x = y = xx = xy = yy = 0.0
                for s in range(near.size):
                    w, u, v, uu, uv, vv = _moment_sums(
                        i, query, query_shape, lo[s], hi[s], points, shape, weights, moved, center_x, center_y,
                        eps_squared, is_anisotropic,
                    )  # fmt: skip
                    w_sum += w
                    x, y = x + u, y + v
                    xx, xy, yy = xx + uu, xy + uv, yy + vv
                scale = 1.0 / w_sum if w_sum > 0.0 else 0.0
                x, y = x * scale, y * scale
                xx, xy, yy = xx * scale - x * x, xy * scale - x * y, yy * scale - y * y
                if x * x + y * y <= 100.0 * (xx + yy):
                    break
                center_x, center_y = center_x + x, center_y + y
            covariance[0, i] = max(xx, 0.0)
            covariance[1, i] = max(yy, 0.0)
            covariance[2, i] = xy
        i += 1
