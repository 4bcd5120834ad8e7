"""The engine below the estimators: variants, rows, sweeps and merging, against the oracle in `naive.py`."""

import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

import naive
from gaussian_transform import datasets
from gaussian_transform._typing import Gaussians
from gaussian_transform.iteration import VARIANTS, Frame, GaussianIteration, Variant, _Distinct
from gaussian_transform.local_gaussians import BallLists, SmoothMeasures, lists_by_tree, source_keys
from gaussian_transform.neighborhoods import sort_into_rows
from gaussian_transform.propagation import PropagatingSweep
from gaussian_transform.row_sweep import RowSweep

WAYS = {**VARIANTS, "default": Variant()}
TOLERANCE = 1e-9  # in units of eps for points, of eps² for covariances


def run(X, eps, lam, n_iter, *, variant="default", weights=None, **options):
    """Return the states of the iteration and, for each, points and covariances in the user's order and units."""
    X = np.asarray(X, dtype=float)
    alpha = np.full(len(X), 1 / len(X)) if weights is None else weights / np.sum(weights)
    iteration = GaussianIteration(eps, lam, variant=WAYS[variant], **options)
    frame, states = iteration.run(X, alpha, n_iter)
    members = np.arange(len(X))
    told = []
    for state in states:
        members = state.of_previous[members]
        points, covariances = (array[members] for array in state.gaussians)
        told.append(Gaussians(frame.leave(points), covariances * frame.unit**2))
    return states, told


def assert_states(told, expected, eps):
    assert len(told) == len(expected)
    for gaussians, state in zip(told, expected, strict=True):
        assert_allclose(gaussians.points, state.points, rtol=0, atol=TOLERANCE * eps)
        assert_allclose(gaussians.covariances, state.covariances, rtol=0, atol=TOLERANCE * eps**2)


def lattice(side, m, spacing=1.0):
    return spacing * np.stack(np.meshgrid(*[np.arange(side)] * m, indexing="ij"), axis=-1).reshape(-1, m)


