"""Exact optimal transport between small measures: the network simplex method on the complete bipartite graph.

Mass travels from supplies, the nodes 0, 1, … of a tree, to demands, the nodes n_rows, n_rows + 1, …. A basis is a
spanning tree of n_rows + n_cols − 1 arcs, kept as parents and lists of children; each node but the root holds the flow
of the arc to its parent. Potentials u, v satisfy cost = u + v on the arcs of the tree; an arc with cost < u + v may
enter it and pushes mass around the cycle that it closes.

Masses are whole numbers, so that flows are exact: arcs without flow are told from arcs with little, which is what keeps
the method from cycling. Others are rounded to 2⁻⁵⁰ of the total first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gaussian_transform._parallel import njit
from gaussian_transform._typing import FloatArray, IntArray

_EPSILON = 2.0**-52


class Tree(NamedTuple):
    """Work arrays of one thread, each with room for all nodes: the spanning tree of the basis.

    Attributes
    ----------
    parent, child, after, before : arrays of int64
        Parent, first child, next and previous sibling of each node; −1 where there is none.
    depth : array of int64
        Steps from each node up to the root.
    flow : array of float64
        Mass on the arc between each node and its parent, which leads from the supply to the demand.
    potential : array of float64
        u of the supplies, then v of the demands.
    """

    parent: IntArray
    child: IntArray
    after: IntArray
    before: IntArray
    depth: IntArray
    flow: FloatArray
    potential: FloatArray


class Problem(NamedTuple):
    """Work arrays of one thread, each with room for the largest ball: who holds the masses, and what a move costs.

    Attributes
    ----------
    sources, targets : arrays of int64
        The points that supply and that demand mass.
    supply, demand : arrays of float64
        Their masses.
    costs : square array of float64
        Cost of moving a unit of mass from source to target.
    """

    sources: IntArray
    targets: IntArray
    supply: FloatArray
    demand: FloatArray
    costs: FloatArray


@njit
def transport_cost(supply, demand, costs, tree):
    """Return the least Σ flow·cost that moves `supply` to `demand`; both are used up.

    Masses are positive whole numbers and both sums the same, below 2⁵³.
    """
    n_rows, n_cols = costs.shape
    greatest = 0.0
    for i in range(n_rows):
        for j in range(n_cols):
            greatest = max(greatest, abs(costs[i, j]))
    root = _start_tree(supply, demand, costs, tree)
    tree.parent[root] = -1
    tree.depth[root] = 0
    tree.potential[root] = 0.0
    _update_below(root, n_rows, costs, tree)
    row = n_optimal = n_pivots = 0
    while n_optimal < n_rows:
        col, reduced = _cheapest(costs[row], tree.potential[n_rows : n_rows + n_cols])
        gain = tree.potential[row] - reduced
        # Rounding alone must not call for a pivot: what is near by counts at first, all costs if there is no end.
        n_rounds = n_pivots // (4 * (n_rows + n_cols))
        scale = abs(costs[row, col]) + abs(tree.potential[row]) + abs(tree.potential[n_rows + col])
        if gain <= _EPSILON * ((4 + n_rounds) * scale + n_rounds * greatest):
            n_optimal += 1
        else:
            _pivot(row, n_rows + col, n_rows, costs, tree)
            n_optimal = 0
            n_pivots += 1
        row = row + 1 if row + 1 < n_rows else 0
    total = 0.0
    for node in range(n_rows + n_cols):
        if node != root:
            total += tree.flow[node] * _arc_cost(node, tree.parent[node], n_rows, costs)
    return total


@njit
def _arc_cost(node, parent, n_rows, costs):
    return costs[node, parent - n_rows] if node < n_rows else costs[parent, node - n_rows]


@njit
def _cheapest(costs, prices):
    """Return where cost − price is least, and that difference."""
    best, least = 0, np.inf
    for k in range(costs.size):
        difference = costs[k] - prices[k]
        if difference < least:
            best, least = k, difference
    return best, least


@njit
def _start_tree(supply, demand, costs, tree):
    """Make a feasible basis and return its root, a demand.

    With costs taken relative to the mean of their column, supplies choose their cheapest targets, those first that have
    most to lose: the mean of their costs over the least. Of each arc the end that is then settled becomes the child.

    A demand is settled once it is met, so that an unsettled one always lacks something and arcs without flow lead from
    a supply towards the root. Such a tree is strongly feasible (Cunningham 1976), and `_pivot` keeps it so: pivots that
    move nothing cannot go round in a cycle, however many masses and costs are equal.
    """
    n_rows, n_cols = costs.shape
    order, unsettled = tree.depth[:n_rows], tree.depth[n_rows : n_rows + n_cols]
    prices = tree.potential[n_rows : n_rows + n_cols]
    tree.child[: n_rows + n_cols] = -1
    prices[:] = 0.0
    for i in range(n_rows):
        for j in range(n_cols):
            prices[j] += costs[i, j] / n_rows
    for j in range(n_cols):
        unsettled[j] = j
    _order_by_loss(costs, prices, tree.potential, order)
    n_unsettled = n_cols
    for k in range(n_rows):
        i = order[k]
        j = unsettled[0]
        while n_unsettled > 1:
            best, least = 0, np.inf
            for q in range(n_unsettled):
                difference = costs[i, unsettled[q]] - prices[unsettled[q]]
                if difference < least:
                    best, least = q, difference
            j = unsettled[best]
            if supply[i] < demand[j]:
                break
            _attach(n_rows + j, i, demand[j], tree)
            supply[i] -= demand[j]
            n_unsettled -= 1
            unsettled[best] = unsettled[n_unsettled]
            j = unsettled[0]
        _attach(i, n_rows + j, supply[i], tree)
        demand[j] -= supply[i]
    return n_rows + unsettled[0]


@njit
def _order_by_loss(costs, prices, loss, order):
    """Write the rows by decreasing mean − least of cost − price to `order`; `loss` is overwritten."""
    n_rows, n_cols = costs.shape
    for i in range(n_rows):
        total, least = 0.0, np.inf
        for j in range(n_cols):
            difference = costs[i, j] - prices[j]
            total += difference
            least = min(least, difference)
        value = total / n_cols - least
        k = i
        while k > 0 and loss[k - 1] < value:
            loss[k] = loss[k - 1]
            order[k] = order[k - 1]
            k -= 1
        loss[k] = value
        order[k] = i


@njit
def _attach(node, parent, flow, tree):
    """Make `node` the first child of `parent`."""
    first = tree.child[parent]
    if first >= 0:
        tree.before[first] = node
    tree.parent[node] = parent
    tree.before[node] = -1
    tree.after[node] = first
    tree.child[parent] = node
    tree.flow[node] = flow


@njit
def _detach(node, tree):
    """Take `node` from its parent's list of children."""
    before, after = tree.before[node], tree.after[node]
    if before >= 0:
        tree.after[before] = after
    else:
        tree.child[tree.parent[node]] = after
    if after >= 0:
        tree.before[after] = before


