"""Minimum spanning tree in the GT distance: Borůvka's rounds over a kd-tree of the Gaussians.

In each round every component is joined to the component nearest to it. Edges are compared by (length, smaller index,
larger index), so that no two are equal and no cycles arise among the ties of a grid.

A point remembers the few nearest points of other components that its last search found, and how far that search saw. It
searches again only when all of them have joined its own component and its component knows no edge as short as what the
point has seen. Searches depend on the state at the beginning of the round and on the points before them in their range,
never on the number of threads.
"""

import math
from typing import NamedTuple

import numpy as np

from gaussian_transform._kernels.bures import bures_squared_2, bures_squared_3
from gaussian_transform._kernels.factors import factors_bures_squared
from gaussian_transform._parallel import njit
from gaussian_transform._typing import FloatArray, IntArray

_DEPTH = 64
# Bounds are moved by more than their rounding, so that what they exclude is farther as computed, too.
_ROUNDED_DOWN, _ROUNDED_UP = 1.0 - 1e-12, 1.0 + 1e-12
# Lengths are meant to be right to 1e-12.
_NEGLIGIBLE = 1e-13


class Cloud(NamedTuple):
    """Gaussians in the order of the tree's positions.

    Attributes
    ----------
    lam : float
        Weight of the squared Bures distance.
    order : array of shape (n,)
        Index of the Gaussian at each position, which breaks ties.
    points : array of shape (n, m)
        Their means.
    roots : array of shape (n, m(m+1)/2), or (n, 0) where only the points count
        Entries of √λ·Σ^½ on and above the diagonal, the latter times √2. Half the squared norm of a difference of two
        rows is at most λ dcov².
    features : array of shape (n, n_features)
        What exact distances are computed from: those of `features_2` or `features_3`, or the columns of factors.
    """

    lam: float
    order: IntArray
    points: FloatArray
    roots: FloatArray
    features: FloatArray


class Searches(NamedTuple):
    """What each point remembers of its last search.

    Attributes
    ----------
    near, near_squared : arrays of shape (n, k)
        The nearest points of other components by (distance, index), and their squared distances.
    n_found, n_used : arrays of shape (n,)
        How many were found, and how many of these have joined the point's own component since.
    seen_squared : array of shape (n,)
        No point of another component that was not found is nearer than this.
    """

    near: IntArray
    near_squared: FloatArray
    n_found: IntArray
    n_used: IntArray
    seen_squared: FloatArray


@njit
def _bound_squared(cloud, p, tree, node):
    """Lower bound of the squared GT distance between the point at position p and any point of a node."""
    m = cloud.points.shape[1]
    lower, upper, point, root = tree.lower[node], tree.upper[node], cloud.points[p], cloud.roots[p]
    apart = shape = 0.0
    for i in range(m):
        gap = max(lower[i] - point[i], point[i] - upper[i], 0.0)
        apart += gap * gap
    for i in range(root.size):
        gap = max(lower[m + i] - root[i], root[i] - upper[m + i], 0.0)
        shape += gap * gap
    return (apart + 0.5 * shape) * _ROUNDED_DOWN


@njit
def _pair_squared(cloud, p, q, reach_squared, scratch):
    """Squared GT distance of the points at two positions, or infinity as soon as it is known to be beyond reach."""
    m = cloud.points.shape[1]
    x, y, f, g = cloud.points[p], cloud.points[q], cloud.roots[p], cloud.roots[q]
    apart = shape = 0.0
    for i in range(m):
        apart += (x[i] - y[i]) * (x[i] - y[i])
    if apart > reach_squared:
        return np.inf
    for i in range(f.size):
        shape += (f[i] - g[i]) * (f[i] - g[i])
    bound = apart + 0.5 * shape
    if f.size == 0 or bound > reach_squared:
        return bound
    # Always in the same order: exchanged operands may change the last bit.
    is_ordered = cloud.order[p] < cloud.order[q]
    f, g = cloud.features[p if is_ordered else q], cloud.features[q if is_ordered else p]
    if m == 2:
        bures_squared = bures_squared_2(f, g)
    elif m == 3:
        bures_squared = bures_squared_3(f, g)
    else:
        rank = f.size // m
        bures_squared = factors_bures_squared(f.reshape(rank, m), g.reshape(rank, m), scratch)
    # Covariances equal to rounding can come out nearer than their bound. The bound is then as good a distance, and with
    # it the tree's boxes exclude nothing wrongly.
    return max(apart + cloud.lam * bures_squared, bound)


