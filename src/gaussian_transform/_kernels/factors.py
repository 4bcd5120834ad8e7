"""Squared Bures distance of two covariances in any dimension, from factors F, G with Σ = F Fᵀ and Σ' = G Gᵀ.

The distance is read as min over orthogonal U of ‖F − G U‖, which needs no difference of traces: equal matrices come out
0 to rounding and near ones keep their digits. U is the orthogonal factor of GᵀF, found by rotating pairs of its columns
until all are orthogonal (one-sided Jacobi): one pair at a time, for searches that need few pairs and need them at once.
"""

import math

from gaussian_transform._parallel import njit

_MAX_SWEEPS = 30
_TINY = 1e-300


@njit
def orthogonalize_rows(w, x):
    """Rotate rows of `w` among each other until they are orthogonal to rounding, and rows of `x` alongside."""
    r = w.shape[0]
    tolerance = 2e-16 * r
    for _ in range(_MAX_SWEEPS):
        is_orthogonal = True
        for a in range(r):
            for b in range(a + 1, r):
                u, v, y, z = w[a], w[b], x[a], x[b]
                uu = vv = uv = 0.0
                for i in range(u.size):
                    uu += u[i] * u[i]
                    vv += v[i] * v[i]
                    uv += u[i] * v[i]
                if abs(uv) <= tolerance * math.sqrt(uu) * math.sqrt(vv):
                    continue
                is_orthogonal = False
                ratio = (vv - uu) / (2.0 * uv)
                # Beyond 1e150 the square would overflow, and the rotation is below rounding.
                if abs(ratio) > 1e150:
                    continue
                tangent = math.copysign(1.0, ratio) / (abs(ratio) + math.sqrt(ratio * ratio + 1.0))
                cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                for i in range(u.size):
                    u[i], v[i] = cosine * u[i] - sine * v[i], sine * u[i] + cosine * v[i]
                for i in range(y.size):
                    y[i], z[i] = cosine * y[i] - sine * z[i], sine * y[i] + cosine * z[i]
        if is_orthogonal:
            return


@njit
def _n_zero_rows(f):
    """Count the zero rows before the first that is not zero."""
    for a in range(f.shape[0]):
        for i in range(f.shape[1]):
            if f[a, i] != 0.0:
                return a
    return f.shape[0]


@njit
def factors_bures_squared(f, g, scratch):
    """Squared Bures distance of covariances given by the columns of their factors, as rows of f and g (r, m).

    Zero columns come first. With the rotated columns x of F and p = w/|w| for the columns w of GᵀF, the distance is
    Σ ‖x − G p‖² over those with w ≠ 0, and what is left of F and G beside them counts in full. `scratch` holds at least
    r(r + 2m) numbers.
    """
    f, g = f[_n_zero_rows(f) :], g[_n_zero_rows(g) :]
    if f.shape[0] > g.shape[0]:  # more columns than entries in one could not all become orthogonal
        f, g = g, f
    r, s, m = f.shape[0], g.shape[0], f.shape[1]
    w = scratch[: r * s].reshape(r, s)
    x = scratch[r * s : r * (s + m)].reshape(r, m)
    rest = scratch[r * (s + m) : r * (s + m) + s * m].reshape(s, m)
    for a in range(r):
        for b in range(s):
            total = 0.0
            for i in range(m):
                total += f[a, i] * g[b, i]
            w[a, b] = total
        for i in range(m):
            x[a, i] = f[a, i]
    for b in range(s):
        for i in range(m):
            rest[b, i] = g[b, i]
    orthogonalize_rows(w, x)
    squared = 0.0
    for a in range(r):
        p = w[a]
        total = 0.0
        for b in range(s):
            total += p[b] * p[b]
        inverse = 1.0 / math.sqrt(total) if total > _TINY else 0.0
        for i in range(m):
            aligned = 0.0
            for b in range(s):
                aligned += g[b, i] * p[b]
            aligned *= inverse
            squared += (x[a, i] - aligned) * (x[a, i] - aligned)
            for b in range(s):
                rest[b, i] -= aligned * (p[b] * inverse)
    for b in range(s):
        for i in range(m):
            squared += rest[b, i] * rest[b, i]
    return squared
