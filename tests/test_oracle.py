"""The public estimators against the oracle in `naive.py`: positions, covariances, distances, graphs, unseen points."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import cdist, squareform

import gaussian_transform as gt
import naive
from gaussian_transform import datasets

POSITION, DISTANCE = 1e-9, 1e-7  # tolerances in units of eps; covariances: POSITION in units of eps²


def gaussian(r):
    return np.exp(-r / 2)


def cauchy(m):
    return lambda r: (1 + r) ** -(m / 2 + 1)


PROFILES = {"truncated": lambda m: None, "gaussian": lambda m: gaussian, "cauchy": cauchy}


def assert_points(actual, expected, eps):
    assert_allclose(actual, expected, rtol=0, atol=POSITION * eps)


def assert_covariances(actual, expected, eps):
    # heavy-tailed kernels reach beyond eps: their covariances are judged by their own size
    assert_allclose(actual, expected, rtol=0, atol=POSITION * max(eps**2, np.abs(expected).max()))


def assert_distances(actual, expected, eps):
    assert_allclose(actual, expected, rtol=0, atol=DISTANCE * eps)
    assert_array_equal(np.diagonal(actual), 0)


def assert_fitted(model, states, eps):
    """Everything a fitted transform tells about itself is what the oracle says."""
    assert len(model.history_) == len(states)
    for told, state in zip(model.history_, states, strict=True):
        assert_points(told.points, state.points, eps)
        assert_covariances(told.covariances, state.covariances, eps)
    assert_points(model.points_, states[-1].points, eps)
    assert_covariances(model.covariances_, states[-1].covariances, eps)
    assert_distances(model.distances(), states[-1].distances, eps)


def oracle(X, eps, lam, n_iter, *, kernel="truncated", **options):
    """The oracle's states, on data where no pair is so near a ball's edge that rounding could decide."""
    states = naive.gaussian_transform(X, eps, lam, n_iter, profile=PROFILES[kernel](X.shape[1]), **options)
    if kernel == "truncated":
        euclidean = np.sqrt(naive.euclidean_squared(X - X[0], X - X[0]))
        assert all(naive.is_decided(D, eps) for D in [euclidean, *(state.distances for state in states)])
    return states


def fit(X, eps, lam, n_iter, weights=None, **options):
    model = gt.GaussianTransform(eps, lam, n_iter=n_iter, store_history=True, **options)
    return model.fit(X, sample_weight=weights)


def compare(X, eps, lam, n_iter, *, weights=None, kernel="truncated", n_eig=None, merge=True):
    states = oracle(X, eps, lam, n_iter, weights=weights, kernel=kernel, n_eig=n_eig)
    model = fit(X, eps, lam, n_iter, weights, kernel=kernel, n_eig=n_eig, merge=merge)
    assert_fitted(model, states, eps)
    return model, states


def cloud(seed, n, m, share=0.15):
    """Three overlapping clusters of different shapes, and an eps whose balls hold about `share` of the points."""
    rng = np.random.default_rng(seed)
    shapes = rng.normal(size=(3, m, m)) / np.sqrt(m)
    centres = 2 * rng.normal(size=(3, m))
    X = np.array([centres[i % 3] + shapes[i % 3] @ rng.normal(size=m) for i in range(n)])
    lengths = np.sqrt(naive.euclidean_squared(X, X))[np.triu_indices(n, 1)]
    return X, float(np.quantile(lengths, share)) * 1.0001


def lattice(m, side, spacing=1.0):
    return spacing * np.stack(np.meshgrid(*[np.arange(side)] * m, indexing="ij"), axis=-1).reshape(-1, m)


# --- clouds in general position ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0, 0.5, 1, 5, 20])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6])
def test_clouds(m, lam):
    X, eps = cloud(10 * m, 50, m)
    compare(X, eps, lam, 2)


@pytest.mark.parametrize("n_iter", [0, 1, 2, 3, 4])
def test_number_of_iterations(n_iter):
    X, eps = cloud(1, 60, 2)
    compare(X, eps, 2.0, n_iter)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_merging_changes_nothing(m, merge):
    X, eps = cloud(20 + m, 50, m, share=0.35)
    _, states = compare(X, eps, 0.5, 4, merge=merge)
    apart = states[-1].distances[np.triu_indices(len(X), 1)]
    assert (apart < 1e-12 * eps).any()  # some points did meet


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_weights(m):
    X, eps = cloud(30 + m, 50, m)
    weights = np.random.default_rng(m).gamma(0.5, size=len(X))
    compare(X, eps, 1.0, 3, weights=weights)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_points_without_mass_see_but_are_not_seen(m, merge):
    X, eps = cloud(40 + m, 50, m)
    X[0] += 100
    X[1] += 200
    X[2] = X[1] + 0.5 * eps / np.sqrt(m)  # two points without mass that have only each other
    weights = np.random.default_rng(m).uniform(0.5, 2, size=len(X))
    weights[1::4] = 0
    weights[2] = 0
    model, _ = compare(X, eps, 1.0, 3, weights=weights, merge=merge)
    assert_array_equal(model.points_[1:3], X[1:3])
    assert_array_equal(model.covariances_[1:3], 0)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_copies_are_weights(m):
    X, eps = cloud(50 + m, 25, m)
    counts = 1 + np.arange(len(X)) % 3
    order = np.random.default_rng(m).permutation(counts.sum())
    which = np.repeat(np.arange(len(X)), counts)[order]
    weighted = oracle(X, eps, 2.0, 3, weights=counts)
    copied = [naive.State(s.points[which], s.covariances[which], s.distances[np.ix_(which, which)]) for s in weighted]
    for merge in (True, False):
        assert_fitted(fit(X[which], eps, 2.0, 3, merge=merge), copied, eps)
    assert_fitted(fit(X, eps, 2.0, 3, counts.astype(float)), weighted, eps)


# --- ties and degenerate shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("lam", [0, 1, 5])
@pytest.mark.parametrize(
    ("m", "side", "spacing", "steps"),
    [(1, 40, 0.1, 3), (2, 9, 1 / 7, 2), (2, 9, 1.0, 3), (3, 5, 0.1, 1), (3, 5, 1 / 3, 2), (4, 3, 0.7, 1)],
)
def test_lattices_full_of_ties(m, side, spacing, steps, lam, merge):
    compare(lattice(m, side, spacing), steps * spacing, lam, 2, merge=merge)


@pytest.mark.parametrize("lam", [0.5, 20])
@pytest.mark.parametrize("m", [2, 3, 5])
def test_points_on_a_tilted_line(m, lam):
    direction = np.random.default_rng(m).normal(size=m)
    direction /= np.linalg.norm(direction)
    X = 0.3 * np.arange(40)[:, None] * direction
    compare(X, 1.2, lam, 3)


def test_points_on_a_tilted_plane():
    """Every covariance is singular, and rounding makes about half of them slightly indefinite."""
    rng = np.random.default_rng(7)
    frame = np.linalg.qr(rng.normal(size=(3, 2)))[0]
    compare(rng.uniform(-1, 1, size=(60, 2)) @ frame.T, 0.45, 5.0, 2)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_small_balls_in_every_dimension(m):
    """Pairs and triples far from each other: covariances of rank 1 and 2 in general directions."""
    rng = np.random.default_rng(60 + m)
    X = np.repeat(50 * rng.normal(size=(8, m)), [1, 2, 2, 3, 3, 3, 4, 1], axis=0)
    X += 0.3 * rng.normal(size=X.shape) / np.sqrt(m)
    compare(X, 1.0, 5.0, 2)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_one_point(m):
    X = np.full((1, m), 3.25)
    model, _ = compare(X, 0.5, 1.0, 2)
    assert_array_equal(model.points_, X)
    assert_array_equal(model.covariances_, np.zeros((1, m, m)))


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_all_points_equal(m, merge):
    X = np.full((7, m), 0.1)
    model, _ = compare(X, 0.5, 1.0, 2, merge=merge)
    assert_array_equal(model.distances(), 0)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_isolated_points_stay(m):
    X = 10.0 * np.random.default_rng(70 + m).permutation(12)[:, None] + np.zeros(m)
    model, _ = compare(X, 1.0, 3.0, 3)
    assert_array_equal(model.points_, X)
    assert_array_equal(model.covariances_, 0)


@st.composite
def weighted_integer_points(draw):
    """Few points on few places: ties, copies, lines, planes and points without mass are the rule here."""
    n, m = draw(st.tuples(st.integers(1, 14), st.integers(1, 4)))
    X = draw(arrays(np.float64, (n, m), elements=st.integers(-3, 3).map(float)))
    weights = draw(arrays(np.float64, n, elements=st.sampled_from([0.0, 1.0, 1.0, 2.0])).filter(lambda w: w.sum() > 0))
    return X, weights


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(
    data=weighted_integer_points(),
    squared_radius=st.sampled_from([1, 2, 4, 5, 9, 12.5]),
    lam=st.sampled_from([0.0, 0.5, 1.0, 3.0, 20.0]),
    n_iter=st.integers(0, 3),
    merge=st.booleans(),
)
def test_any_few_integer_points(data, squared_radius, lam, n_iter, merge):
    X, weights = data
    eps = np.sqrt(squared_radius)
    states = naive.gaussian_transform(X, eps, lam, n_iter, weights=weights)
    assume(all(naive.is_decided(state.distances, eps) for state in states))
    model = fit(X, eps, lam, n_iter, weights, merge=merge)
    assert_fitted(model, states, eps)
    assert_points(model.transform(X), states[-1].points, eps)


# --- scale and position -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_cloud_far_from_the_origin(m):
    """At 1e8 the inputs are multiples of 1.5e-8, and what comes back in their place can be no finer than that."""
    near, eps = cloud(80 + m, 50, m)
    offset = 1e8 * (1 + np.arange(m))
    X = near + offset
    near = X - offset  # exact: what the shifted cloud really is
    states = oracle(near, eps, 2.0, 2)
    model = fit(X, eps, 2.0, 2)
    grain = np.spacing(np.abs(X).max())
    assert_allclose(model.points_ - offset, states[-1].points, rtol=0, atol=grain)
    assert_covariances(model.covariances_, states[-1].covariances, eps)
    assert_distances(model.distances(), states[-1].distances, eps)


@pytest.mark.parametrize("eps", [1e150, 1e-150])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_enormous_and_tiny_units(m, eps):
    """The smallest and the largest eps that are allowed: their squares, and those of the coordinates, are in range."""
    X, radius = cloud(90 + m, 50, m)
    X /= radius
    states = oracle(X, 1.0, 2.0, 2)
    model = fit(X * eps, eps, 2.0, 2)
    for told, state in zip(model.history_, states, strict=True):
        assert_points(told.points / eps, state.points, 1.0)
        assert_covariances(told.covariances / eps / eps, state.covariances, 1.0)
    assert_distances(model.distances() / eps, states[-1].distances, 1.0)


# --- other kernels and distances --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["gaussian", "cauchy"])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_smooth_kernels(m, kernel):
    X, eps = cloud(100 + m, 40, m)
    weights = np.random.default_rng(m).uniform(0, 1, size=len(X))
    for lam in (0, 3.0):
        compare(X, eps, lam, 2, weights=weights, kernel=kernel)


@pytest.mark.parametrize("kernel", ["gaussian", "cauchy"])
def test_smooth_kernels_on_a_lattice(kernel):
    compare(lattice(2, 6), 1.0, 1.0, 2, kernel=kernel)


@pytest.mark.parametrize(("m", "n_eig"), [(2, 1), (2, 2), (3, 1), (3, 2), (5, 1), (5, 3), (5, 5)])
def test_truncated_trace(m, n_eig):
    X, eps = cloud(110 + m, 40, m, share=0.3)
    compare(X, eps, 0.5, 1, n_eig=n_eig)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("base", ["euclidean", "metric"])
@pytest.mark.parametrize("metric", ["manhattan", "chebyshev", "cosine", "precomputed"])
def test_other_metrics(metric, base, merge):
    """The precomputed one knows more than the coordinates: some points share those and are far apart all the same."""
    X = cloud(180, 40, 3)[0]
    X[20:25] = X[:5]
    weights = np.random.default_rng(0).integers(0, 3, size=len(X)).astype(float)
    hidden = np.hstack([X, np.arange(40)[:, None] % 4 / 2])
    distances = (
        cdist(hidden, hidden)
        if metric == "precomputed"
        else lambda P: cdist(P, P, metric.replace("manhattan", "cityblock"))
    )
    eps = {"manhattan": 2.1, "chebyshev": 0.9, "cosine": 0.11, "precomputed": 1.3}[metric]
    states = naive.gaussian_transform(X, eps, 1.5, 2, weights=weights, metric_distances=distances, base=base)
    assert all(naive.is_decided(state.distances, eps) for state in states)
    model = gt.GaussianTransform(eps, 1.5, n_iter=2, metric=metric, base=base, merge=merge, store_history=True)
    model.fit(X, sample_weight=weights, distances=distances if metric == "precomputed" else None)
    assert_fitted(model, states, eps)


# --- what the fitted model offers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["truncated", "gaussian", "cauchy"])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_unseen_points(m, kernel):
    X, eps = cloud(120 + m, 50, m)
    rng = np.random.default_rng(m)
    weights = rng.integers(0, 3, size=len(X)).astype(float)
    near = X[::5] + 0.4 * eps * rng.normal(size=X[::5].shape)
    far = X.max(axis=0) + np.array([[3 * eps], [900]])
    X_new = np.vstack([X[::7], near, far])
    expected = naive.travel(X_new, X, eps, 1.5, 3, weights=weights, profile=PROFILES[kernel](m))
    model = fit(X, eps, 1.5, 3, weights, kernel=kernel)
    assert_points(model.transform(X_new), expected[-1][0], eps)
    assert_points(model.transform(X), oracle(X, eps, 1.5, 3, weights=weights, kernel=kernel)[-1].points, eps)


@pytest.mark.parametrize("merge", [True, False])
def test_transform_of_the_training_points_where_ties_abound(merge):
    X = np.repeat(lattice(2, 6, 0.1), 2, axis=0)
    expected = oracle(X, 0.2, 1.0, 3)[-1].points
    model = fit(X, 0.2, 1.0, 3, merge=merge)
    assert_points(model.transform(X), expected, 0.2)
    assert_points(model.points_, expected, 0.2)


@pytest.mark.parametrize("n_iter", [0, 1, 3])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_neighbors_graph(m, n_iter):
    X, eps = cloud(130 + m, 50, m, share=0.3)
    model, states = compare(X, eps, 1.0, n_iter)
    D = states[-1].distances
    for radius in (0.5 * eps, eps, 3 * eps):
        assert naive.is_decided(D, radius)
        graph = model.neighbors_graph(radius)
        inside = radius**2 * (1 + naive.TIE) >= D**2
        rows, columns = np.nonzero(inside)
        assert_array_equal(np.repeat(np.arange(len(X)), np.diff(graph.indptr)), rows)
        graph.sort_indices()
        assert_array_equal(graph.indices, columns)
        assert_allclose(graph.data, D[inside], rtol=0, atol=DISTANCE * eps)


def test_neighbors_graph_of_a_lattice_holds_its_ties():
    X = lattice(2, 6, 0.1)
    model, states = compare(X, 0.2, 1.0, 0)
    inside = states[0].distances <= 0.3 + 1e-12
    assert (np.abs(states[0].distances - 0.3) < 1e-12).any()
    assert_array_equal(model.neighbors_graph(0.3).toarray() > 0, inside & ~np.eye(len(X), dtype=bool))
    assert model.neighbors_graph(0.3).nnz == inside.sum()


@pytest.mark.parametrize("n_iter", [0, 1, 3])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_single_linkage(m, n_iter):
    X, eps = cloud(140 + m, 50, m)
    model, states = compare(X, eps, 2.0, n_iter)
    Z = model.linkage("single")
    assert_allclose(Z[:, 2], naive.single_linkage_heights(states[-1].distances), rtol=0, atol=DISTANCE * eps)
    assert Z[-1, 3] == len(X)


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6])
def test_single_linkage_of_unequal_ranks(m):
    """Few points in many dimensions: neighbouring covariances differ in rank."""
    for seed in range(15):
        X = np.random.default_rng(seed).normal(size=(8, m))
        model, states = compare(X, 2.0, 2.0, 0)
        heights = naive.single_linkage_heights(states[-1].distances)
        assert_allclose(model.linkage("single")[:, 2], heights, rtol=0, atol=DISTANCE * 2.0)


@pytest.mark.parametrize(("m", "n_eig"), [(2, 1), (3, 1), (5, 2)])
def test_truncated_trace_is_meant_everywhere(m, n_eig):
    """Every answer of the fitted model is about the same distance."""
    X, eps = cloud(160 + m, 40, m, share=0.3)
    model, states = compare(X, eps, 0.5, 1, n_eig=n_eig)
    D = states[-1].distances
    assert naive.is_decided(D, eps)
    inside = eps**2 * (1 + naive.TIE) >= D**2
    graph = model.neighbors_graph(eps)
    assert graph.nnz == inside.sum()
    assert_allclose(graph.toarray(), D * inside, rtol=0, atol=DISTANCE * eps)
    for method in ("single", "average"):
        heights = linkage(squareform(D, checks=False), method)[:, 2]
        assert_allclose(model.linkage(method)[:, 2], heights, rtol=0, atol=DISTANCE * eps)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_embedding(m):
    """(x, √λ·Σ^½) with the roots of the oracle's covariances, up to an isometry."""
    X, eps = cloud(170 + m, 40, m)
    model, states = compare(X, eps, 3.0, 1)
    roots = np.array([naive.psd_sqrt(cov).ravel() for cov in states[-1].covariances])
    expected = np.hstack([states[-1].points, np.sqrt(3.0) * roots])
    embedded = model.embedding()
    assert_points(embedded[:, :m], states[-1].points, eps)
    distances = [np.sqrt(naive.euclidean_squared(E, E)) for E in (embedded, expected)]
    assert_allclose(distances[0], distances[1], rtol=0, atol=DISTANCE * eps)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_without_covariances_it_is_mean_shift(m, merge):
    X, eps = cloud(150 + m, 60, m)
    weights = np.random.default_rng(m).integers(0, 4, size=len(X)).astype(float)
    expected = naive.mean_shift(X, eps, 4, weights)
    model = gt.MeanShiftTransform(eps, n_iter=4, merge=merge, store_history=True).fit(X, sample_weight=weights)
    member = fit(X, eps, 0.0, 4, weights, merge=merge)
    for told, also, points in zip(model.history_, member.history_, expected, strict=True):
        assert_points(told.points, points, eps)
        assert_points(also.points, points, eps)
    assert_allclose(model.distances(), np.sqrt(naive.euclidean_squared(expected[-1], expected[-1])), atol=1e-9 * eps)


# --- the data sets of the paper ---------------------------------------------------------------------------------------

DATASETS = [
    (datasets.make_t_junction(), 10.0, 5.0),
    (datasets.make_dumbbell(scale=(1.0, 2.0)), 0.3, 1.0),
    (datasets.make_spiral(n=200, n_outliers=60), 3.0, 1.0),
    (datasets.make_concentric_circles(n_per_circle=120), 0.4, 20.0),
    (datasets.make_noisy_circle(n=80, n_noise=160), 0.3, 5.0),
    (datasets.make_anisotropy_grid(side=13, n_line=61), 0.25, 10.0),
    (datasets.make_two_segments(n=80), 0.25, 5.0),
    (datasets.make_grid(side=16), 0.2, 1.0),
]


@pytest.mark.parametrize(("data", "eps", "lam"), DATASETS, ids=lambda value: getattr(value, "name", None))
def test_data_sets_of_the_paper(data, eps, lam):
    X = data.points if len(data.points) <= 401 else data.points[::3]
    model, states = compare(X, eps, lam, 2)
    heights = naive.single_linkage_heights(states[-1].distances)
    assert_allclose(model.linkage("single")[:, 2], heights, rtol=0, atol=DISTANCE * eps)