def cloud(seed, n, m):
    """A cloud of uneven density in [-2, 2]^m, with weights of which a fifth are 0."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, m)) * rng.choice([0.3, 1.0, 2.0], size=(n, 1))
    weights = rng.gamma(0.7, size=n) * (rng.uniform(size=n) > 0.2)
    return X, weights / weights.sum()


# --- the five variants ------------------------------------------------------------------------------------------------

LATTICES = {
    "line": (lattice(31, 1, 0.1), 0.3),
    "plane": (lattice(8, 2, 0.1), 0.2),
    "space": (lattice(4, 3, 1 / 3), 1 / 3),
    "space, far ties": (lattice(4, 3, 0.1), 0.1 * np.sqrt(2)),
}
CLOUDS = {f"cloud in {m}-D": (*cloud(m, 70, m), {1: 0.15, 2: 0.5, 3: 0.9, 5: 1.9}[m]) for m in (1, 2, 3, 5)}


@functools.cache
def expected_on_lattice(name, lam):
    X, eps = LATTICES[name]
    return naive.gaussian_transform(X, eps, lam, 2)


@functools.cache
def expected_on_cloud(name, lam):
    X, weights, eps = CLOUDS[name]
    states = naive.gaussian_transform(X, eps, lam, 3, weights=weights)
    assert all(naive.is_decided(state.distances, eps) for state in states)
    return states


@pytest.mark.parametrize("variant", WAYS)
@pytest.mark.parametrize("lam", [0, 1, 20])
@pytest.mark.parametrize("name", LATTICES)
def test_variants_agree_on_lattices_full_of_ties(name, lam, variant):
    X, eps = LATTICES[name]
    _, told = run(X, eps, lam, 2, variant=variant)
    assert_states(told, expected_on_lattice(name, lam), eps)


@pytest.mark.parametrize("variant", WAYS)
@pytest.mark.parametrize("lam", [0, 1, 20])
@pytest.mark.parametrize("name", CLOUDS)
def test_variants_agree_on_weighted_clouds(name, lam, variant):
    X, weights, eps = CLOUDS[name]
    _, told = run(X, eps, lam, 3, variant=variant, weights=weights)
    assert_states(told, expected_on_cloud(name, lam), eps)


@pytest.mark.parametrize("variant", WAYS)
def test_variants_far_from_the_origin(variant):
    """At 1e8 the inputs are multiples of 1.5e-8: what comes back can be no finer, covariances can."""
    near, weights, eps = CLOUDS["cloud in 2-D"]
    offset = np.array([1e8, -3e8])
    X = near + offset
    expected = naive.gaussian_transform(X - offset, eps, 1.0, 2, weights=weights)
    _, told = run(X, eps, 1.0, 2, variant=variant, weights=weights)
    assert_allclose(told[-1].points - offset, expected[-1].points, rtol=0, atol=np.spacing(3e8))
    assert_allclose(told[-1].covariances, expected[-1].covariances, rtol=0, atol=TOLERANCE * eps**2)


@st.composite
def lattice_points(draw):
    """Few points on few places of a lattice: copies, lines, planes, ties and points of no mass are the rule."""
    n, m = draw(st.tuples(st.integers(1, 12), st.integers(1, 3)))
    X = draw(arrays(np.float64, (n, m), elements=st.integers(-2, 3).map(float)))
    if draw(st.booleans()):
        X[:, 1:] = X[:, :1]  # all on a diagonal
    weights = draw(arrays(np.float64, n, elements=st.sampled_from([0.0, 1.0, 1.0, 3.0])).filter(lambda w: w.sum() > 0))
    return X, weights


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(
    data=lattice_points(),
    spacing=st.sampled_from([1.0, 0.1, 1 / 3, 1e-7]),
    steps=st.integers(1, 3),
    lam=st.sampled_from([0.0, 0.5, 1.0, 20.0]),
    n_iter=st.integers(0, 3),
)
def test_variants_agree_on_any_few_lattice_points(data, spacing, steps, lam, n_iter):
    X, weights = data
    X, eps = spacing * X, spacing * steps
    expected = naive.gaussian_transform(X, eps, lam, n_iter, weights=weights)
    assume(all(naive.is_decided(state.distances, eps) for state in expected))
    for variant in WAYS:
        _, told = run(X, eps, lam, n_iter, variant=variant, weights=weights)
        assert_states(told, expected, eps)


@pytest.mark.parametrize("variant", ["GT-v1", "GT-v2"])
@pytest.mark.parametrize(("m", "n", "eps"), [(2, 2500, 1.0), (3, 3000, 1.6)])
def test_full_balls_use_low_rows_and_agree_with_the_full_matrix(m, n, eps, variant):
    """Balls so full that rows are lower than eps; the full matrix shares no kernel with the sweeps."""
    X, weights = cloud(5, n, m)
    lam = 0.3
    low = RowSweep(Gaussians(X, np.zeros((n, m, m))), weights, eps=eps, lam=0.0)
    assert np.diff(low._sources.rows.y_min).min() < 0.9 * eps
    _, told = run(X, eps, lam, 1, variant=variant, weights=weights)
    _, full = run(X, eps, lam, 1, variant="GT", weights=weights)
    for gaussians, other in zip(told, full, strict=True):
        assert_allclose(gaussians.points, other.points, rtol=0, atol=TOLERANCE * eps)
        assert_allclose(gaussians.covariances, other.covariances, rtol=0, atol=TOLERANCE * eps**2)


# --- merging ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("plain", "merging"), [("GT-v1", "GT-v3"), ("GT-v2", "GT-v4")])
def test_merging_changes_nothing_but_the_number_of_points(plain, merging):
    X = datasets.make_dumbbell().points
    eps = 0.3
    _, expected = run(X, eps, 1.0, 8, variant=plain)
    states, told = run(X, eps, 1.0, 8, variant=merging)
    for gaussians, other in zip(told, expected, strict=True):
        assert_allclose(gaussians.points, other.points, rtol=0, atol=1e-12)
        assert_allclose(gaussians.covariances, other.covariances, rtol=0, atol=1e-12)
    n_distinct = [len(state.weights) for state in states]
    assert n_distinct == sorted(n_distinct, reverse=True)
    assert n_distinct[-1] < n_distinct[0] / 4
    for state in states:
        assert state.weights.sum() == pytest.approx(1.0, abs=1e-12)
        assert len(state.gaussians.points) == len(state.gaussians.covariances) == len(state.weights)


@pytest.mark.parametrize("variant", WAYS)
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_points_whose_ball_holds_no_mass_stay_apart(m, variant):
    """Two points of no mass with the same ball, which holds no mass: each stays where it is."""
    X = np.zeros((3, m))
    X[:, 0] = [0.0, 0.5, 10.0]
    weights = np.array([0.0, 0.0, 1.0])
    for gaussians in run(X, 1.0, 1.0, 2, variant=variant, weights=weights)[1]:
        assert_array_equal(gaussians.points, X)
        assert_array_equal(gaussians.covariances, 0)


def test_distinct_rows_are_told_apart_when_their_hashes_collide():
    salt = 0x9E3779B97F4A7C15

    def mixed(value):
        key = int(np.float64(value).view(np.uint64)) * salt % 2**64
        return key ^ (key >> 32)

    rng = np.random.default_rng(0)
    for first in rng.uniform(1, 2, size=100_000):
        bits = int(np.float64(1.5).view(np.uint64)) ^ mixed(1.0) ^ mixed(first)
        second = np.uint64(bits).view(np.float64)
        if 0.1 < abs(second) < 10:
            break
    colliding = np.array([[1.0, 1.5], [first, second], [1.0, 1.5], [first, second]])
    assert 0.1 < abs(second) < 10
    distinct = _Distinct.rows(colliding)
    assert_array_equal(colliding[distinct.first][distinct.inverse], colliding)
    assert len(distinct.first) == 2
    assert_array_equal(np.sort(distinct.add_up(np.array([0.1, 0.2, 0.3, 0.4]))), [0.1 + 0.3, 0.2 + 0.4])


def test_distinct_rows_do_not_tell_zero_from_minus_zero():
    distinct = _Distinct.rows(np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 1.0]]))
    assert_array_equal(distinct.inverse, [0, 0, 1])
    assert _Distinct.rows(np.array([[0.0, 1.0], [1.0, 0.0]])) is None


# --- rows -------------------------------------------------------------------------------------------------------------


def adversarial_clouds():
    rng = np.random.default_rng(3)
    unit = rng.uniform(size=(400, 3))
    outlier = unit.copy()
    outlier[123] = [1e12, 0.5, 0.5]
    y_outlier = unit.copy()
    y_outlier[7, 1] = 1e12
    z_outlier = unit.copy()
    z_outlier[7, 2] = -1e12
    equal_x = unit.copy()
    equal_x[:, 0] = 0.1
    signs = rng.choice([0.0, -0.0, 1.0, -1.0], size=(400, 3))
    subnormal = np.zeros((5, 3))
    subnormal[:, 0] = [0, 5e-324, 1e-310, 0, 1e-320]
    few = 1.0 + 1e-13 * rng.integers(0, 50, size=(400, 3))
    few[0] = 0.0
    return {
        "uniform": unit,
        "one point": unit[:1],
        "outlier in x": outlier,
        "outlier in x, few points": outlier[118:126],
        "outlier in y": y_outlier,
        "outlier in z": z_outlier,
        "equal x": equal_x,
        "all equal": np.full((50, 3), 0.3),
        "huge": 1e100 * unit,
        "tiny": 1e-100 * unit,
        "both zeros": signs,
        "subnormal": subnormal,
        "descending": np.linspace(1, 0, 300)[:, None] * np.ones(3),
        "crowded": few,
        "on the edges of rows": np.floor(unit * 8) / 2,
        "many orders of magnitude": 10.0 ** rng.uniform(-150, 100, size=(300, 3)) * rng.choice([-1, 1], size=(300, 3)),
    }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("height", [0.5, 1.0])
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("name", adversarial_clouds())
def test_rows_are_sorted(name, m, height):
    X = np.ascontiguousarray(adversarial_clouds()[name][:, :m])
    n = len(X)
    order, coordinates, rows = sort_into_rows(X, height)
    assert_array_equal(np.sort(order), np.arange(n))
    assert_array_equal(coordinates[:m], X[order].T)
    assert coordinates.shape == (max(m, 2), n)
    assert rows.start[0] == 0
    assert rows.start[-1] == n
    assert rows.layer_start[0] == 0
    assert rows.layer_start[-1] == len(rows.start) - 1
    assert np.all(np.diff(rows.start) > 0)
    assert np.all(np.diff(rows.layer_start) > 0)
    y = coordinates[1]
    z = coordinates[2] if m == 3 else np.zeros(n)
    for row, (a, b) in enumerate(itertools.pairwise(rows.start)):
        assert np.all(np.diff(coordinates[0, a:b]) >= 0)
        box = y[a:b].min(), y[a:b].max(), z[a:b].min(), z[a:b].max()
        assert box == (rows.y_min[row], rows.y_max[row], rows.z_min[row], rows.z_max[row])
        assert len(np.unique(np.floor(y[a:b] / height))) == len(np.unique(np.floor(z[a:b] / height))) == 1
    for layer, (a, b) in enumerate(itertools.pairwise(rows.layer_start)):
        assert np.all(rows.y_max[a : b - 1] < rows.y_min[a + 1 : b])
        assert rows.layer_z_min[layer] == rows.z_min[a:b].min()
        assert rows.layer_z_max[layer] == rows.z_max[a:b].max()
    assert np.all(rows.layer_z_max[:-1] < rows.layer_z_min[1:])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("variant", ["GT-v1", "GT-v4"])
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("name", ["outlier in x", "outlier in z", "both zeros", "subnormal", "crowded"])
def test_adversarial_clouds_are_transformed_right(name, m, variant):
    X = np.ascontiguousarray(adversarial_clouds()[name][:60, :m] if "outlier" not in name else
                             adversarial_clouds()[name][:130:2, :m])  # fmt: skip
    X = X - X[0]  # the oracle has its origin there
    expected = naive.gaussian_transform(X, 0.45, 1.0, 1)
    _, told = run(X, 0.45, 1.0, 1, variant=variant)
    scale = max(1.0, np.abs(X).max())  # a frame that holds an outlier at 1e12 has steps of 1e-4
    for gaussians, state in zip(told, expected, strict=True):
        assert_allclose(gaussians.points, state.points, rtol=0, atol=TOLERANCE * 0.45 + 4e-16 * scale)


# --- means and covariances of balls -----------------------------------------------------------------------------------


def ball_lists(sources, weights, *, eps, lam, queries=None, n_threads=1):
    lists = lists_by_tree(sources, queries, eps=eps, lam=lam, n_eig=None, n_threads=n_threads)
    return BallLists(lists, sources, weights, queries=queries, n_threads=n_threads)


ENGINES = {
    "rows": RowSweep,
    "propagation": PropagatingSweep,
    "lists": ball_lists,
    "smooth": functools.partial(SmoothMeasures, profile=np.ones_like),
}


def random_gaussians(seed, n, m, spread=1.0):
    """Gaussians with covariances of every rank, 0 among them."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n, m, m)) * rng.uniform(0, 0.5, size=(n, 1, 1))
    factors *= np.arange(m) < rng.integers(0, m + 1, size=(n, 1, 1))
    return Gaussians(rng.uniform(-spread, spread, size=(n, m)), factors @ np.swapaxes(factors, 1, 2)), factors