@njit
def _remember(q, squared, reach_squared, order, near, near_squared, n_found):
    """Insert a point within reach into the list by (distance, index), which bounds the reach once it is full.

    Returns the new length of the list and the new reach.
    """
    if squared > reach_squared:
        return n_found, reach_squared
    i = n_found
    while i > 0 and (
        squared < near_squared[i - 1] or (squared == near_squared[i - 1] and order[q] < order[near[i - 1]])
    ):
        i -= 1
    if i < near.size:
        n_found = min(n_found + 1, near.size)
        for j in range(n_found - 1, i, -1):
            near[j], near_squared[j] = near[j - 1], near_squared[j - 1]
        near[i], near_squared[i] = q, squared
    return n_found, near_squared[n_found - 1] if n_found == near.size else reach_squared


@njit
def _search(p, reach_squared, cloud, tree, component, node_component, scratch, stack, bounds, near, near_squared):
    """Write the nearest points of other components within reach, as many as there is room for, and return how many."""
    own, order = component[p], cloud.order
    n_found = 0
    stack[0], bounds[0] = 0, 0.0
    height = 1
    while height > 0:
        height -= 1
        node, bound = stack[height], bounds[height]
        if bound > reach_squared or node_component[node] == own:
            continue
        center, radius = tree.center[node], tree.radius[node]
        if bound > radius * radius:
            # The bound of a box may be short by 1/√2 however small the box is; the triangle inequality is not.
            squared = _pair_squared(cloud, p, center, np.inf, scratch)
            least = max(math.sqrt(squared) - radius, 0.0) * _ROUNDED_DOWN
            if least * least > reach_squared:
                continue
            # Points that are equally far to rounding: one stands for all. Should it join first, the way from it to
            # the others is by far the shorter one.
            if radius * radius <= _NEGLIGIBLE * _NEGLIGIBLE * squared and component[center] != own:
                n_found, reach_squared = _remember(center, squared, reach_squared, order, near, near_squared, n_found)
                continue
        child = 2 * node + 1
        if child < tree.start.size:
            left, right = _bound_squared(cloud, p, tree, child), _bound_squared(cloud, p, tree, child + 1)
            # The nearer child goes on top and is visited first.
            is_left_nearer = left < right
            stack[height], bounds[height] = child + is_left_nearer, max(left, right)
            stack[height + 1], bounds[height + 1] = child + 1 - is_left_nearer, min(left, right)
            height += 2
            continue
        for q in range(tree.start[node], tree.stop[node]):
            if component[q] != own:
                squared = _pair_squared(cloud, p, q, reach_squared, scratch)
                n_found, reach_squared = _remember(q, squared, reach_squared, order, near, near_squared, n_found)
    return n_found


@njit
def search_points(start, stop, cloud, tree, component, node_component, best_squared, searches):
    """Search from the points at positions ``start:stop`` that may have a shorter edge than their component knows.

    What one point finds bounds the searches of the next ones of its component.
    """
    m, n_remembered = cloud.points.shape[1], searches.near.shape[1]
    scratch = np.empty(3 * m * m)
    stack, bounds = np.empty(_DEPTH, np.int64), np.empty(_DEPTH)
    own, reach_squared = -1, np.inf
    for p in range(start, stop):
        if component[p] != own:
            own = component[p]
            reach_squared = best_squared[own]
        if searches.n_used[p] < searches.n_found[p] or searches.seen_squared[p] > reach_squared:
            continue
        near, near_squared = searches.near[p], searches.near_squared[p]
        n_found = _search(
            p, reach_squared, cloud, tree, component, node_component, scratch, stack, bounds, near, near_squared
        )
        searches.n_found[p], searches.n_used[p] = n_found, 0
        searches.seen_squared[p] = near_squared[n_found - 1] if n_found == n_remembered else reach_squared
        if n_found > 0:
            reach_squared = near_squared[0]


