"""Means and covariances over neighbour lists and over rows of weights, in any dimension.

Lists are compressed: the members of query `i` are ``members[begin[i]:begin[i + 1]]``. Points have shape (n, m).
"""

from __future__ import annotations

import numpy as np

from gaussian_transform._parallel import njit


@njit
def list_means(start, stop, begin, members, query, points, weights, keys, shift, mass, ball_key):
    """Write the way from each query to the mean of its members, their mass and the sum of their keys."""
    m = points.shape[1]
    for i in range(start, stop):
        shift[i, :] = 0.0
        total = 0.0
        key_sum = np.uint64(0)
        for k in range(begin[i], begin[i + 1]):
            j = members[k]
            total += weights[j]
            key_sum += keys[j]
            for a in range(m):
                shift[i, a] += weights[j] * (points[j, a] - query[i, a])
        mass[i] = total
        ball_key[i] = key_sum
        if total > 0.0:
            shift[i, :] /= total


@njit
def list_covariances(start, stop, begin, members, points, weights, mass, covariance):
    """Write the covariance of the points over each list, about its own mean."""
    m = points.shape[1]
    mean, way = np.empty(m), np.empty(m)
    for i in range(start, stop):
        covariance[i, :, :] = 0.0
        if mass[i] <= 0.0:
            continue
        center = points[members[begin[i]]]
        mean[:] = 0.0
        for k in range(begin[i], begin[i + 1]):
            j = members[k]
            for a in range(m):
                mean[a] += weights[j] * (points[j, a] - center[a])
        for a in range(m):
            mean[a] = center[a] + mean[a] / mass[i]
        for k in range(begin[i], begin[i + 1]):
            j = members[k]
            for a in range(m):
                way[a] = points[j, a] - mean[a]
            for a in range(m):
                scaled = weights[j] / mass[i] * way[a]
                for b in range(a + 1):
                    covariance[i, a, b] += scaled * way[b]
        for a in range(m):
            for b in range(a):
                covariance[i, b, a] = covariance[i, a, b]


@njit
def weighted_means(start, stop, first, measure, query, points, shift, mass):
    """Write the way from each query to the mean under its row of `measure` (row 0: query `first`), and its mass."""
    n, m = points.shape
    for i in range(start, stop):
        row = measure[i - first]
        total = 0.0
        for j in range(n):
            total += row[j]
        mass[i] = total
        for a in range(m):
            along = 0.0
            for j in range(n):
                along += row[j] * (points[j, a] - query[i, a])
            shift[i, a] = along / total if total > 0.0 else 0.0


@njit
def weighted_covariances(start, stop, first, measure, points, center, covariance):
    """Write the covariance of the points under each row of `measure`, about its own mean; sums start from a center."""
    n, m = points.shape
    mean = np.empty(m)
    way = np.empty((m, n))
    for i in range(start, stop):
        row = measure[i - first]
        covariance[i, :, :] = 0.0
        total = 0.0
        for j in range(n):
            total += row[j]
        if total <= 0.0:
            continue
        for a in range(m):
            along = 0.0
            for j in range(n):
                along += row[j] * (points[j, a] - center[i, a])
            mean[a] = center[i, a] + along / total
            for j in range(n):
                way[a, j] = points[j, a] - mean[a]
        for a in range(m):
            for b in range(a + 1):
                moment = 0.0
                for j in range(n):
                    moment += row[j] * way[a, j] * way[b, j]
                covariance[i, a, b] = covariance[i, b, a] = moment / total