def expected_sweep(queries, query_factors, sources, source_factors, weights, eps, lam, moved):
    """Shift, mass and covariances of the balls, and their members, by the oracle's means."""
    squared = naive.gt_squared(queries.points, query_factors, sources.points, source_factors, lam)
    assert naive.is_decided(np.sqrt(squared), eps)
    local = naive.local_weights(squared, eps, weights, None)
    means = [naive.local_mean(row, sources.points, at) for row, at in zip(local, queries.points, strict=True)]
    factors = np.array([naive.local_factor(row, moved) for row in local])
    inside = squared <= eps**2 * (1 + naive.TIE)
    return np.array(means) - queries.points, local.sum(axis=1), factors @ np.swapaxes(factors, 1, 2), inside


@pytest.mark.parametrize("lam", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_balls_of_other_queries(m, lam):
    """Queries that are no sources, some of them beyond all sources and some beyond reach."""
    sources, source_factors = random_gaussians(10 + m, 150, m)
    queries, query_factors = random_gaussians(20 + m, 40, m, spread=2.5)
    rng = np.random.default_rng(m)
    weights = rng.uniform(size=150) * (rng.uniform(size=150) > 0.3)
    moved = sources.points + 0.2 * rng.normal(size=(150, m))
    eps = 1.1 if m <= 3 else 2.5
    shift, mass, covariances, inside = expected_sweep(
        queries, query_factors, sources, source_factors, weights, eps, lam, moved
    )
    assert not inside.all(axis=1).any()
    assert (mass == 0).any()
    assert (mass > 0).any()
    engine = RowSweep if m <= 3 else ball_lists
    balls = engine(sources, weights, eps=eps, lam=lam, queries=queries, n_threads=2)
    told = balls.means()
    assert_allclose(told.shift, shift, rtol=0, atol=TOLERANCE)
    assert_allclose(told.mass, mass, rtol=1e-12)
    assert_array_equal(told.shift[mass == 0], 0)
    assert_allclose(balls.covariances(moved), covariances, rtol=0, atol=TOLERANCE)
    with np.errstate(over="ignore"):
        assert_array_equal(told.keys, (inside * source_keys(150)).sum(axis=1, dtype=np.uint64))


def exact_covariance(weights, points):
    """The weighted covariance in rational arithmetic: only its entries are rounded."""
    alpha = [Fraction(w) for w in weights]
    columns = [[Fraction(x) for x in column] for column in np.asarray(points).T]
    mass = sum(alpha)
    means = [sum(a * x for a, x in zip(alpha, column, strict=True)) / mass for column in columns]
    ways = [[x - mean for x in column] for column, mean in zip(columns, means, strict=True)]
    return np.array(
        [[float(sum(a * u * v for a, u, v in zip(alpha, p, q, strict=True)) / mass) for q in ways] for p in ways]
    )


@pytest.mark.parametrize("asks_means", [True, False])
@pytest.mark.parametrize("width", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("engine", ENGINES)
def test_covariance_of_a_collapsed_ball_seen_from_far(engine, m, width, asks_means):
    """A point of no mass at the edge of a ball that has shrunk to almost nothing: the way there costs no digits."""
    rng = np.random.default_rng(11)
    points = np.zeros((31, m))
    points[1:] = 0.93 / np.sqrt(m) + width * rng.normal(size=(30, m)) * np.array([1.0, 0.3, 0.1])[:m]
    weights = np.append(0.0, rng.uniform(0.1, 1, size=30))
    unshaped = Gaussians(points, np.zeros((31, m, m)))
    balls = ENGINES[engine](unshaped, weights, eps=1.0, lam=0.0)
    if asks_means:
        balls.means()
    told = balls.covariances(points)[0]
    expected = exact_covariance(weights[1:], points[1:])
    assert_allclose(told, expected, rtol=0, atol=1e-9 * np.trace(expected))


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("engine", ENGINES)
def test_covariance_under_skewed_weights(engine, m):
    """Nearly all mass in one point: the covariance is small beside the ball, and keeps its digits."""
    rng = np.random.default_rng(12)
    points = rng.uniform(-0.25, 0.25, size=(40, m))
    weights = rng.uniform(0.5, 1, size=40) * 1e-12
    weights[17] = 1.0
    balls = ENGINES[engine](Gaussians(points, np.zeros((40, m, m))), weights, eps=1.0, lam=0.0)
    expected = exact_covariance(weights, points)
    for _ in range(2):
        assert_allclose(balls.covariances(points), np.broadcast_to(expected, (40, m, m)), rtol=1e-9, atol=1e-9 * 1e-12)
        balls.means()


@pytest.mark.parametrize("variant", ["GT", "GT-v1", "GT-v4"])
def test_clouds_of_skewed_density(variant):
    """Half of the points crowd a thousandth of the plane; weights span nine orders of magnitude."""
    rng = np.random.default_rng(13)
    X = rng.normal(size=(80, 2)) * np.repeat([1.0, 1e-3], 40)[:, None]
    weights = 10.0 ** rng.uniform(-9, 0, size=80)
    expected = naive.gaussian_transform(X, 0.4, 2.0, 2, weights=weights)
    assert all(naive.is_decided(state.distances, 0.4) for state in expected)
    _, told = run(X, 0.4, 2.0, 2, variant=variant, weights=weights)
    assert_states(told, expected, 0.4)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_covariances_are_symmetric_and_semidefinite(m):
    X, weights = cloud(40 + m, 300, m)
    for variant in WAYS:
        covariances = run(X, 0.4, 1.0, 2, variant=variant, weights=weights)[1][-1].covariances
        assert_array_equal(covariances, np.swapaxes(covariances, 1, 2))
        assert np.linalg.eigvalsh(covariances).min() > -1e-16 * 0.4**2 * 10


# --- threads and repetition -------------------------------------------------------------------------------------------


def assert_same_bits(a, b):
    for one, other in zip(a, b, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("lam", [0.0, 2.0])
@pytest.mark.parametrize(("m", "eps"), [(1, 0.02), (2, 0.15), (3, 0.4)])
@pytest.mark.parametrize("engine", [RowSweep, PropagatingSweep])
def test_sweeps_are_the_same_to_the_bit_for_any_number_of_threads(engine, m, eps, lam):
    sources, _ = random_gaussians(50 + m, 3000, m)
    weights = np.random.default_rng(m).uniform(size=3000)
    moved = sources.points * 0.9
    told = []
    for n_threads in (1, 2, 3, 7, 1):
        balls = engine(sources, weights, eps=eps, lam=lam, n_threads=n_threads)
        first = balls.covariances(sources.points)
        told.append([first, *balls.means(), balls.covariances(moved)])
    for other in told[1:]:
        assert_same_bits(told[0], other)


@pytest.mark.parametrize(
    ("m", "n", "eps"), [(1, 50, 0.1), (2, 500, 0.1), (2, 8000, 0.5), (2, 500, 9.0), (3, 500, 0.3), (3, 24000, 0.4)]
)
def test_strips_that_run_at_once_do_not_reach_each_other(m, n, eps):
    """Every other strip runs at the same time, and enters its pairs in the sums of the next one too."""
    sources, _ = random_gaussians(m, n, m)
    sweep = PropagatingSweep(sources, np.full(n, 1 / n), eps=eps, lam=1.0)
    begin, across = sweep._strips(), sweep._sources.coordinates[-1]
    assert begin[0] == 0
    assert begin[-1] == n
    assert np.all(np.diff(begin) > 0)
    strips = [across[a:b] for a, b in itertools.pairwise(begin)]
    assert len(strips) > 2 or m == 1 or eps > 2
    for strip, next_but_one in zip(strips, strips[2:], strict=False):
        assert next_but_one.min() - strip.max() > eps


@pytest.mark.parametrize("variant", WAYS)
@pytest.mark.parametrize("m", [2, 5])
def test_runs_are_the_same_to_the_bit_for_any_number_of_threads(m, variant):
    X, weights = cloud(60 + m, 700 if m == 2 else 300, m)
    told = []
    for n_threads in (1, 2, 3, 7, 1):
        gaussians = run(X, 0.4, 1.0, 2, variant=variant, weights=weights, n_threads=n_threads)[1]
        told.append([array for state in gaussians for array in state])
    for other in told[1:]:
        assert_same_bits(told[0], other)


def test_smooth_kernels_are_the_same_to_the_bit_for_any_number_of_threads():
    X, weights = cloud(70, 400, 2)
    told = []
    for n_threads in (1, 2, 3, 7, 1):
        gaussians = run(X, 0.4, 1.0, 2, weights=weights, profile=lambda r: np.exp(-r / 2), n_threads=n_threads)[1]
        told.append([array for state in gaussians for array in state])
    for other in told[1:]:
        assert_same_bits(told[0], other)


# --- the frame --------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("eps", [1e-150, 3e-7, 1.0, 0.7, 1.5, 1e150])
def test_frame_is_a_power_of_two_near_eps(eps):
    frame = Frame.of(np.array([[-1.0, 2.0], [3.0, 8.0]]), eps)
    assert np.frexp(frame.unit)[0] == 0.5
    assert 0.5 < eps / frame.unit < 2.0
    assert_array_equal(frame.center, [1.0, 5.0])


def test_frame_leaves_where_it_entered():
    X = np.random.default_rng(0).normal(size=(50, 3))
    frame = Frame.of(X, 0.3)
    assert_allclose(frame.leave(frame.enter(X)), X, rtol=0, atol=1e-15)
