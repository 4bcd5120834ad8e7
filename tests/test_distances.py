"""GT distances between Gaussians: dense, condensed, listed, within a radius and nearest, against the definition."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import squareform

from gaussian_transform import _shapes, distances
from gaussian_transform._typing import Gaussians
from gaussian_transform.bures import gaussian_wasserstein
from gaussian_transform.distances import (
    check_memory,
    condensed_gt_distances,
    gt_distances,
    gt_squared_between,
    hellinger_embedding,
    nearest,
    radius_graph,
)

DIMENSIONS = [1, 2, 3, 4, 7]


def make_gaussians(n, m, seed=0, scale=1.0):
    """Points with covariances of every rank, 0 included; the last three are copies of the first."""
    rng = np.random.default_rng(seed)
    covs = np.zeros((n, m, m))
    for i in range(n):
        factor = scale * rng.normal(size=(m, i % (m + 1)))
        covs[i] = factor @ factor.T
    points = scale * rng.normal(size=(n, m))
    points[-3:], covs[-3:] = points[:3], covs[:3]
    return Gaussians(points, covs)


def by_definition(a, lam, b):
    """‖x−x'‖² + λ·(tr A + tr B − 2‖A^½ B^½‖_*), one pair at a time."""

    def root(cov):
        values, vectors = np.linalg.eigh(cov)
        return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T

    out = np.empty((len(a.points), len(b.points)))
    for i, (x, cov) in enumerate(zip(*a, strict=True)):
        for j, (y, cov2) in enumerate(zip(*b, strict=True)):
            nuclear = np.linalg.svd(root(cov) @ root(cov2), compute_uv=False).sum()
            shape = max(np.trace(cov) + np.trace(cov2) - 2.0 * nuclear, 0.0)
            out[i, j] = np.sqrt(np.sum((x - y) ** 2) + lam * shape)
    return out


@pytest.mark.parametrize("m", DIMENSIONS)
@pytest.mark.parametrize("lam", [0.0, 0.3, 1e4])
def test_dense_condensed_and_listed_distances_follow_the_definition(m, lam):
    a, b = make_gaussians(17, m), make_gaussians(9, m, seed=1)
    dense = gt_distances(a, lam)
    np.testing.assert_allclose(dense, by_definition(a, lam, a), atol=1e-6 * np.sqrt(max(lam, 1.0)))
    assert np.array_equal(dense, dense.T)
    assert not np.diagonal(dense).any()
    assert dense[0, -3] == dense[1, -2] == 0.0  # copies
    np.testing.assert_array_equal(squareform(condensed_gt_distances(a, lam)), dense)
    between = gt_distances(a, lam, b)
    np.testing.assert_allclose(between, by_definition(a, lam, b), atol=1e-7 * np.sqrt(max(lam, 1.0)))
    i, j = np.random.default_rng(0).integers(0, 9, size=(2, 50))
    np.testing.assert_allclose(gt_squared_between(a, i, b, j, lam), between[i, j] ** 2, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(gt_squared_between(a, i, None, j, lam), dense[i, j] ** 2, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("m", DIMENSIONS)
def test_lam_zero_is_euclidean_and_lam_one_is_wasserstein(m):
    a = make_gaussians(12, m)
    apart = a.points[:, None] - a.points
    np.testing.assert_allclose(gt_distances(a, 0.0), np.sqrt((apart**2).sum(-1)), rtol=1e-15)
    expected = gaussian_wasserstein(a.points[:, None], a.covariances[:, None], *a)
    np.testing.assert_allclose(gt_distances(a, 1.0), expected, rtol=1e-13)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("exponent", [-500, 500])
def test_scale_of_the_coordinates_changes_no_digit(m, exponent):
    a = make_gaussians(14, m)
    scaled = Gaussians(np.ldexp(a.points, exponent), np.ldexp(a.covariances, 2 * exponent))
    expected = gt_distances(a, 0.7)
    np.testing.assert_array_equal(gt_distances(scaled, 0.7), np.ldexp(expected, exponent))
    radius = np.median(expected)
    graph, scaled_graph = radius_graph(a, 0.7, radius), radius_graph(scaled, 0.7, np.ldexp(radius, exponent))
    np.testing.assert_array_equal(scaled_graph.indices, graph.indices)
    np.testing.assert_array_equal(scaled_graph.data, np.ldexp(graph.data, exponent))
    np.testing.assert_array_equal(nearest(scaled, 0.7, scaled, 3)[1], nearest(a, 0.7, a, 3)[1])
    embedded = hellinger_embedding(scaled, 0.7)
    np.testing.assert_array_equal(embedded, np.ldexp(hellinger_embedding(a, 0.7), exponent))


@pytest.mark.parametrize("m", [2, 3, 4])
def test_lam_and_covariances_may_be_extreme_where_their_product_is_not(m):
    a = make_gaussians(8, m)
    expected = gt_distances(a, 1.0)
    for exponent in (-900, 900):
        scaled = Gaussians(a.points, np.ldexp(a.covariances, exponent))
        np.testing.assert_allclose(gt_distances(scaled, np.ldexp(1.0, -exponent)), expected, rtol=1e-13)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 1.0, 50.0]))
