"""The Wasserstein transform against the naive one (POT in a double loop), its mathematics, estimator and errors."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.cluster import hierarchy
from scipy.spatial.distance import cdist, squareform
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive
from gaussian_transform import WassersteinTransform, _shapes
from gaussian_transform.neighborhoods import typical_radius_of_matrix
from gaussian_transform.wasserstein import wasserstein_iterates, wasserstein_transform

seeded = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def cloud(seed, n=30, m=2):
    x = np.random.default_rng(seed).normal(size=(n, m))
    return cdist(x, x)


def random_metric(seed, n=25, steps=None):
    """Shortest ways through a complete graph with random lengths: a metric of no geometry; whole steps make ties."""
    rng = np.random.default_rng(seed)
    D = rng.random((n, n)) if steps is None else rng.integers(1, steps + 1, size=(n, n)).astype(float)
    D = np.minimum(D, D.T)
    np.fill_diagonal(D, 0)
    for k in range(n):
        D = np.minimum(D, D[:, [k]] + D[[k], :])
    return D


def lattice(side):
    x = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2).astype(float)
    return cdist(x, x)


def duplicates():
    x = np.random.default_rng(9).normal(size=(8, 2))[[0, 0, 0, 1, 2, 2, 3, 4, 5, 6, 6, 7]]
    return cdist(x, x)


def assert_same(actual, desired, p, unit, rtol=1e-10):
    # Costs, not their roots: the reference knows a cost of 0 only to about 1e-16 of the unit, its root to 1e-8.
    assert_allclose((actual / unit) ** p, (desired / unit) ** p, rtol=rtol, atol=1e-14)


SPACES = {
    "cloud": (cloud(0), 0.7),
    "high-dimensional": (cloud(1, 25, 10), 3.6),
    "metric": (random_metric(2), 0.15),
    "steps": (random_metric(3, steps=6), 2.0),
    "lattice": (lattice(5), 1.0),
    "wide lattice": (lattice(4), np.sqrt(2)),
    "duplicates": (duplicates(), 0.9),
    "isolated": (cloud(4, 10), 1e-3),
    "everything": (cloud(5, 10), 100.0),
}


@pytest.mark.parametrize("p", [1, 2, 3, 1.5])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("weighted", [False, True])
def test_two_iterations_agree_with_the_naive_transform(space, p, weighted):
    D, eps = SPACES[space]
    weights = np.random.default_rng(7).random(len(D)) if weighted else None
    expected = naive.wasserstein_transform(D, eps, p, 2, weights)
    assert naive.is_decided(expected[1], eps)
    first, second = wasserstein_iterates(D, eps, p=p, n_iter=2, weights=weights)
    assert_same(first, expected[1], p, D.max())
    assert_same(second, expected[2], p, D.max(), rtol=1e-9)
    assert_array_equal(wasserstein_transform(D, eps, p=p, n_iter=2, weights=weights), second)


def test_common_mass_moves_where_the_triangle_inequality_fails():
    # From 0 to 2 it is cheaper by way of 1, so cancelling what {0, 1} and {1, 2} share would be wrong.
    D = np.array([[0, 1, 9, 1], [1, 0, 1, 9], [9, 1, 0, 9], [1, 9, 9, 0.0]])
    expected = naive.wasserstein_transform(D, 1, 1, 1)[1]
    assert expected[0, 2] != pytest.approx(wasserstein_transform(np.minimum(D, 2), 1, p=1)[0, 2])
    assert_allclose(wasserstein_transform(D, 1, p=1), expected, rtol=1e-12)


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 2.5]), st.booleans(), st.integers(1, 2))
@seeded
def test_the_result_is_a_metric_and_short_steps_stay_short(seed, p, is_cloud, n_iter):
    D = cloud(seed, 14) if is_cloud else random_metric(seed, 14, steps=5)
    eps = float(np.quantile(D, 0.3))
    assume(eps > 0)
    W = wasserstein_transform(D, eps, p=p, n_iter=n_iter)
    assert_array_equal(W, W.T)
    assert_array_equal(np.diag(W), 0)
    assert (W[:, None, :] <= W[:, :, None] + W[None, :, :] + 1e-9 * W.max()).all()
    # No mass leaves its ball.
    assert np.max(W - D) <= 2 * n_iter * eps * (1 + 1e-9)


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3]))
@seeded
def test_weights_are_copies(seed, p):
    rng = np.random.default_rng(seed)
    D, copies = cloud(seed, 10), rng.integers(1, 4, size=10)
    rows = np.repeat(np.arange(10), copies)
    repeated = wasserstein_transform(D[np.ix_(rows, rows)], 1.0, p=p, n_iter=2)
    weighted = wasserstein_transform(D, 1.0, p=p, n_iter=2, weights=copies)
    assert_allclose(repeated, weighted[np.ix_(rows, rows)], rtol=1e-12, atol=1e-13)
    # Normalised counts are recognised: the same numbers in every bit.
    assert_array_equal(weighted, wasserstein_transform(D, 1.0, p=p, n_iter=2, weights=copies / copies.sum()))


@given(st.integers(0, 10**6), st.sampled_from([1, 2]))
@seeded
def test_the_order_of_points_does_not_matter(seed, p):
    D = random_metric(seed, 16)
    order = np.random.default_rng(seed).permutation(16)
    W = wasserstein_transform(D, 0.2, p=p, n_iter=2)
    assert_allclose(wasserstein_transform(D[np.ix_(order, order)], 0.2, p=p, n_iter=2), W[np.ix_(order, order)], 1e-11)


@pytest.mark.parametrize("p", [1, 2])
def test_threads_do_not_show_in_the_result(p):
    D = cloud(11, 60)
    weights = np.random.default_rng(1).random(60)
    one, two, many = (
        wasserstein_transform(D, 0.6, p=p, n_iter=2, weights=weights, n_jobs=n, callback=callback)
        for n, callback in [(1, None), (2, None), (5, lambda progress: None)]
    )
    assert_array_equal(one, two)
    assert_array_equal(one, many)


@pytest.mark.parametrize("p", [1, 2, 2.5])
@pytest.mark.parametrize("exponent", [-1000, -400, 400, 1000])
def test_the_unit_of_distances_does_not_matter(p, exponent):
    D = cloud(12, 20)
    W = wasserstein_transform(np.ldexp(D, exponent), np.ldexp(0.6, exponent), p=p)
    assert_array_equal(W, np.ldexp(wasserstein_transform(D, 0.6, p=p), exponent))


@pytest.mark.parametrize("factor", [1e-300, 1 / 3, 1e300])
def test_the_unit_of_weights_does_not_matter(factor):
    D, weights = cloud(13, 20), np.random.default_rng(2).random(20)
    W = wasserstein_transform(D, 0.6, weights=weights)
    assert_allclose(wasserstein_transform(D, 0.6, weights=weights * factor), W, rtol=1e-12)


def test_balls_of_hardly_any_weight():
    x = np.array([0, 1, 2, 50, 51, 52, 53, 90, 92.0])
    D = np.abs(np.subtract.outer(x, x))
    W = wasserstein_transform(D, 1, weights=np.where(x < 50, 1, 1e-290) * np.where(x < 90, 1, 1e10))
    assert_allclose(W, wasserstein_transform(D, 1), rtol=1e-12)


def test_masses_that_nearly_cancel():
    # {0, 1} and {0, 1, 2} have the same sum of weights in floating point, though not the same weights.
    D = np.abs(np.subtract.outer(*2 * [np.array([0, 1, 2, 7.0])]))
    for weight in (0.0, 1e-20, 1e-17, 1e-15):
        W = wasserstein_transform(D, 1, p=1, weights=[0.1, 0.7, weight, 1])
        assert_allclose(W[0, 1], 1.125 * 1.25 * weight, atol=1e-15)


def test_a_high_power_is_near_the_bottleneck_and_does_not_vanish():
    D = np.abs(np.subtract.outer(*2 * [np.array([0, 1, 2, 10, 11, 1e6])]))
    W = wasserstein_transform(D, 1, p=200)
    assert_allclose(W[0, 1], (1 / 2) ** (1 / 200))  # half the mass moves by 1
    assert_allclose(W[0, 3], 10)


def test_equal_balls_are_at_distance_zero_and_far_points_stay():
    x = np.array([0, 1, 2, 50, 51, 200.0])
    W = wasserstein_transform(np.abs(np.subtract.outer(x, x)), 5.0, n_iter=3)
    assert_array_equal(W[:3, :3], 0)
    assert_array_equal(W[3:5, 3:5], 0)
    assert_allclose(W[0, 5], np.sqrt(np.mean((200 - x[:3]) ** 2)))


def test_points_without_weight_are_in_no_ball_and_have_one_of_their_own():
    D, weights = cloud(14, 20), np.arange(20) % 3 != 0
    kept = np.flatnonzero(weights)
    W = wasserstein_transform(D, 0.8, weights=weights)
    assert_array_equal(W[np.ix_(kept, kept)], wasserstein_transform(D[np.ix_(kept, kept)], 0.8))
    # Alone, such a point is where it is.
    line = np.abs(np.subtract.outer(*2 * [np.array([0, 1, 9.0])]))
    assert_allclose(wasserstein_transform(line, 2, p=1, weights=[1, 1, 0])[2], [8.5, 8.5, 0])


def test_no_iteration_returns_a_copy():
    D = cloud(15, 5)
    W = wasserstein_transform(D, 1.0, n_iter=0)
    assert_array_equal(W, D)
    assert not np.shares_memory(W, D)


def test_the_input_is_not_changed():
    D = cloud(15, 12)
    D.setflags(write=False)
    before = D.copy()
    wasserstein_transform(np.asfortranarray(D), 1.0, n_iter=2)
    wasserstein_transform(D, 1.0, n_iter=2)
    assert_array_equal(D, before)


def test_progress_is_reported():
    seen = []
    wasserstein_transform(cloud(16, 40), 0.5, n_iter=2, callback=seen.append)
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1
    assert {progress.iteration for progress in seen} == {1, 2}
    assert {progress.n_iter for progress in seen} == {2}
    assert all(0 < progress.n_points <= 40 for progress in seen)


def test_a_callback_can_stop_the_fit():
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wasserstein_transform(cloud(16, 10), 0.5, callback=stop)


# --- choosing eps -----------------------------------------------------------------------------------------------------


def test_eps_is_the_median_distance_to_the_sixteenth_other_point():
    D = cloud(17, 41)
    assert typical_radius_of_matrix(D) == np.median(np.sort(D, axis=1)[:, 16])
    assert typical_radius_of_matrix(D[:5, :5]) == np.median(D[:5, :5].max(axis=1))


def test_eps_of_copies():
    x = np.array([0.0] * 40 + [3.0, 4.0])
    assert typical_radius_of_matrix(np.abs(np.subtract.outer(x, x))) == 3
    assert typical_radius_of_matrix(np.zeros((3, 3))) == 1
    assert typical_radius_of_matrix(np.zeros((1, 1))) == 1


# --- the estimator ----------------------------------------------------------------------------------------------------


@parametrize_with_checks([WassersteinTransform(), WassersteinTransform(p=1, n_iter=2, metric="manhattan")])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def test_fit_gives_the_transform_of_the_distances_of_points():
    X = np.random.default_rng(18).normal(size=(30, 3))
    weights = np.random.default_rng(19).random(30)
    for metric, D in [
        ("euclidean", cdist(X, X)),
        ("manhattan", cdist(X, X, "cityblock")),
        (naive_distance, cdist(X, X)),
    ]:
        model = WassersteinTransform(1.2, p=1, n_iter=2, metric=metric).fit(X, sample_weight=weights)
        assert_allclose(model.distances_, wasserstein_transform(D, 1.2, p=1, n_iter=2, weights=weights), rtol=1e-12)
        assert (model.eps_, model.n_iter_, model.history_) == (1.2, 2, None)


def naive_distance(x, y):
    return float(np.sqrt(((x - y) ** 2).sum()))


def test_precomputed_distances_and_the_default_eps():
    X = np.random.default_rng(20).normal(size=(30, 3))
    model = WassersteinTransform(metric="precomputed").fit(cdist(X, X))
    assert model.eps_ == typical_radius_of_matrix(cdist(X, X))
    assert_array_equal(model.distances_, WassersteinTransform().fit(X).distances_)
    assert model.__sklearn_tags__().input_tags.pairwise
    assert not WassersteinTransform().__sklearn_tags__().input_tags.pairwise


def test_history():
    D = cloud(21, 12)
    model = WassersteinTransform(0.8, n_iter=2, metric="precomputed", store_history=True).fit(D)
    assert len(model.history_) == 3
    assert_array_equal(model.history_[0], D)
    assert_array_equal(model.history_[1], wasserstein_transform(D, 0.8))
    assert model.history_[2] is model.distances_


def test_float32_comes_back_as_float32():
    X = np.random.default_rng(22).normal(size=(20, 2)).astype(np.float32)
    model = WassersteinTransform(0.8).fit(X)
    assert model.distances_.dtype == np.float32
    assert_allclose(model.distances_, WassersteinTransform(0.8).fit(X.astype(float)).distances_, rtol=1e-6)


def test_what_people_pass():
    X = np.random.default_rng(23).normal(size=(15, 2))
    expected = WassersteinTransform(0.8).fit(X).distances_
    frame = pd.DataFrame(X, columns=["x", "y"])
    assert_array_equal(WassersteinTransform(0.8).fit(frame).distances_, expected)
    D = cdist(X, X)
    precomputed = WassersteinTransform(0.8, metric="precomputed")
    for given_distances in (pd.DataFrame(D), D.tolist(), np.asfortranarray(D), np.repeat(D, 2, axis=1)[:, ::2]):
        assert_array_equal(clone(precomputed).fit(given_distances).distances_, expected)
    model = precomputed.fit(D)
    assert_array_equal(pickle.loads(pickle.dumps(model)).distances_, expected)
    assert_array_equal(WassersteinTransform().fit([[1.0, 2.0]]).distances_, [[0]])


def test_linkage_and_neighbors_graph():
    model = WassersteinTransform(1.0).fit(np.array([[0.0], [1], [2], [7], [8], [30]]))
    W = model.distances()
    assert W is model.distances_
    for method in ("single", "average"):
        assert_array_equal(model.linkage(method), hierarchy.linkage(squareform(W), method))
    graph = model.neighbors_graph(W[0, 2])
    inside = (W / W[0, 2]) ** 2 <= 1 + 1e-9
    assert_array_equal(graph.toarray(), np.where(inside, W, 0))
    assert graph.nnz == inside.sum()
    assert graph.has_sorted_indices
    assert WassersteinTransform().fit([[1.0]]).linkage().shape == (0, 4)
    with pytest.raises(ValueError, match="method='median' must be one of 'single'"):
        model.linkage("median")
    with pytest.raises(ValueError, match="radius=-1 must be a finite number above 0"):
        model.neighbors_graph(-1)


# --- errors -----------------------------------------------------------------------------------------------------------


def changed(*entries):
    D = cloud(24, 5)
    for i, j, value in entries:
        D[i, j] = value
    return D


@pytest.mark.parametrize(
    ("D", "message"),
    [
        (np.zeros((3, 4)), r"X has shape \(3, 4\); it must be the square matrix"),
        (changed((1, 2, 7.0), (2, 1, 8.0)), r"X\[1, 2\]=7 and X\[2, 1\]=8 must be equal; symmetrise"),
        (changed((1, 2, -7.0), (2, 1, -7.0)), r"X\[1, 2\]=-7 must not be negative"),
        (changed((1, 2, np.nan)), r"X\[1, 2\]=nan must be a finite number"),
        (changed((4, 0, np.inf)), r"X\[4, 0\]=inf must be a finite number"),
        (changed((3, 3, 1.0)), r"X\[3, 3\]=1 must be 0"),
    ],
)
def test_a_matrix_that_holds_no_distances_is_refused_in_one_sentence(D, message):
    with pytest.raises(ValueError, match=message) as error:
        WassersteinTransform(1.0, metric="precomputed").fit(D)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=message.replace("X", "distances")):
        wasserstein_transform(D, 1.0)


def test_rounding_is_not_refused():
    D = cloud(24, 8)
    noisy = D * (1 + 1e-12 * np.random.default_rng(0).random(D.shape)) + 1e-14 * np.eye(8)
    W = wasserstein_transform(noisy, 1.0)
    assert_array_equal(W, W.T)
    assert_array_equal(np.diag(W), 0)
    assert_allclose(W, wasserstein_transform(D, 1.0), rtol=1e-10, atol=1e-12)
    assert_allclose(wasserstein_transform(noisy.astype(np.float32), 1.0), W, rtol=1e-5)


@pytest.mark.parametrize("shape", [(0, 0), (4,), (2, 2, 2)])
def test_shapes_that_are_no_matrix(shape):
    with pytest.raises(ValueError, match="must be the square matrix"):
        wasserstein_transform(np.zeros(shape), 1.0)


@pytest.mark.parametrize("D", [np.array([["a", "b"], ["c", "d"]]), np.zeros((2, 2), complex)])
def test_matrices_of_no_numbers(D):
    with pytest.raises(ValueError, match="distances must be real numbers"):
        wasserstein_transform(D, 1.0)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"eps": 0}, ValueError, "eps=0 must be a finite number above 0"),
        ({"eps": -1.0}, ValueError, "eps=-1.0 must be"),
        ({"eps": np.nan}, ValueError, "eps=nan must be"),
        ({"eps": "a"}, TypeError, "eps='a' must be a number"),
        ({"p": 0.5}, ValueError, "p=0.5 must be a finite number of at least 1"),
        ({"p": np.inf}, ValueError, "p=inf must be"),
        ({"p": np.nan}, ValueError, "p=nan must be"),
        ({"p": "2"}, TypeError, "p='2' must be a number"),
        ({"n_iter": -1}, ValueError, "n_iter=-1 must be at least 0"),
        ({"n_iter": 1.5}, TypeError, "n_iter=1.5 must be a whole number"),
        ({"n_jobs": 0}, ValueError, "n_jobs=0 must be"),
    ],
)
def test_parameters_out_of_range(parameters, error, message):
    X = np.arange(6.0).reshape(3, 2)
    with pytest.raises(error, match=message):
        WassersteinTransform(**{"eps": 1.0, **parameters}).fit(X)
    with pytest.raises(error, match=message):
        wasserstein_transform(cdist(X, X), **{"eps": 1.0, **parameters})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -1, 1], r"sample_weight\[1\]=-1.0 must not be negative"),
        ([0, 0, 0], "for every point; at least one weight must be above 0"),
        ([1, np.nan, 1], r"sample_weight\[1\]=nan must be a finite number"),
        ([1, 1], r"sample_weight has shape \(2,\); it must have one weight for each of the 3 points"),
    ],
)
def test_weights_that_are_none(weights, message):
    with pytest.raises(ValueError, match=message):
        WassersteinTransform(1.0).fit(np.arange(6.0).reshape(3, 2), sample_weight=weights)


def test_a_metric_that_is_none():
    with pytest.raises(ValueError, match=r"metric\(X\)\[0, 0\]=-1 must not be negative"):
        WassersteinTransform(1.0, metric=lambda x, y: -1.0).fit(np.arange(6.0).reshape(3, 2))
    with pytest.raises(ValueError, match="metric"):
        WassersteinTransform(1.0, metric="no such metric").fit(np.arange(6.0).reshape(3, 2))


def test_memory_is_checked_before_it_is_taken(monkeypatch):
    monkeypatch.setattr(_shapes, "available_bytes", lambda: 3 * 8 * 10**2)
    X = np.arange(20.0).reshape(10, 2)
    WassersteinTransform(1.0, n_iter=4).fit(X)
    message = "The Wasserstein transform with 7 matrices of 10 x 10 needs 5,600 bytes of memory but 2,400 are available"
    with pytest.raises(MemoryError, match=message):
        WassersteinTransform(1.0, n_iter=4, store_history=True).fit(X)
