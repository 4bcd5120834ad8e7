"""Products F Gᵀ of the factors of two covariances, and bounds of their nuclear norms, for many pairs.

Factors are `PrincipalFactors`. The product of pair p lies in ``products[offset[p]:offset[p + 1]]``, with one row for
each row of the factor that has fewer.
"""

from __future__ import annotations

import math

import numpy as np

from gaussian_transform._kernels.factors import orthogonalize_rows
from gaussian_transform._parallel import njit

# Products of rows shorter than this, in scaled units, are those of rows of zeros.
_TINY = 1e-300


@njit
def squared_apart(x, i, y, j, out):
    """Write ‖x_i − y_j‖² of the pairs ``(i[p], j[p])``."""
    for p in range(i.size):
        u, v = x[i[p]], y[j[p]]
        total = 0.0
        for k in range(u.size):
            total += (u[k] - v[k]) * (u[k] - v[k])
        out[p] = total


@njit
def _dots_4x4(a0, a1, a2, a3, b0, b1, b2, b3, out, at, n_columns):
    """Write the dot products of four rows with four: each number that is loaded is used four times."""
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = 0.0
    for k in range(a0.size):
        x, y, z, w = b0[k], b1[k], b2[k], b3[k]
        s00, s01, s02, s03 = s00 + a0[k] * x, s01 + a0[k] * y, s02 + a0[k] * z, s03 + a0[k] * w
        s10, s11, s12, s13 = s10 + a1[k] * x, s11 + a1[k] * y, s12 + a1[k] * z, s13 + a1[k] * w
        s20, s21, s22, s23 = s20 + a2[k] * x, s21 + a2[k] * y, s22 + a2[k] * z, s23 + a2[k] * w
        s30, s31, s32, s33 = s30 + a3[k] * x, s31 + a3[k] * y, s32 + a3[k] * z, s33 + a3[k] * w
    out[at], out[at + 1], out[at + 2], out[at + 3] = s00, s01, s02, s03
    at += n_columns
    out[at], out[at + 1], out[at + 2], out[at + 3] = s10, s11, s12, s13
    at += n_columns
    out[at], out[at + 1], out[at + 2], out[at + 3] = s20, s21, s22, s23
    at += n_columns
    out[at], out[at + 1], out[at + 2], out[at + 3] = s30, s31, s32, s33


@njit
def _dots_1x4(a, b0, b1, b2, b3, out, at, step):
    """Write the dot products of one row with four, `step` apart."""
    s0 = s1 = s2 = s3 = 0.0
    for k in range(a.size):
        s0, s1, s2, s3 = s0 + a[k] * b0[k], s1 + a[k] * b1[k], s2 + a[k] * b2[k], s3 + a[k] * b3[k]
    out[at], out[at + step], out[at + 2 * step], out[at + 3 * step] = s0, s1, s2, s3


@njit
def _multiply(f, g, out):
    """Write F Gᵀ row by row: blocks of four by four, then what is left below and on the right of them."""
    r, s = f.shape[0], g.shape[0]
    rows, columns = r - r % 4, s - s % 4
    for b in range(0, columns, 4):
        g0, g1, g2, g3 = g[b], g[b + 1], g[b + 2], g[b + 3]
        for a in range(0, rows, 4):
            _dots_4x4(f[a], f[a + 1], f[a + 2], f[a + 3], g0, g1, g2, g3, out, a * s + b, s)
        for a in range(rows, r):
            _dots_1x4(f[a], g0, g1, g2, g3, out, a * s + b, 1)
    for b in range(columns, s):
        other = g[b]
        for a in range(0, rows, 4):
            _dots_1x4(other, f[a], f[a + 1], f[a + 2], f[a + 3], out, a * s + b, s)
        for a in range(rows, r):
            row = f[a]
            total = 0.0
            for k in range(row.size):
                total += row[k] * other[k]
            out[a * s + b] = total


@njit
def compare_rows(f, g, i, j, are_same):
    """Write for pairs of one rank whether their factors are equal in every number."""
    for p in range(i.size):
        first, second, r = f.begin[i[p]], g.begin[j[p]], f.rank[i[p]]
        a = f.rows[first : first + r].reshape(-1)
        b = g.rows[second : second + r].reshape(-1)
        is_same = True
        for k in range(a.size):
            if a[k] != b[k]:
                is_same = False
                break
        are_same[p] = is_same


@njit
def multiply_pairs(f, g, i, j, offset, products):
    """Write the products of the pairs ``(i[p], j[p])``."""
    for p in range(i.size):
        first = f.rows[f.begin[i[p]] : f.begin[i[p]] + f.rank[i[p]]]
        second = g.rows[g.begin[j[p]] : g.begin[j[p]] + g.rank[j[p]]]
        out = products[offset[p] : offset[p + 1]]
        if first.shape[0] <= second.shape[0]:
            _multiply(first, second, out)
        else:
            _multiply(second, first, out)


