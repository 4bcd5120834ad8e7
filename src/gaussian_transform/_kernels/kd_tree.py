"""A balanced kd-tree in flat arrays: node v has the children 2v+1 and 2v+2, and all leaves lie at the same depth.

A node is a range of positions in the order that `build_tree` finds. With the points put in that order a leaf is
contiguous in memory.
"""

import math
from typing import NamedTuple

from gaussian_transform._parallel import njit
from gaussian_transform._typing import FloatArray, IntArray

_ROUNDED_UP = 1.0 + 1e-12


class Tree(NamedTuple):
    """The nodes of a kd-tree over d columns.

    Attributes
    ----------
    start, stop : arrays of shape (n_nodes,)
        A node holds the points at the positions ``start:stop``.
    lower, upper : arrays of shape (n_nodes, d)
        Corners of its box.
    center : array of shape (n_nodes,)
        Position of the point with the smallest index in the node.
    radius : array of shape (n_nodes,)
        No point of the node is farther than this from that one.
    """

    start: IntArray
    stop: IntArray
    lower: FloatArray
    upper: FloatArray
    center: IntArray
    radius: FloatArray


@njit
def _split(keys, order, start, middle, stop):
    """Reorder ``order[start:stop]`` until no key before `middle` is greater than one from `middle` on."""
    left, right = start, stop - 1
    while left < right:
        pivot = keys[order[(left + right) // 2]]
        i, j = left, right
        # Both scans stop at keys equal to the pivot, so that equal keys are shared out evenly.
        while i <= j:
            while keys[order[i]] < pivot:
                i += 1
            while keys[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@njit
def build_tree(columns, order, tree):
    """Fill `tree` and sort `order` (on entry any permutation of the points) into its leaves.

    `columns` has one row for each column of the points. Nodes are halved along the widest side of their box.
    """
    tree.start[0], tree.stop[0] = 0, order.size
    for node in range(tree.start.size):
        start, stop = tree.start[node], tree.stop[node]
        widest, width = 0, -1.0
        for column in range(columns.shape[0]):
            keys = columns[column]
            low = high = keys[order[start]]
            for position in range(start, stop):
                low = min(low, keys[order[position]])
                high = max(high, keys[order[position]])
            tree.lower[node, column], tree.upper[node, column] = low, high
            if high - low > width:
                widest, width = column, high - low
        child = 2 * node + 1
        if child < tree.start.size:
            middle = (start + stop) // 2
            _split(columns[widest], order, start, middle, stop)
            tree.start[child], tree.stop[child] = start, middle
            tree.start[child + 1], tree.stop[child + 1] = middle, stop


@njit
def measure_nodes(columns, order, tree):
    """Write the center and the radius of each node, once `order` is final."""
    for node in range(tree.start.size):
        start, stop = tree.start[node], tree.stop[node]
        center = start
        for position in range(start, stop):
            if order[position] < order[center]:
                center = position
        radius_squared = 0.0
        for position in range(start, stop):
            squared = 0.0
            for column in range(columns.shape[0]):
                gap = columns[column, order[position]] - columns[column, order[center]]
                squared += gap * gap
            radius_squared = max(radius_squared, squared)
        tree.center[node], tree.radius[node] = center, math.sqrt(radius_squared) * _ROUNDED_UP