@njit
def _update_below(top, n_rows, costs, tree):
    """Set the depths and potentials of `top` (but for the root) and of everything below it, from its parent's."""
    node = top
    while True:
        parent = tree.parent[node]
        if parent >= 0:
            tree.depth[node] = tree.depth[parent] + 1
            tree.potential[node] = _arc_cost(node, parent, n_rows, costs) - tree.potential[parent]
        if tree.child[node] >= 0:
            node = tree.child[node]
            continue
        while node != top and tree.after[node] < 0:
            node = tree.parent[node]
        if node == top:
            return
        node = tree.after[node]


@njit
def _pivot(row, col, n_rows, costs, tree):
    """Let the arc from node `row` to node `col` enter the tree, and push as much mass around its cycle as can be.

    The mass goes down from the apex to `row`, over the new arc to `col` and up to the apex. It is taken from arcs that
    are passed against their direction: those above supplies on the way down and above demands on the way up. Of those
    that run dry the last one on that way leaves the tree.
    """
    parent, flow = tree.parent, tree.flow
    from_row, from_col = row, col
    dry_row = dry_col = -1
    least_row = least_col = np.inf
    while from_row != from_col:
        if tree.depth[from_row] >= tree.depth[from_col]:
            if from_row < n_rows and flow[from_row] < least_row:
                dry_row, least_row = from_row, flow[from_row]
            from_row = parent[from_row]
        else:
            if from_col >= n_rows and flow[from_col] <= least_col:
                dry_col, least_col = from_col, flow[from_col]
            from_col = parent[from_col]
    apex, mass = from_row, min(least_row, least_col)
    if mass > 0.0:
        node = row
        while node != apex:
            flow[node] += -mass if node < n_rows else mass
            node = parent[node]
        node = col
        while node != apex:
            flow[node] += mass if node < n_rows else -mass
            node = parent[node]
    top, above, last = (col, row, dry_col) if least_col <= least_row else (row, col, dry_row)
    # What hung from the leaving arc now hangs from the new one: turn the arcs between the two around.
    node, new_flow = top, mass
    while True:
        old_parent, old_flow = parent[node], flow[node]
        _detach(node, tree)
        _attach(node, above, new_flow, tree)
        if node == last:
            break
        above, new_flow = node, old_flow
        node = old_parent
    _update_below(top, n_rows, costs, tree)


