"""Singular values of many small matrices at once, by one-sided Jacobi rotations.

A batch of matrices lies side by side, entry by entry, so that each operation is a vector operation over the batch. The
method needs no case distinctions for equal, zero or tiny singular values, and the small ones come out best.
"""

from __future__ import annotations

import math

import numpy as np

from gaussian_transform._parallel import njit
from gaussian_transform._typing import FloatArray

_BATCH = 64
_MOST_SWEEPS = 40
# Cosines that a sweep found below this are below rounding after it: the method converges quadratically.
_COSINE = 1e-8


@njit
def _products(x, y, out):
    """Write the dot products of two columns (r, batch)."""
    for lane in range(_BATCH):
        out[lane] = 0.0
    for h in range(x.shape[0]):
        xs, ys = x[h], y[h]
        for lane in range(_BATCH):
            out[lane] += xs[lane] * ys[lane]


@njit
def _find_rotations(norm_x, norm_y, dot, cosine, sine, angle):
    """Find the rotations that make two columns orthogonal and update their squared norms; `angle` was their cosine."""
    for lane in range(_BATCH):
        difference = 0.5 * (norm_y[lane] - norm_x[lane])
        reach = abs(difference) + math.sqrt(difference * difference + dot[lane] * dot[lane])
        # Columns whose fourth powers vanish beside the largest entry count as orthogonal.
        tangent = dot[lane] / reach if reach > 0.0 else 0.0
        bound = math.sqrt(norm_x[lane]) * math.sqrt(norm_y[lane])
        angle[lane] = abs(dot[lane]) / bound if reach > 0.0 and bound > 0.0 else 0.0
        tangent = -tangent if difference < 0.0 else tangent
        cosine[lane] = 1.0 / math.sqrt(tangent * tangent + 1.0)
        sine[lane] = tangent * cosine[lane]
        norm_x[lane] = max(norm_x[lane] - tangent * dot[lane], 0.0)
        norm_y[lane] += tangent * dot[lane]


@njit
def _rotate(x, y, cosine, sine):
    for h in range(x.shape[0]):
        xs, ys = x[h], y[h]
        for lane in range(_BATCH):
            old = xs[lane]
            xs[lane] = cosine[lane] * old - sine[lane] * ys[lane]
            ys[lane] = sine[lane] * old + cosine[lane] * ys[lane]


@njit
def _orthogonalize(a, norms, work):
    """Rotate the columns ``a[p]`` of each matrix of the batch until all are orthogonal; write their squared norms."""
    r = a.shape[0]
    dot, cosine, sine, angle = work[0], work[1], work[2], work[3]
    for _ in range(_MOST_SWEEPS):
        largest = 0.0
        for p in range(r):
            _products(a[p], a[p], norms[p])
        for p in range(r - 1):
            for q in range(p + 1, r):
                _products(a[p], a[q], dot)
                _find_rotations(norms[p], norms[q], dot, cosine, sine, angle)
                largest = max(largest, angle.max())
                _rotate(a[p], a[q], cosine, sine)
        if largest < _COSINE:
            break


@njit
def singular_values(matrices: FloatArray, out: FloatArray) -> None:
    """Write the singular values of matrices of shape (n, r, r) to `out` of shape (n, r), in no order."""
    n, r, _ = matrices.shape
    a, norms = np.empty((r, r, _BATCH)), np.empty((r, _BATCH))
    work, units = np.empty((4, _BATCH)), np.empty(_BATCH)
    for start in range(0, n, _BATCH):
        for lane in range(_BATCH):
            matrix = matrices[min(start + lane, n - 1)]  # the last batch is filled up with its last matrix
            # Scaled to entries near 1, because the rotations need fourth powers.
            exponent = math.frexp(np.max(np.abs(matrix)))[1]
            units[lane] = math.ldexp(1.0, exponent)
            inverse = math.ldexp(1.0, -exponent)
            for k in range(r):
                for h in range(r):
                    a[k, h, lane] = inverse * matrix[k, h]
        _orthogonalize(a, norms, work)
        for lane in range(min(_BATCH, n - start)):
            for k in range(r):
                out[start + lane, k] = units[lane] * math.sqrt(norms[k, lane])