@njit
def _is_before(order, p, q, other_p, other_q):
    """Tell whether edge (p, q) comes before another one of the same length."""
    low, other_low = min(order[p], order[q]), min(order[other_p], order[other_q])
    high, other_high = max(order[p], order[q]), max(order[other_p], order[other_q])
    return low < other_low or (low == other_low and high < other_high)


@njit
def choose_edges(order, component, searches, best_squared, best_edge):
    """Write the shortest edge to another one that the points of each component remember; -1 where there is none."""
    best_squared[:] = np.inf
    best_edge[:] = -1
    for p in range(component.size):
        own = component[p]
        i = searches.n_used[p]
        while i < searches.n_found[p] and component[searches.near[p, i]] == own:
            i += 1
        searches.n_used[p] = i
        if i == searches.n_found[p]:
            continue
        q, squared = searches.near[p, i], searches.near_squared[p, i]
        is_best = squared < best_squared[own]
        if squared == best_squared[own]:
            is_best = best_edge[own, 0] < 0 or _is_before(order, p, q, best_edge[own, 0], best_edge[own, 1])
        if is_best:
            best_squared[own] = squared
            best_edge[own, 0], best_edge[own, 1] = p, q


@njit
def _find(parent, i):
    """Return the root of i, halving the way there."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit
def join_components(best_squared, best_edge, n_edges, parent, component, edges, squared):
    """Append the chosen edges to the first `n_edges`, join what they connect, and return the new number of edges."""
    for own in range(component.size):
        p, q = best_edge[own, 0], best_edge[own, 1]
        if p < 0:
            continue
        a, b = _find(parent, p), _find(parent, q)
        if a == b:  # two components that chose the same edge
            continue
        parent[max(a, b)] = min(a, b)
        edges[n_edges, 0], edges[n_edges, 1] = p, q
        squared[n_edges] = best_squared[own]
        n_edges += 1
    for p in range(component.size):
        component[p] = _find(parent, p)
    return n_edges


@njit
def label_nodes(component, tree, node_component):
    """Write for each node the component that all its points belong to, or -1."""
    for node in range(tree.start.size - 1, -1, -1):
        child = 2 * node + 1
        if child < tree.start.size:
            only = node_component[child]
            if node_component[child + 1] != only:
                only = -1
        else:
            only = component[tree.start[node]]
            for p in range(tree.start[node] + 1, tree.stop[node]):
                if component[p] != only:
                    only = -1
        node_component[node] = only


@njit
def bound_pairs(p, others, points, roots, lower, upper):
    """Write lower and upper bounds of the squared GT distances between one Gaussian and others."""
    x, f = points[p], roots[p]
    for j in range(others.size):
        y, g = points[others[j]], roots[others[j]]
        apart = shape = 0.0
        for i in range(x.size):
            apart += (x[i] - y[i]) * (x[i] - y[i])
        for i in range(f.size):
            shape += (f[i] - g[i]) * (f[i] - g[i])
        lower[j] = (apart + 0.5 * shape) * _ROUNDED_DOWN
        upper[j] = (apart + shape) * _ROUNDED_UP


@njit
def merge_along(edges, lengths, parent, cluster, merges):
    """Write the SciPy linkage matrix of a spanning tree whose edges come by increasing length.

    `parent` and `cluster` are scratch of n entries each.
    """
    n = parent.size
    for i in range(n):
        parent[i] = cluster[i] = i
    for row in range(n - 1):
        a, b = _find(parent, edges[row, 0]), _find(parent, edges[row, 1])
        parent[b] = a
        first, second = min(cluster[a], cluster[b]), max(cluster[a], cluster[b])
        cluster[a] = n + row
        merges[row, 0], merges[row, 1], merges[row, 2] = first, second, lengths[row]
        first_size = 1.0 if first < n else merges[first - n, 3]
        second_size = 1.0 if second < n else merges[second - n, 3]
        merges[row, 3] = first_size + second_size


@njit
def root_clusters(merges, n_merges, cluster):
    """Write for each point, and each of the first `n_merges` merged clusters, the cluster it belongs to in the end."""
    n = cluster.size - n_merges
    for i in range(cluster.size):
        cluster[i] = i
    for row in range(n_merges - 1, -1, -1):
        cluster[int(merges[row, 0])] = cluster[int(merges[row, 1])] = cluster[n + row]
