"""The network simplex kernel against POT, against its own certificates, and on what makes such solvers cycle."""

import threading

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from gaussian_transform._kernels.transport import Tree, count_triangle_violations, transport_cost


def empty_tree(n_nodes):
    links = [np.empty(n_nodes, np.int64) for _ in range(5)]
    return Tree(*links, np.empty(n_nodes), np.empty(n_nodes))


def whole(masses, total=2**50):
    """Masses as the kernel wants them: positive whole numbers with a given sum."""
    rounded = np.rint(np.asarray(masses) * (total / np.sum(masses)))
    rounded[np.argmax(rounded)] += total - rounded.sum()
    return rounded


def solve(supply, demand, costs, tree=None):
    """The least cost of moving whole supplies to demands; if they are not whole, of moving their shares of 1."""
    supply, demand, costs = (np.array(array, dtype=float) for array in (supply, demand, costs))
    tree = tree or empty_tree(supply.size + demand.size)
    if np.all(supply == np.rint(supply)) and supply.sum() == demand.sum():
        return transport_cost(supply, demand, costs, tree)
    return transport_cost(whole(supply), whole(demand), costs, tree) / 2**50


def solve_or_fail(*problem, seconds=60):
    """Solve on a thread that may be left behind: a cycle of pivots fails the test instead of hanging the run."""
    values = []
    thread = threading.Thread(target=lambda: values.append(solve(*problem)), daemon=True)
    thread.start()
    thread.join(seconds)
    assert values, "the solver does not end"
    return values[0]


def pot(supply, demand, costs):
    supply, demand = normalised(np.array(supply, dtype=float)), normalised(np.array(demand, dtype=float))
    return ot.emd2(supply, demand, np.array(costs, dtype=float), numItermax=10**7)


def normalised(masses):
    return masses / masses.sum()


def lattice(side):
    return np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2).astype(float)


COSTS = {
    "random": lambda rng, n1, n2: rng.random((n1, n2)),
    "near": lambda rng, n1, n2: cdist(rng.normal(size=(n1, 2)), rng.normal(size=(n2, 2)), "sqeuclidean"),
    "far": lambda rng, n1, n2: cdist(rng.normal(size=(n1, 3)), rng.normal(size=(n2, 3)) + 50, "euclidean"),
    "ties": lambda rng, n1, n2: rng.integers(0, 4, size=(n1, n2)),
    "line": lambda rng, n1, n2: np.abs(np.subtract.outer(np.arange(n1), np.arange(n2) + 3)),
}
MASSES = {
    "uniform": lambda rng, n1, n2: (np.full(n1, n2), np.full(n2, n1)),
    "counts": lambda rng, n1, n2: tuple(1 + rng.multinomial(9 * (n1 + n2) - n, np.ones(n) / n) for n in (n1, n2)),
    "probabilities": lambda rng, n1, n2: (rng.dirichlet(np.ones(n1)), rng.dirichlet(np.ones(n2))),
    "uneven": lambda rng, n1, n2: tuple(normalised(rng.dirichlet(np.full(n, 0.1)) + 1e-9) for n in (n1, n2)),
}


@pytest.mark.parametrize("masses", MASSES)
@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 7), (7, 1), (2, 2), (5, 5), (10, 9), (3, 40), (31, 32), (60, 60), (150, 120)]
)
def test_agrees_with_pot(shape, costs, masses):
    rng = np.random.default_rng(shape)
    C = COSTS[costs](rng, *shape)
    supply, demand = MASSES[masses](rng, *shape)
    value = solve_or_fail(supply, demand, C) / np.sum(demand)
    assert_allclose(value, pot(supply, demand, C), rtol=1e-10, atol=1e-15)


@given(st.data())
@settings(deadline=None, max_examples=150, derandomize=True, database=None)
def test_whole_numbers_are_solved_exactly(data):
    n1, n2 = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    total = data.draw(st.integers(1 + max(n1, n2), 30))
    cuts = [data.draw(st.sets(st.integers(1, total - 1), min_size=n - 1, max_size=n - 1)) for n in (n1, n2)]
    supply, demand = (np.diff([0, *sorted(places), total]) for places in cuts)
    costs = data.draw(st.lists(st.lists(st.integers(0, 3), min_size=n2, max_size=n2), min_size=n1, max_size=n1))
    value = solve(supply, demand, costs)
    assert value == int(value)
    assert_allclose(value, total * pot(supply, demand, costs), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_the_potentials_certify_the_optimum(seed):
    rng = np.random.default_rng(seed)
    n1, n2 = rng.integers(5, 50, size=2)
    C = rng.random((n1, n2)) ** 3
    supply, demand = rng.dirichlet(np.ones(n1)), rng.dirichlet(np.ones(n2))
    tree = empty_tree(n1 + n2)
    value = solve(supply, demand, C, tree)
    u, v = tree.potential[:n1], tree.potential[n1:]
    assert (C - u[:, None] - v >= -1e-14).all()
    assert_allclose(u @ supply + v @ demand, value, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 10, 60, 120])