@njit
def ball_distances(start, stop, begin, members, weights, mass, ground, p, is_cancelling, problem, tree, out):
    """Write W_p between balls `start` … `stop` − 1 and all balls of higher number, on both sides of the diagonal.

    Ball b holds the points ``members[begin[b]:begin[b + 1]]`` in increasing order, with positive `weights` that sum to
    ``mass[b]``. With `is_cancelling`, mass common to both balls stays where it is.
    """
    n_balls = mass.size
    for first in range(start, stop):
        out[first, first] = 0.0
        members_1, weights_1 = members[begin[first] : begin[first + 1]], weights[begin[first] : begin[first + 1]]
        for second in range(first + 1, n_balls):
            members_2, weights_2 = (
                members[begin[second] : begin[second + 1]],
                weights[begin[second] : begin[second + 1]],
            )
            n_sources, n_targets = _pose(
                members_1, weights_1, mass[first], members_2, weights_2, mass[second], is_cancelling, problem
            )
            n_sources, n_targets, unit = _make_whole(n_sources, n_targets, problem)
            cost = _solve(n_sources, n_targets, ground, p, problem, tree)
            normalised = cost[0] * unit / (mass[first] * mass[second])
            root = normalised if p == 1.0 else math.sqrt(normalised) if p == 2.0 else normalised ** (1.0 / p)
            out[first, second] = out[second, first] = math.ldexp(root, cost[1])


@njit
def _pose(members_1, weights_1, mass_1, members_2, weights_2, mass_2, is_cancelling, problem):
    """Write who supplies and who demands what, and return how many do.

    The measures are w₁/mass₁ and w₂/mass₂, both times mass₁·mass₂: no division, so whole numbers stay whole.
    """
    n_sources = n_targets = i = j = 0
    while i < members_1.size or j < members_2.size:
        is_first = j == members_2.size or (i < members_1.size and members_1[i] <= members_2[j])
        is_second = i == members_1.size or (j < members_2.size and members_2[j] <= members_1[i])
        supply = weights_1[i] * mass_2 if is_first else 0.0
        demand = weights_2[j] * mass_1 if is_second else 0.0
        if is_first and is_second and is_cancelling:
            supply, demand = max(supply - demand, 0.0), max(demand - supply, 0.0)
        if supply > 0.0:
            problem.sources[n_sources] = members_1[i]
            problem.supply[n_sources] = supply
            n_sources += 1
        if demand > 0.0:
            problem.targets[n_targets] = members_2[j]
            problem.demand[n_targets] = demand
            n_targets += 1
        i += is_first
        j += is_second
    return n_sources, n_targets


@njit
def _make_whole(n_sources, n_targets, problem):
    """Count masses in units that make the total about 2⁵¹; return how many supply and demand any, and the unit.

    The unit is a power of two: masses that are whole numbers by themselves are not rounded. Where they are, what one
    side lacks thereby is added to its greatest mass.
    """
    supply, demand = problem.supply, problem.demand
    exponent = math.frexp(max(np.sum(supply[:n_sources]), np.sum(demand[:n_targets])))[1] - 51
    n_sources, supplied, greatest_supply = _round_masses(n_sources, supply, problem.sources, exponent)
    n_targets, demanded, greatest_demand = _round_masses(n_targets, demand, problem.targets, exponent)
    if n_sources == 0 or n_targets == 0:
        return 0, 0, 1.0
    supply[greatest_supply] += max(demanded - supplied, 0.0)
    demand[greatest_demand] += max(supplied - demanded, 0.0)
    return n_sources, n_targets, math.ldexp(1.0, exponent)


@njit
def _round_masses(n, masses, members, exponent):
    """Count masses in units of 2^exponent, drop zeros; return how many are left, their sum, where the greatest is."""
    n_kept = greatest = 0
    total = 0.0
    for i in range(n):
        whole = math.floor(math.ldexp(masses[i], -exponent) + 0.5)
        if whole > 0.0:
            masses[n_kept] = whole
            members[n_kept] = members[i]
            total += whole
            greatest = n_kept if whole > masses[greatest] else greatest
            n_kept += 1
    return n_kept, total, greatest


@njit
def _solve(n_sources, n_targets, ground, p, problem, tree):
    """Return (Σ flow·(distance/2^e)^p, e), with 2^e just above the greatest distance between source and target."""
    costs = problem.costs[:n_sources, :n_targets]
    greatest = 0.0
    for i in range(n_sources):
        distances = ground[problem.sources[i]]
        for j in range(n_targets):
            costs[i, j] = distances[problem.targets[j]]
            greatest = max(greatest, costs[i, j])
    if greatest == 0.0:
        return 0.0, 0
    exponent = max(math.frexp(greatest)[1], -1000)  # so that the scale is finite
    scale = math.ldexp(1.0, -exponent)
    n_factors = int(p) if p == math.floor(p) and p <= 16.0 else 0
    for i in range(n_sources):
        for j in range(n_targets):
            d = costs[i, j] * scale
            power = d if n_factors > 0 else d**p
            for _ in range(1, n_factors):
                power *= d
            costs[i, j] = power
    return transport_cost(problem.supply[:n_sources], problem.demand[:n_targets], costs, tree), exponent


@njit
def count_triangle_violations(start, stop, distances, counts):
    """Write for each row i how many (j, k), j < i, have d(i,k) + d(k,j) < d(i,j) by more than rounding."""
    for i in range(start, stop):
        from_i = distances[i]
        count = 0
        for j in range(i):
            from_j = distances[j]
            limit = from_i[j] * (1.0 - 1e-12)
            for k in range(from_i.size):
                count += from_i[k] + from_j[k] < limit
        counts[i] = count