@njit
def bound_nuclear_norms(f, g, i, j, offset, products, lower, upper):
    """Write bounds of the nuclear norms of products M.

    No more than the sum of the norms of the rows, or of the columns; no less than the Frobenius norm, and than
    Σ M_ab²/(‖f_a‖‖g_b‖), which is the trace of A^½B^½ because the rows of F, and those of G, are orthogonal.
    """
    for p in range(i.size):
        r, s = f.rank[i[p]], g.rank[j[p]]
        f_lengths = f.lengths[f.begin[i[p]] : f.begin[i[p]] + r]
        g_lengths = g.lengths[g.begin[j[p]] : g.begin[j[p]] + s]
        if r > s:
            r, s, f_lengths, g_lengths = s, r, g_lengths, f_lengths
        product = products[offset[p] : offset[p + 1]].reshape(r, s)
        by_rows = by_columns = frobenius = inner = 0.0
        for a in range(r):
            squared = weighed = 0.0
            row = product[a]
            for b in range(s):
                squared += row[b] * row[b]
                weighed += row[b] * row[b] / g_lengths[b]
            by_rows += math.sqrt(squared)
            frobenius += squared
            inner += weighed / f_lengths[a]
        for b in range(s):
            squared = 0.0
            for a in range(r):
                squared += product[a, b] * product[a, b]
            by_columns += math.sqrt(squared)
        lower[p], upper[p] = max(math.sqrt(frobenius), inner), min(by_rows, by_columns)


@njit
def _triangulate(product, out):
    """Write a product (r, s), r ≤ s, times an orthogonal matrix from the right: a lower triangle (r, r).

    Rows become orthogonal one after the other (modified Gram and Schmidt); their coefficients have the singular values.
    The product is overwritten.
    """
    r = product.shape[0]
    for a in range(r):
        row = product[a]
        squared = 0.0
        for k in range(row.size):
            squared += row[k] * row[k]
        norm = math.sqrt(squared)
        inverse = 1.0 / norm if norm > 0.0 else 0.0
        out[a, a] = norm
        for b in range(a + 1, r):
            other = product[b]
            along = 0.0
            for k in range(row.size):
                along += row[k] * other[k]
            along *= inverse
            out[b, a] = along
            for k in range(row.size):
                other[k] -= along * inverse * row[k]


@njit
def square_products(chosen, rank, offset, products, out):
    """Write square matrices with the singular values of the products of `chosen` pairs, filled up by zeros.

    Products of pair p have ``rank[p]`` rows, and those with more columns are overwritten.
    """
    for q in range(chosen.size):
        p = chosen[q]
        r = rank[p]
        product = products[offset[p] : offset[p + 1]].reshape(r, (offset[p + 1] - offset[p]) // r)
        square = out[q]
        square[:] = 0.0
        if product.shape[1] == r:
            for a in range(r):
                source, target = product[a], square[a]
                for b in range(r):
                    target[b] = source[b]
        else:
            _triangulate(product, square)


@njit
def _aligned_squared(f, g):
    """Squared Bures distance ‖UF − VG‖², U and V from the singular vectors of F Gᵀ, for factors (r, m), (s, m), r ≤ s.

    Rows of UF Gᵀ are orthogonal. With p the unit vector along one of them, row a of VG is pᵀG; what is left of G beside
    these rows counts in full.
    """
    r, s, m = f.shape[0], g.shape[0], f.shape[1]
    w, turn = np.empty(r * s), np.eye(r)
    _multiply(f, g, w)
    rows = w.reshape(r, s)
    orthogonalize_rows(rows, turn)
    rest, way, aligned = g.copy(), np.empty(m), np.empty(m)
    total = 0.0
    for a in range(r):
        p = rows[a]
        squared = 0.0
        for b in range(s):
            squared += p[b] * p[b]
        inverse = 1.0 / math.sqrt(squared) if squared > _TINY else 0.0
        way[:] = 0.0
        for b in range(r):
            u, row = turn[a, b], f[b]
            for k in range(m):
                way[k] += u * row[k]
        aligned[:] = 0.0
        for b in range(s):
            u, row = p[b] * inverse, g[b]
            for k in range(m):
                aligned[k] += u * row[k]
        for k in range(m):
            total += (way[k] - aligned[k]) * (way[k] - aligned[k])
        for b in range(s):
            u, row = p[b] * inverse, rest[b]
            for k in range(m):
                row[k] -= u * aligned[k]
    for b in range(s):
        row = rest[b]
        for k in range(m):
            total += row[k] * row[k]
    return total


@njit
def align_pairs(f, g, chosen, squared):
    """Write the squared distances of the `chosen` pairs of the same position in `f` and in `g`, by aligned factors."""
    for q in range(chosen.size):
        p = chosen[q]
        first = f.rows[f.begin[p] : f.begin[p] + f.rank[p]]
        second = g.rows[g.begin[p] : g.begin[p] + g.rank[p]]
        if first.shape[0] <= second.shape[0]:
            squared[p] = _aligned_squared(first, second)
        else:
            squared[p] = _aligned_squared(second, first)