def test_equal_masses_are_an_assignment(n):
    rng = np.random.default_rng(n)
    for C in (rng.integers(0, 10, size=(n, n)), rng.integers(0, 2, size=(n, n)), rng.integers(0, 10**6, size=(n, n))):
        assert solve_or_fail(np.ones(n), np.ones(n), C) == C[linear_sum_assignment(C)].sum()


def test_small_differences_of_large_costs_are_seen():
    differences = np.random.default_rng(6).integers(0, 50, size=(40, 40))
    value = solve_or_fail(np.ones(40), np.ones(40), 1 + np.ldexp(differences, -45))
    assert np.ldexp(value - 40, 45) == differences[linear_sum_assignment(differences)].sum()


@pytest.mark.parametrize("metric", ["cityblock", "sqeuclidean", "euclidean", "chebyshev"])
@pytest.mark.parametrize("offset", [(0, 0), (1, 0), (3, 2), (20, 20)])
def test_grids_of_equal_masses_do_not_cycle(metric, offset):
    a, b = lattice(8)[:60], lattice(8)[:60] + offset
    C = cdist(a, b, metric)
    assert_allclose(solve_or_fail(np.ones(60), np.ones(60), C) / 60, pot(np.ones(60), np.ones(60), C), atol=1e-13)
    value = solve_or_fail(np.full(60, 59), np.full(59, 60), C[:, :59]) / (60 * 59)
    assert_allclose(value, pot(np.ones(60), np.ones(59), C[:, :59]), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    "seed", [(136, 30), (174, 60), (209, 60), (267, 45), (334, 60), (1337, 60), (2404, 45), (2797, 60)]
)
def test_ties_but_for_rounding_do_not_cycle(seed):
    # Found among 10,000: without a tolerance that grows, pivots for gains of 1e-16 go round in these for ever.
    rng, n = np.random.default_rng(seed), seed[1]
    C = cdist(rng.integers(0, 5, size=(n, 3)) / 3, rng.integers(0, 5, size=(n, 3)) / 3, "cityblock")
    assert_allclose(solve_or_fail(np.ones(n), np.ones(n), C), C[linear_sum_assignment(C)].sum(), rtol=1e-13)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_block_costs_do_not_cycle(share):
    rng = np.random.default_rng(0)
    for _ in range(20):
        C = (rng.random((60, 60)) < share).astype(float)
        assert solve_or_fail(np.ones(60), np.ones(60), C) == C[linear_sum_assignment(C)].sum()


@pytest.mark.parametrize(("n1", "n2"), [(1, 1), (5, 5), (60, 60), (60, 40), (1, 30)])
def test_equal_costs(n1, n2):
    assert solve_or_fail(np.full(n1, n2), np.full(n2, n1), np.full((n1, n2), 0.7)) == pytest.approx(
        0.7 * n1 * n2, rel=1e-14
    )
    assert solve_or_fail(np.full(n1, n2), np.full(n2, n1), np.zeros((n1, n2))) == 0.0


def test_one_point_has_one_plan():
    rng = np.random.default_rng(0)
    costs, masses = rng.random(20), rng.dirichlet(np.ones(20))
    assert_allclose(solve([0.5], masses, costs[None, :]), costs @ masses, rtol=1e-13)
    assert_allclose(solve(masses, [0.5], costs[:, None]), costs @ masses, rtol=1e-13)


@pytest.mark.parametrize("exponent", [-900, -300, 300, 900])
def test_the_unit_of_costs_does_not_matter(exponent):
    rng = np.random.default_rng(1)
    C, supply, demand = rng.random((30, 25)), rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(25))
    assert solve(supply, demand, np.ldexp(C, exponent)) == np.ldexp(solve(supply, demand, C), exponent)


def test_costs_of_very_different_size():
    rng = np.random.default_rng(2)
    C = rng.random((40, 40)) * 10.0 ** rng.integers(-12, 1, size=(40, 40))
    supply, demand = rng.dirichlet(np.ones(40)), rng.dirichlet(np.ones(40))
    assert_allclose(solve(supply, demand, C), pot(supply, demand, C), rtol=1e-10)


def test_triangle_violations_are_counted_beyond_rounding():
    D = cdist(x := np.random.default_rng(5).normal(size=(30, 2)), x)
    counts = np.empty(30, np.int64)
    count_triangle_violations(0, 30, D, counts)
    assert counts.sum() == 0
    D[20, 10] = D[10, 20] = D[10, :].max() * 5
    count_triangle_violations(0, 30, D, counts)
    assert counts.sum() == counts[20] == 28  # by way of every other point


@pytest.mark.parametrize("seed", range(20))
def test_the_tree_stays_strongly_feasible(seed):
    # What excludes cycles for good: an arc without flow may only lead towards the root, that is, from a supply.
    rng = np.random.default_rng(seed)
    n1, n2 = (20, 20) if seed % 2 else (24, 16)
    tree = empty_tree(n1 + n2)
    solve(np.full(n1, n2), np.full(n2, n1), rng.integers(0, 8, size=(n1, n2)), tree)
    is_root = tree.parent < 0
    assert is_root.sum() == 1
    assert (tree.flow[n1:][~is_root[n1:]] > 0).all()
    assert (tree.flow[:n1] == 0).any()
