"""Squared Bures distances of small covariances from a few numbers ("features") kept for each.

Each covariance is turned once into a row of features; a pair then costs a few dozen operations, no branch and no
eigenvalues, so loops over pairs vectorise. All forms are sums of terms that vanish with the distance: equal rows give
exactly 0 and small distances keep their relative accuracy, for singular matrices too.

Range: the pair functions square variances, so the caller scales its covariances by a power of two such that the largest
trace is about 2**400 at most; those below 2**-900 of the largest then still count. Inside `features_3` each matrix is
further scaled to a trace near 1, because three dimensions need products of degree eight.
"""

from __future__ import annotations

import math

import numpy as np

from gaussian_transform._parallel import njit
from gaussian_transform._typing import BoolArray, FloatArray

N_FEATURES_2 = 7
N_FEATURES_3 = 14

# Keeps a quotient of two vanishing terms at 0 instead of NaN; far below the rounding of any term whose square is not 0.
_TINY = 1e-300


@njit
def features_2(covs: FloatArray, out: FloatArray) -> None:
    """Write (q, q/√h, √h) with q = ((Σ₁₁−Σ₂₂)/2, Σ₁₂, √det Σ) and h = |q| = ½ tr Σ, for `covs` of shape (n, 2, 2)."""
    for i in range(covs.shape[0]):
        a, b, c = covs[i, 0, 0], 0.5 * (covs[i, 0, 1] + covs[i, 1, 0]), covs[i, 1, 1]
        # Fused into one operation, a difference of equal products would be the rounding error of one of them.
        determinant = 0.0 if a * c == b * b else max(a * c - b * b, 0.0)
        difference = 0.5 * (a - c)
        out[i, 0] = difference
        out[i, 1] = b
        out[i, 2] = math.sqrt(determinant)
        root = math.sqrt(math.sqrt(difference * difference + b * b + determinant))
        inverse = 1.0 / root if root > 0.0 else 0.0
        for k in range(3):
            out[i, k + 3] = out[i, k] * inverse
        out[i, 6] = root


@njit
def pair_squared_2(f1, f2, f3, u1, u2, u3, f_root, g1, g2, g3, v1, v2, v3, g_root):
    """Squared Bures distance 2Q / (H + √(H²−Q)), Q = |q−q'|², H = h+h', of two rows of `features_2`.

    H²−Q is taken as |√h'·q/√h + √h·q'/√h'|², which does not cancel where the two matrices are nearly orthogonal.
    """
    apart = (f1 - g1) * (f1 - g1) + (f2 - g2) * (f2 - g2) + (f3 - g3) * (f3 - g3)
    s1, s2, s3 = g_root * u1 + f_root * v1, g_root * u2 + f_root * v2, g_root * u3 + f_root * v3
    return 2.0 * apart / (f_root * f_root + g_root * g_root + math.sqrt(s1 * s1 + s2 * s2 + s3 * s3) + _TINY)


@njit
def bures_squared_2(f, g):
    """Squared Bures distance of two rows of `features_2`; 0 exactly when they are equal."""
    return pair_squared_2(f[0], f[1], f[2], f[3], f[4], f[5], f[6], g[0], g[1], g[2], g[3], g[4], g[5], g[6])


@njit
def _rotate(a, v, k, j, other):
    """Zero the entry (k, j) of the symmetric `a` by a rotation in that plane and apply it to the columns of `v`."""
    if a[k, j] == 0.0:
        return
    ratio = (a[j, j] - a[k, k]) / (2.0 * a[k, j])
    # Beyond 1e150 the square would overflow, and the rotation is below rounding.
    tangent = 0.0
    if abs(ratio) < 1e150:
        tangent = math.copysign(1.0, ratio) / (abs(ratio) + math.sqrt(ratio * ratio + 1.0))
    cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
    sine = tangent * cosine
    a[k, k] -= tangent * a[k, j]
    a[j, j] += tangent * a[k, j]
    a[k, j] = a[j, k] = 0.0
    x, y = a[other, k], a[other, j]
    a[other, k] = a[k, other] = cosine * x - sine * y
    a[other, j] = a[j, other] = sine * x + cosine * y
    for row in range(3):
        x, y = v[row, k], v[row, j]
        v[row, k] = cosine * x - sine * y
        v[row, j] = sine * x + cosine * y


