"""GT distances of many pairs of Gaussians in the plane and in space.

Points and features come as a structure of arrays, one row for each coordinate or feature, so that the loop over the
partners of a Gaussian vectorises. The first Gaussian of a pair is always given first to the pair function: with two
operands exchanged the last bit may differ.
"""

from __future__ import annotations

import math

from gaussian_transform._kernels.bures import (
    apart_3,
    bures_squared_2,
    bures_squared_3,
    commutator_3,
    dot_3,
    gain_step_3,
    pair_squared_2,
)
from gaussian_transform._parallel import njit
from gaussian_transform._typing import FloatArray, IntArray


@njit
def row_2(x, f, i, y, g, first, lam, unit, out):
    """Write ``unit * √(‖x−y‖² + λ dcov²)`` of Gaussian i and each of ``first, first+1, …`` to the row `out`."""
    x1, x2 = x[0, i], x[1, i]
    f1, f2, f3, u1, u2, u3, root = f[0, i], f[1, i], f[2, i], f[3, i], f[4, i], f[5, i], f[6, i]
    # Sliced before the loop: only then does the compiler see that the index stays inside and vectorise.
    y1, y2 = y[0, first:], y[1, first:]
    g1, g2, g3 = g[0, first:], g[1, first:], g[2, first:]
    v1, v2, v3, roots = g[3, first:], g[4, first:], g[5, first:], g[6, first:]
    for j in range(y1.size):
        shape = pair_squared_2(f1, f2, f3, u1, u2, u3, root, g1[j], g2[j], g3[j], v1[j], v2[j], v3[j], roots[j])
        apart = (x1 - y1[j]) * (x1 - y1[j]) + (x2 - y2[j]) * (x2 - y2[j])
        out[j] = unit * math.sqrt(apart + lam * shape)


@njit
def row_3(x, f, i, y, g, first, lam, unit, out):
    """Do in three dimensions what `row_2` does in two."""
    x1, x2, x3 = x[0, i], x[1, i], x[2, i]
    f1, f2, f3, f12, f13, f23 = f[0, i], f[1, i], f[2, i], f[3, i], f[4, i], f[5, i]
    a1, a2, a3, a12, a13, a23 = f[6, i], f[7, i], f[8, i], f[9, i], f[10, i], f[11, i]
    f_det, f_scale = f[12, i], f[13, i]
    y1, y2, y3 = y[0, first:], y[1, first:], y[2, first:]
    g1, g2, g3, g12, g13, g23 = g[0, first:], g[1, first:], g[2, first:], g[3, first:], g[4, first:], g[5, first:]
    b1, b2, b3, b12, b13, b23 = g[6, first:], g[7, first:], g[8, first:], g[9, first:], g[10, first:], g[11, first:]
    g_det, g_scale = g[12, first:], g[13, first:]
    for j in range(y1.size):
        h1, h2, h3, h12, h13, h23 = g1[j], g2[j], g3[j], g12[j], g13[j], g23[j]
        c1, c2, c3, c12, c13, c23 = b1[j], b2[j], b3[j], b12[j], b13[j], b23[j]
        trace = dot_3(f1, f2, f3, f12, f13, f23, h1, h2, h3, h12, h13, h23)
        skew = commutator_3(f1, f2, f3, f12, f13, f23, h1, h2, h3, h12, h13, h23)
        minors = dot_3(a1, a2, a3, a12, a13, a23, c1, c2, c3, c12, c13, c23)
        minors_skew = commutator_3(a1, a2, a3, a12, a13, a23, c1, c2, c3, c12, c13, c23)
        gain = 0.0
        for _ in range(3):
            gain = gain_step_3(gain, trace, skew, minors, minors_skew, f_det * g_det[j])
        apart = apart_3(f_scale, f1, f2, f3, f12, f13, f23, g_scale[j], h1, h2, h3, h12, h13, h23)
        shape = max(apart - 2.0 * f_scale * g_scale[j] * gain, 0.0)
        apart = (x1 - y1[j]) * (x1 - y1[j]) + (x2 - y2[j]) * (x2 - y2[j]) + (x3 - y3[j]) * (x3 - y3[j])
        out[j] = unit * math.sqrt(apart + lam * shape)


@njit
def fill_rows(
    x: FloatArray,
    f: FloatArray,
    y: FloatArray,
    g: FloatArray,
    is_symmetric: bool,
    is_condensed: bool,
    lam: float,
    unit: float,
    start: int,
    stop: int,
    out: FloatArray,
) -> None:
    """Write the distances of Gaussians ``start:stop`` to all others to `out`, a flattened matrix.

    Of a symmetric matrix only what is right of the diagonal is written; condensed, it has nothing else (SciPy's order).
    """
    n = y.shape[1]
    for i in range(start, stop):
        first = i + 1 if is_symmetric else 0
        begin = i * n - i * (i + 1) // 2 if is_condensed else i * n + first
        row = out[begin : begin + n - first]
        if x.shape[0] == 2:
            row_2(x, f, i, y, g, first, lam, unit, row)
        else:
            row_3(x, f, i, y, g, first, lam, unit, row)


@njit
def mirror_rows(start: int, stop: int, out: FloatArray) -> None:
    """Copy the upper triangle to rows ``start:stop`` of the lower, in tiles that stay in the cache."""
    for left in range(0, stop, 32):
        for i in range(start, stop):
            for j in range(left, min(left + 32, i)):
                out[i, j] = out[j, i]


@njit
def squared_pairs(
    x: FloatArray,
    f: FloatArray,
    i: IntArray,
    y: FloatArray,
    g: FloatArray,
    j: IntArray,
    is_symmetric: bool,
    lam: float,
    out: FloatArray,
) -> None:
    """Write ‖x−y‖² + λ dcov² of the pairs ``(i[p], j[p])``; here one row for each Gaussian."""
    m = x.shape[1]
    for p in range(i.size):
        first, second = i[p], j[p]
        if is_symmetric and first > second:
            first, second = second, first
        apart = 0.0
        for k in range(m):
            apart += (x[first, k] - y[second, k]) * (x[first, k] - y[second, k])
        if m == 2:
            out[p] = apart + lam * bures_squared_2(f[first], g[second])
        else:
            out[p] = apart + lam * bures_squared_3(f[first], g[second])
