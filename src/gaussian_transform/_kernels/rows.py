"""Walking over sorted rows: which stretches of a sorted cloud can lie within reach of a point.

A cloud is sorted into layers by z, rows by y within a layer, and by x within a row (`neighborhoods.Rows`), so that the
points within reach of a query form one contiguous stretch in each nearby row. Both functions only narrow down: the
caller tests every point of a stretch.
"""

from __future__ import annotations

import math

import numpy as np

from gaussian_transform._parallel import njit


@njit
def row_of(row_start, i):
    """Return the row that holds position `i` of the sorted cloud."""
    return np.searchsorted(row_start, i, side="right") - 1


@njit
def rows_within(rows, y_min, y_max, z_min, z_max, reach):
    """Return the rows whose box in (y, z) comes within `reach` of the box given."""
    n_layers = rows.layer_start.size - 1
    found = np.empty(16, np.int64)
    n_found = 0
    layer = np.searchsorted(rows.layer_z_max, z_min - reach)
    while layer < n_layers and rows.layer_z_min[layer] <= z_max + reach:
        first = rows.layer_start[layer]
        last = rows.layer_start[layer + 1]
        row = first + np.searchsorted(rows.y_max[first:last], y_min - reach)
        while row < last and rows.y_min[row] <= y_max + reach:
            if n_found == found.size:
                longer = np.empty(2 * n_found, np.int64)
                longer[:n_found] = found
                found = longer
            found[n_found] = row
            n_found += 1
            row += 1
        layer += 1
    return found[:n_found]


@njit
def later_rows_within(rows, own, reach):
    """Return the rows from `own` on that come within `reach` of it."""
    near = rows_within(rows, rows.y_min[own], rows.y_max[own], rows.z_min[own], rows.z_max[own], reach)
    return near[np.searchsorted(near, own) :]


@njit
def begin_stretches(rows, xs, near, x):
    """Return where the points from `x` on begin in each row of `near`: a first guess for `narrow_stretches`."""
    begin = np.empty(near.size, np.int64)
    for s in range(near.size):
        first = rows.start[near[s]]
        begin[s] = first + np.searchsorted(xs[first : rows.start[near[s] + 1]], x)
    return begin


@njit
def narrow_stretches(rows, xs, near, x, y, z, reach_squared, lo, hi):
    """Narrow ``lo[s]:hi[s]`` to the points of row ``near[s]`` that can be within reach of (x, y, z).

    The values found for the previous query are where the search starts: queries come sorted along x, so the bounds
    move by few points at a time.
    """
    for s in range(near.size):
        row = near[s]
        dy = max(rows.y_min[row] - y, y - rows.y_max[row], 0.0)
        dz = max(rows.z_min[row] - z, z - rows.z_max[row], 0.0)
        rest = reach_squared - dy * dy - dz * dz
        if rest < 0.0:
            hi[s] = lo[s]
            continue
        half = math.sqrt(rest)
        first = rows.start[row]
        last = rows.start[row + 1]
        a = lo[s]
        while a > first and xs[a - 1] >= x - half:
            a -= 1
        while a < last and xs[a] < x - half:
            a += 1
        b = max(hi[s], a)
        while b > a and xs[b - 1] > x + half:
            b -= 1
        while b < last and xs[b] <= x + half:
            b += 1
        lo[s] = a
        hi[s] = b


@njit
def n_candidates(rows, points, sample, reach):
    """Count the points in all stretches within `reach` of the sampled positions of a sorted cloud."""
    total = 0
    for i in sample:
        x, y = points[0, i], points[1, i]
        z = points[2, i] if points.shape[0] == 3 else 0.0
        near = rows_within(rows, y, y, z, z, reach)
        lo = begin_stretches(rows, points[0], near, x - reach)
        hi = lo.copy()
        narrow_stretches(rows, points[0], near, x, y, z, reach * reach, lo, hi)
        total += np.sum(hi - lo)
    return total


@njit
def settle(xs, order, key):
    """Finish the order of a cloud sorted by `key`, which holds x only coarsely, by insertion within equal keys.

    Return whether that was done; a cloud whose x nearly all share few keys is left to a real sort.
    """
    n_moves = 0
    for i in range(1, xs.size):
        j = i
        while j > 0 and key[j] == key[j - 1] and xs[j] < xs[j - 1]:
            xs[j], xs[j - 1] = xs[j - 1], xs[j]
            order[j], order[j - 1] = order[j - 1], order[j]
            j -= 1
            n_moves += 1
        if n_moves > 16 * xs.size:
            return False
    return True