@njit
def _diagonalize_3(a, v):
    """Rotate the symmetric `a` in place to its eigenvalues and write the eigenvectors to the columns of `v`.

    Cyclic Jacobi: zero rows stay exactly zero and graded matrices keep their small eigenvalues, which a reduction to
    tridiagonal form does not grant.
    """
    for k in range(3):
        for j in range(3):
            v[k, j] = 1.0 if k == j else 0.0
    for _ in range(12):
        if abs(a[0, 1]) + abs(a[0, 2]) + abs(a[1, 2]) < 1e-30:
            break
        _rotate(a, v, 0, 1, 2)
        _rotate(a, v, 0, 2, 1)
        _rotate(a, v, 1, 2, 0)


@njit
def features_3(covs: FloatArray, out: FloatArray) -> None:
    """Write the rows that `bures_squared_3` compares, for covariances of shape (n, 3, 3).

    With Σ = (σF)² and σ a power of two that brings tr F² near 1, a row is F (11, 22, 33, 12, 13, 23), its adjugate in
    the same order, det F and σ. A zero matrix has a row of zeros.
    """
    a, v = np.empty((3, 3)), np.empty((3, 3))
    for i in range(covs.shape[0]):
        trace = covs[i, 0, 0] + covs[i, 1, 1] + covs[i, 2, 2]
        if not trace > 0.0:
            out[i, :] = 0.0
            continue
        exponent = max(math.frexp(trace)[1] // 2, -500)
        inverse = math.ldexp(1.0, -2 * exponent)
        for k in range(3):
            for j in range(3):
                a[k, j] = 0.5 * inverse * (covs[i, k, j] + covs[i, j, k])
        _diagonalize_3(a, v)
        f1, f2, f3 = math.sqrt(max(a[0, 0], 0.0)), math.sqrt(max(a[1, 1], 0.0)), math.sqrt(max(a[2, 2], 0.0))
        for position in range(6):
            k = position if position < 3 else (position - 3) // 2
            j = position if position < 3 else (position - 2) // 2 + 1
            w1, w2, w3 = v[k, 0] * v[j, 0], v[k, 1] * v[j, 1], v[k, 2] * v[j, 2]
            out[i, position] = f1 * w1 + f2 * w2 + f3 * w3
            out[i, position + 6] = f2 * f3 * w1 + f1 * f3 * w2 + f1 * f2 * w3
        out[i, 12] = f1 * f2 * f3
        out[i, 13] = math.ldexp(1.0, exponent)


@njit
def dot_3(a1, a2, a3, a12, a13, a23, b1, b2, b3, b12, b13, b23):
    """Trace of the product of two semi-definite matrices: never negative."""
    return max(a1 * b1 + a2 * b2 + a3 * b3 + 2.0 * (a12 * b12 + a13 * b13 + a23 * b23), 0.0)


@njit
def commutator_3(a1, a2, a3, a12, a13, a23, b1, b2, b3, b12, b13, b23):
    """½‖AB − BA‖² of two symmetric matrices."""
    x = a12 * (b2 - b1) + (a1 - a2) * b12 + a13 * b23 - a23 * b13
    y = a13 * (b3 - b1) + (a1 - a3) * b13 + a12 * b23 - a23 * b12
    z = a23 * (b3 - b2) + (a2 - a3) * b23 + a12 * b13 - a13 * b12
    return x * x + y * y + z * z


@njit
def gain_step_3(gain, trace, skew, minors, minors_skew, determinant):
    """One step of Newton's method for the gain of the best rotation; see `bures_squared_3`."""
    minors_excess = minors_skew + 2.0 * determinant * gain
    s = math.sqrt(minors * minors + minors_excess)
    excess = skew + 2.0 * minors_excess / (minors + s + _TINY)
    nuclear = math.sqrt(trace * trace + excess)
    slope = determinant / (max(nuclear * s - determinant, 8.0 * determinant) + _TINY)
    return gain + (excess / (trace + nuclear + _TINY) - gain) * (1.0 + slope)


@njit
def apart_3(s, a1, a2, a3, a12, a13, a23, t, b1, b2, b3, b12, b13, b23):
    """‖sA − tB‖² of two symmetric matrices and two powers of two."""
    d1, d2, d3 = s * a1 - t * b1, s * a2 - t * b2, s * a3 - t * b3
    d12, d13, d23 = s * a12 - t * b12, s * a13 - t * b13, s * a23 - t * b23
    return d1 * d1 + d2 * d2 + d3 * d3 + 2.0 * (d12 * d12 + d13 * d13 + d23 * d23)


@njit
def bures_squared_3(f, g):
    """Squared Bures distance of two rows of `features_3`, without cancellation; 0 exactly when they are equal.

    With F, G the roots and M = GF, the distance is ‖F−G‖² − 2γ where γ = ‖M‖_* − tr M ≥ 0 is what the best rotation
    gains; ‖F−G‖² ≤ 2 dcov², so the subtraction is harmless. Writing e = tr adj M, s for the second symmetric function
    of the singular values of M, and r = det M, the identity ‖M‖² − tr M² = ½‖M−Mᵀ‖² for M and for adj M gives

        γ (2 tr M + γ) = ½‖M−Mᵀ‖² + 2(s−e),      (s−e)(s+e) = ½‖adj M − adj Mᵀ‖² + 2rγ,

    all terms non-negative. As a map of γ this contracts by at least 9 (tr M · e ≥ 9r) and is concave, so that three
    steps of Newton's method from 0 reach rounding for every rank and condition. The loops over many pairs repeat these
    lines with the small functions above, because the compiler does not inline a function as long as this one.
    """
    trace = dot_3(f[0], f[1], f[2], f[3], f[4], f[5], g[0], g[1], g[2], g[3], g[4], g[5])
    skew = commutator_3(f[0], f[1], f[2], f[3], f[4], f[5], g[0], g[1], g[2], g[3], g[4], g[5])
    minors = dot_3(f[6], f[7], f[8], f[9], f[10], f[11], g[6], g[7], g[8], g[9], g[10], g[11])
    minors_skew = commutator_3(f[6], f[7], f[8], f[9], f[10], f[11], g[6], g[7], g[8], g[9], g[10], g[11])
    gain = 0.0
    for _ in range(3):
        gain = gain_step_3(gain, trace, skew, minors, minors_skew, f[12] * g[12])
    apart = apart_3(f[13], f[0], f[1], f[2], f[3], f[4], f[5], g[13], g[0], g[1], g[2], g[3], g[4], g[5])
    return max(apart - 2.0 * f[13] * g[13] * gain, 0.0)


@njit
def mark_semidefinite(covs: FloatArray, tolerance: float, out: BoolArray) -> None:
    """Mark each symmetric matrix of shape (n, m, m) whose eigenvalues are at least ``-tolerance`` times its trace.

    That is so if the matrix with ``tolerance`` times its trace added to the diagonal has a Cholesky factor.
    """
    m = covs.shape[1]
    work = np.empty((m, m))
    for i in range(covs.shape[0]):
        trace = 0.0
        largest = 0.0
        for k in range(m):
            trace += covs[i, k, k]
            for j in range(m):
                largest = max(largest, abs(covs[i, k, j]))
        if not trace > 0.0:
            out[i] = largest == 0.0
            continue
        work[:, :] = covs[i]
        is_positive = True
        for k in range(m):
            work[k, k] += tolerance * trace
        for k in range(m):
            pivot = work[k, k]
            if not pivot > 0.0:
                is_positive = False
                break
            for j in range(k + 1, m):
                ratio = work[j, k] / pivot
                for h in range(k + 1, j + 1):
                    work[j, h] -= ratio * work[h, k]
        out[i] = is_positive
