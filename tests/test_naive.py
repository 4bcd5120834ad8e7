"""The oracle against closed forms worked out by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import naive


def test_bures_in_one_dimension_is_the_difference_of_standard_deviations():
    assert naive.bures_squared(np.array([[9.0]]), np.array([[4.0]])) == pytest.approx(1.0, abs=1e-14)


def test_bures_of_commuting_matrices_is_the_distance_of_their_roots():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    a, b = np.array([4.0, 1.0, 0.25, 9.0]), np.array([1.0, 1.0, 4.0, 2.25])
    expected = ((np.sqrt(a) - np.sqrt(b)) ** 2).sum()
    A, B = (Q * a) @ Q.T, (Q * b) @ Q.T
    assert naive.bures_squared(A, B) == pytest.approx(expected, rel=1e-13)
    assert naive.bures_squared_mp(A, B) == pytest.approx(expected, rel=1e-13)
    assert naive.bures_squared_of_factors(Q * np.sqrt(a), Q * np.sqrt(b)) == pytest.approx(expected, rel=1e-13)


def test_bures_of_two_lines_depends_on_their_angle():
    u, v = np.array([2.0, 0.0]), np.array([1.0, -1.0])
    A, B = np.outer(u, u), np.outer(v, v)
    expected = 4 + 2 - 2 * 2
    assert naive.bures_squared(A, B) == pytest.approx(expected, abs=1e-7)
    assert naive.bures_squared_mp(A, B) == pytest.approx(expected, rel=1e-14)
    assert naive.bures_squared_of_factors(u[:, None], v[:, None]) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_three_ways_to_the_bures_distance_agree(rank):
    rng = np.random.default_rng(rank)
    F, G = rng.normal(size=(2, 5, rank))
    expected = naive.bures_squared_mp(F @ F.T, G @ G.T)
    assert naive.bures_squared(F @ F.T, G @ G.T) == pytest.approx(expected, abs=1e-6)
    assert naive.bures_squared_of_factors(F, G) == pytest.approx(expected, abs=1e-6)


def test_factors_of_one_covariance_are_at_distance_zero():
    rng = np.random.default_rng(3)
    F = rng.normal(size=(3, 3))
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert naive.bures_squared_of_factors(F, F @ Q) < 1e-29


def test_small_bures_distances_keep_their_digits():
    a, b = np.diag([1.0, 1e-3]), np.diag([1.0 + 2e-9, 1e-3])
    expected = (np.sqrt(1 + 2e-9) - 1) ** 2
    assert naive.bures_squared_of_factors(np.sqrt(a), np.sqrt(b)) == pytest.approx(expected, rel=1e-6)
    assert naive.bures_squared_mp(a, b) == pytest.approx(expected, rel=1e-6)


def test_high_precision_refuses_an_indefinite_matrix():
    good, bad = np.eye(2), np.diag([1.0, -1e-6])
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(ValueError, match="not positive semi-definite"):
            naive.bures_squared_mp(*pair)


def test_truncated_trace():
    A, B = np.diag([4.0, 1.0]), np.diag([4.0, 4.0])
    assert naive.bures_squared(A, B, n_eig=1) == pytest.approx(5 + 8 - 2 * 4)
    assert naive.bures_squared(A, B, n_eig=2) == pytest.approx(naive.bures_squared(A, B))
    assert naive.bures_squared(A, A.copy(), n_eig=1) == 0
    assert naive.truncated_bures_squared_of_factors(np.sqrt(A), np.sqrt(B), 1) == pytest.approx(5)


def test_two_points_meet_in_the_middle():
    start, end = naive.gaussian_transform(np.array([[0.0], [1.0]]), eps=1, lam=1, n_iter=1)
    assert_allclose(start.covariances.ravel(), [0.25, 0.25])
    assert_allclose(start.distances, [[0, 1], [1, 0]])
    assert_allclose(end.points.ravel(), [0.5, 0.5])
    assert_allclose(end.covariances, 0, atol=1e-30)
    assert_allclose(end.distances, 0, atol=1e-15)


def test_chain_of_three_is_cut_and_then_forgets_its_covariances():
    """D⁰(0,1)² = 1 + λ(√⅔ − ½)² > eps², so the balls of D⁰ are single points: Σ¹ = 0 and D¹ is Euclidean again."""
    lam = 2.0
    states = naive.gaussian_transform(np.array([[0.0], [1.0], [2.0]]), eps=1, lam=lam, n_iter=2)
    assert_allclose(states[0].covariances.ravel(), [1 / 4, 2 / 3, 1 / 4])
    assert states[0].distances[0, 1] == pytest.approx(np.sqrt(1 + lam * (np.sqrt(2 / 3) - 0.5) ** 2))
    assert states[0].distances[0, 2] == pytest.approx(2)
    assert_allclose(states[1].points.ravel(), [0, 1, 2])
    assert_allclose(states[1].covariances, 0, atol=1e-30)
    assert_allclose(states[1].distances, [[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    assert_allclose(states[2].points.ravel(), [0.5, 1, 1.5])
    # the new points over the old balls: {0.5, 1}, {0.5, 1, 1.5}, {1, 1.5}
    assert_allclose(states[2].covariances.ravel(), [1 / 16, 1 / 6, 1 / 16])


def test_weights_and_massless_points():
    X = np.array([[0.0], [1.0], [5.0], [0.5]])
    end = naive.gaussian_transform(X, eps=1, lam=0, n_iter=1, weights=[1, 3, 0, 0])[1]
    assert_allclose(end.points.ravel(), [0.75, 0.75, 5, 0.75])
    start = naive.gaussian_transform(X, eps=1, lam=0, n_iter=0, weights=[1, 3, 0, 0])[0]
    assert_allclose(start.covariances.ravel(), [3 / 16, 3 / 16, 0, 3 / 16])


def test_smooth_kernel_weighs_by_the_profile():
    state, moved = naive.gaussian_transform(
        np.array([[0.0], [2.0]]), eps=2, lam=7, n_iter=1, profile=lambda r: np.exp(-r / 2)
    )
    share = np.exp(-0.5) / (1 + np.exp(-0.5))
    assert_allclose(state.covariances.ravel(), 4 * share * (1 - share))
    assert_allclose(moved.points.ravel(), [2 * share, 2 * (1 - share)])
    assert_allclose(moved.covariances.ravel(), (2 - 4 * share) ** 2 * share * (1 - share))


def test_far_origin_changes_positions_only():
    rng = np.random.default_rng(4)
    X = np.round(rng.normal(size=(30, 2)) * 2**20) / 2**20  # exact after the shift
    near = naive.gaussian_transform(X, 0.8, 2.0, 2)
    far = naive.gaussian_transform(X + 2.0**27, 0.8, 2.0, 2)
    assert naive.is_decided(near[0].distances, 0.8)
    for a, b in zip(near, far, strict=True):
        assert_allclose(b.distances, a.distances, rtol=0, atol=1e-12)
        assert_allclose(b.points - 2.0**27, a.points, rtol=0, atol=2.0**-25)


def test_metric_of_the_user_gives_the_first_balls():
    X = np.array([[0.0], [1.0], [10.0]])
    D = np.array([[0, 5, 1], [5, 0, 5], [1, 5, 0]], dtype=float)
    euclidean = naive.gaussian_transform(X, 1, 4.0, 0, metric_distances=D)[0]
    assert_allclose(euclidean.covariances.ravel(), [25, 0, 25])
    assert_allclose(euclidean.distances[0], [0, np.sqrt(1 + 4 * 25), 10])
    metric = naive.gaussian_transform(X, 1, 4.0, 0, metric_distances=D, base="metric")[0]
    assert_allclose(metric.distances[0], [0, np.sqrt(25 + 4 * 25), 1])


def test_metric_of_coordinates_moves_with_the_points():
    """Cosines from the origin: (2, 0) joins (1, 0), and with base="metric" their distance stays 0."""

    def cosine(points):
        unit = points / np.linalg.norm(points, axis=1, keepdims=True)
        return 1 - unit @ unit.T

    X = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    start, end = naive.gaussian_transform(X, 0.5, 0.01, 1, metric_distances=cosine, base="metric")
    assert_allclose(start.covariances[:, 0, 0], [0.25, 0.25, 0])
    assert_allclose(start.distances[0], [0, 0, np.sqrt(1 + 0.01 * 0.25)], atol=1e-15)
    assert_allclose(end.points, [[1.5, 0], [1.5, 0], [0, 3]])


def test_travel_carries_training_points_where_they_went():
    X = np.random.default_rng(5).normal(size=(25, 2))
    fitted = naive.gaussian_transform(X, 1.1, 3.0, 3)
    for state, (points, covariances) in zip(fitted, naive.travel(X, X, 1.1, 3.0, 3), strict=True):
        assert_allclose(points, state.points, rtol=0, atol=1e-14)
        assert_allclose(covariances, state.covariances, rtol=0, atol=1e-14)


def test_travel_of_unseen_points():
    X = np.array([[0.0], [1.0]])
    states = naive.travel(np.array([[0.4], [9.0]]), X, eps=1, lam=1, n_iter=1)
    assert_allclose(states[0][1].ravel(), [0.25, 0])
    assert_allclose(states[1][0].ravel(), [0.5, 9])
    assert_allclose(states[1][1].ravel(), [0, 0], atol=1e-30)


def test_mean_shift_by_hand_and_as_the_member_without_covariances():
    chain = np.array([[0.0], [1.0], [2.0]])
    assert_allclose(naive.mean_shift(chain, 1, 1)[1].ravel(), [0.5, 1, 1.5])
    X = np.random.default_rng(6).normal(size=(40, 3))
    for state, points in zip(naive.gaussian_transform(X, 1.0, 0.0, 3), naive.mean_shift(X, 1.0, 3), strict=True):
        assert_allclose(state.points, points, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("p", "near"), [(1, 0.5), (2, np.sqrt(0.5))])
def test_wasserstein_transform_of_a_chain(p, near):
    D = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    assert_allclose(
        naive.wasserstein_transform(D, 1, p, 1)[1], [[0, near, 1], [near, 0, near], [1, near, 0]], atol=1e-12
    )


def test_single_linkage_heights_of_a_line():
    x = np.array([3.0, 0.0, 7.0, 1.0])
    assert_allclose(naive.single_linkage_heights(np.abs(np.subtract.outer(x, x))), [1, 2, 4])


def test_exact_ties_are_decided_and_near_ones_are_not():
    assert naive.is_decided(np.array([0.0, 1.0, 1.1]), 1.0)
    assert not naive.is_decided(np.array([0.0, 1.0 + 1e-10]), 1.0)