def test_embedding_is_within_root_two(m, seed, lam):
    a = make_gaussians(9, m, seed)
    embedded = hellinger_embedding(a, lam)
    assert embedded.shape == (9, m + m * (m + 1) // 2)
    euclidean = np.linalg.norm(embedded[:, None] - embedded, axis=-1)
    exact = gt_distances(a, lam)
    assert np.all(exact <= euclidean * (1.0 + 1e-12) + 1e-13)
    assert np.all(euclidean <= np.sqrt(2.0) * exact * (1.0 + 1e-12) + 1e-13)


def test_embedding_is_exact_where_covariances_commute():
    rng = np.random.default_rng(0)
    a = Gaussians(rng.normal(size=(6, 3)), np.array([np.diag(values) for values in rng.random((6, 3))]))
    embedded = hellinger_embedding(a, 2.0)
    np.testing.assert_allclose(np.linalg.norm(embedded[:, None] - embedded, axis=-1), gt_distances(a, 2.0), rtol=1e-12)


def check_graph(graph, dense, radius):
    inside = dense**2 <= radius**2 * (1.0 + 1e-9)
    assert graph.shape == dense.shape
    assert graph.nnz == np.count_nonzero(inside)
    rows = np.repeat(np.arange(dense.shape[0]), np.diff(graph.indptr))
    np.testing.assert_array_equal(np.stack([rows, graph.indices]), np.stack(np.nonzero(inside)))
    np.testing.assert_allclose(graph.data, dense[inside], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("m", DIMENSIONS)
@pytest.mark.parametrize("lam", [0.0, 1.0, 30.0])
def test_radius_graph_has_all_pairs_and_no_other(m, lam, monkeypatch):
    monkeypatch.setattr(distances, "_CANDIDATES", 50)
    a, b = make_gaussians(40, m), make_gaussians(23, m, seed=1)
    for other in (None, b):
        dense = gt_distances(a, lam, other)
        for radius in (0.0, np.quantile(dense, 0.1), np.quantile(dense, 0.6), np.inf):
            check_graph(radius_graph(a, lam, radius, other), dense, radius)


def test_radius_graph_of_a_grid_keeps_the_ties():
    """On a grid of thirds most neighbours lie on the sphere itself, up to rounding on either side."""
    points = np.stack(np.meshgrid(*[np.arange(12) / 3.0] * 2), axis=-1).reshape(-1, 2)
    a = Gaussians(points, np.broadcast_to(np.diag([0.5, 0.0]), (144, 2, 2)).copy())
    graph = radius_graph(a, 1.0, 2.0 / 3.0)
    apart = np.rint(3.0 * (points[:, None] - points)).astype(int)
    expected = (apart**2).sum(-1) <= 4
    assert graph.nnz == np.count_nonzero(expected)


def test_radius_graph_of_collapsed_points_takes_little_more_than_itself(monkeypatch):
    monkeypatch.setattr(distances, "_CANDIDATES", 20_000)
    n = 1200
    a = Gaussians(np.ones((n, 2)), np.broadcast_to(np.eye(2), (n, 2, 2)).copy())
    radius_graph(Gaussians(a.points[:9], a.covariances[:9]), 1.0, 0.1)  # compile before measuring
    tracemalloc.start()
    try:
        graph = radius_graph(a, 1.0, 0.1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert graph.nnz == n * n
    assert not graph.data.any()
    assert peak < graph.data.nbytes + graph.indices.nbytes + 4e6


@pytest.mark.parametrize("m", DIMENSIONS)
@pytest.mark.parametrize("lam", [0.0, 1.0, 30.0])
def test_nearest_are_the_first_of_all_sorted(m, lam, monkeypatch):
    monkeypatch.setattr(distances, "_CANDIDATES", 50)
    a, queries = make_gaussians(40, m), make_gaussians(15, m, seed=1)
    dense = gt_distances(queries, lam, a)
    for k in (1, 6, 40):
        found, indices = nearest(a, lam, queries, k)
        assert found.shape == indices.shape == (15, k)
        np.testing.assert_allclose(found, np.sort(dense, axis=1)[:, :k], rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(found, np.take_along_axis(dense, indices, axis=1), rtol=1e-13, atol=1e-14)
        assert np.all(np.diff(found, axis=1) >= 0.0)


def test_nearest_of_equals_is_the_first():
    a = Gaussians(np.repeat([[0.0, 0.0], [1.0, 0.0]], 5, axis=0), np.zeros((10, 2, 2)))
    found, indices = nearest(a, 1.0, Gaussians(np.array([[0.5, 0.0]]), np.zeros((1, 2, 2))), 4)
    np.testing.assert_array_equal(indices, [[0, 1, 2, 3]])
    np.testing.assert_array_equal(found, 0.5)
    for k in (0, 11):
        with pytest.raises(ValueError, match=f"k must be from 1 to the number of Gaussians 10 but is {k}"):
            nearest(a, 1.0, a, k)


@pytest.mark.parametrize("m", [2, 5])
def test_truncated_trace_is_used_everywhere(m):
    a = make_gaussians(20, m)
    dense = gt_distances(a, 1.0, n_eig=1)
    assert np.any(dense > 1.01 * gt_distances(a, 1.0))
    np.testing.assert_array_equal(squareform(condensed_gt_distances(a, 1.0, n_eig=1)), dense)
    radius = np.quantile(dense, 0.4)
    check_graph(radius_graph(a, 1.0, radius, n_eig=1), dense, radius)
    np.testing.assert_allclose(nearest(a, 1.0, a, 5, n_eig=1)[0], np.sort(dense, axis=1)[:, :5], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("m", [2, 3, 6])
def test_number_of_threads_does_not_change_a_bit(m):
    a = make_gaussians(60, m)
    np.testing.assert_array_equal(gt_distances(a, 1.0, n_jobs=1), gt_distances(a, 1.0, n_jobs=3))
    one, three = (radius_graph(a, 1.0, 2.0, n_jobs=n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(one.data, three.data)
    np.testing.assert_array_equal(one.indices, three.indices)


@pytest.mark.parametrize("m", [1, 3, 5])
def test_sets_of_none_and_one(m):
    one, none = (Gaussians(np.ones((n, m)), np.zeros((n, m, m))) for n in (1, 0))
    assert gt_distances(one, 1.0).tolist() == [[0.0]]
    assert gt_distances(none, 1.0, one).shape == (0, 1)
    assert condensed_gt_distances(one, 1.0).shape == (0,)
    assert radius_graph(one, 1.0, 0.0).toarray().tolist() == [[0.0]]
    assert radius_graph(one, 1.0, 1.0, none).shape == (1, 0)
    assert nearest(one, 1.0, one, 1)[1].tolist() == [[0]]
    assert hellinger_embedding(none, 1.0).shape == (0, m + m * (m + 1) // 2)


def test_what_does_not_fit_into_memory_is_refused_with_the_numbers(monkeypatch):
    huge = Gaussians(np.broadcast_to(0.0, (10**8, 2)), np.broadcast_to(0.0, (10**8, 2, 2)))
    for compute in (gt_distances, condensed_gt_distances):
        with pytest.raises(
            MemoryError, match=r"needs [\d,]+ bytes of memory but [\d,]+ are available; use neighbors_gra"
        ):
            compute(huge, 1.0)
    a = make_gaussians(20, 2)
    monkeypatch.setattr(_shapes, "available_bytes", lambda: 1200)
    with pytest.raises(MemoryError, match="graph of up to 400 pairs within radius inf needs 4,800 bytes"):
        radius_graph(a, 1.0, np.inf)
    check_memory(1200, "nothing", "do nothing")
    monkeypatch.setattr(_shapes, "available_bytes", lambda: None)
    check_memory(2**80, "a system that tells nothing", "hope")


def test_available_memory_is_a_sensible_number():
    available = _shapes.available_bytes()
    assert available is None or 2**20 < available < 2**60
