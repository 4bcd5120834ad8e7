"""Factors of covariances over neighbour lists, in any dimension.

Lists are compressed: the members of query `i` are ``members[begin[i]:begin[i + 1]]``, with their ``weights`` beside
them.
"""

from __future__ import annotations

import math

import numpy as np

from gaussian_transform._parallel import njit


@njit
def fill_factor(members, weights, points, mean, out):
    """Write a factor of the covariance of N weighted points, N − 1 rows; `mean` is scratch.

    Each point adds one row: with W the weight before it, w its own and T the total, it changes the covariance by
    W·w / ((W + w)·T) times the square of its way from the mean before it.
    """
    total = 0.0
    for k in range(members.size):
        total += weights[k]
    before = weights[0]
    first = points[members[0]]
    for a in range(mean.size):
        mean[a] = first[a]
    for k in range(1, members.size):
        point, row = points[members[k]], out[k - 1]
        after = before + weights[k]
        share, scale = weights[k] / after, math.sqrt(before / after * (weights[k] / total))
        for a in range(mean.size):
            way = point[a] - mean[a]
            row[a] = scale * way
            mean[a] += share * way
        before = after


@njit
def fill_factors(start, stop, begin, members, weights, points, row_begin, rows):
    """Write the factors of the queries ``start:stop`` whose lists have no more than m + 1 members."""
    m = points.shape[1]
    mean = np.empty(m)
    for i in range(start, stop):
        n_members = begin[i + 1] - begin[i]
        if 2 <= n_members <= m + 1:
            own = slice(begin[i], begin[i + 1])
            fill_factor(members[own], weights[own], points, mean, rows[row_begin[i] : row_begin[i] + n_members - 1])
