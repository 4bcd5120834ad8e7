"""Many dimensions: covariances kept as factors give what dense ones give, at a cost by rank."""

import numpy as np
import pytest
from scipy.spatial.distance import squareform

import gaussian_transform as gt
import naive
from gaussian_transform import local_gaussians
from gaussian_transform._typing import Factors


def clusters(seed, n, m, n_clusters=4):
    """Return points in a few clusters of different thin shapes, and a radius that holds part of a cluster."""
    rng = np.random.default_rng(seed)
    centers = 3.0 * rng.normal(size=(n_clusters, m)) / np.sqrt(m)
    axes = rng.normal(size=(n_clusters, 3, m)) / np.sqrt(m)
    kind = rng.integers(n_clusters, size=n)
    X = centers[kind] + np.einsum("nk,nkm->nm", rng.normal(size=(n, 3)), axes[kind]) + 0.02 * rng.normal(size=(n, m))
    return X, 1.2


@pytest.mark.parametrize("m", [9, 12, 50])
@pytest.mark.parametrize(("n_iter", "n_eig"), [(0, None), (1, None), (2, None), (1, 2)])
def test_factors_agree_with_the_oracle(m, n_iter, n_eig):
    X, eps = clusters(m, 40, m)
    weights = np.random.default_rng(1).random(40)
    weights[::7] = 0.0
    states = naive.gaussian_transform(X, eps, 2.0, n_iter, weights=weights, n_eig=n_eig)
    assert all(naive.is_decided(state.distances, eps) for state in states)
    model = gt.GaussianTransform(eps, 2.0, n_iter=n_iter, n_eig=n_eig).fit(X, sample_weight=weights)
    np.testing.assert_allclose(model.points_, states[-1].points, rtol=0, atol=1e-9 * eps)
    np.testing.assert_allclose(model.covariances_, states[-1].covariances, rtol=0, atol=1e-9 * eps**2)
    np.testing.assert_allclose(model.distances(), states[-1].distances, rtol=0, atol=1e-7 * eps)
    np.testing.assert_allclose(model.transform(X), model.points_, rtol=0, atol=1e-12)


@pytest.mark.parametrize("m", [9, 12, 30])
def test_dense_matrices_and_factors_give_the_same(monkeypatch, m):
    X, eps = clusters(3, 80, m)
    factored = gt.GaussianTransform(eps, 3.0, n_iter=2).fit(X)
    assert isinstance(factored.factors_, Factors)
    monkeypatch.setattr(local_gaussians, "takes_factors", lambda *_: False)
    dense = gt.GaussianTransform(eps, 3.0, n_iter=2).fit(X)
    np.testing.assert_allclose(factored.points_, dense.points_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(factored.covariances_, dense.covariances_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(factored.distances(), dense.distances(), rtol=0, atol=1e-7 * eps)
    np.testing.assert_allclose(factored.linkage()[:, 2], dense.linkage()[:, 2], rtol=0, atol=1e-7 * eps)


@pytest.mark.parametrize("base", ["euclidean", "metric"])
@pytest.mark.parametrize("lam", [0.3, 5.0])
def test_nearest_neighbours_are_those_of_the_full_matrix(base, lam):
    X, eps = clusters(5, 120, 60)
    metric = "manhattan" if base == "metric" else "euclidean"
    eps = 6.0 if base == "metric" else eps
    model = gt.GaussianTransform(eps, lam, n_iter=1, metric=metric, base=base).fit(X)
    D = model.distances()
    np.fill_diagonal(D, np.inf)
    distances, indices = model.kneighbors(n_neighbors=6)
    np.testing.assert_allclose(distances, np.sort(D, axis=1)[:, :6], rtol=0, atol=1e-7 * eps)
    np.testing.assert_allclose(np.take_along_axis(D, indices, axis=1), distances, rtol=0, atol=1e-7 * eps)


def test_single_linkage_and_neighbours_graph_are_those_of_the_full_matrix():
    X, eps = clusters(7, 100, 40)
    model = gt.GaussianTransform(eps, 2.0).fit(X)
    D = model.distances()
    heights = naive.single_linkage_heights(D)
    np.testing.assert_allclose(model.linkage()[:, 2], heights, rtol=0, atol=1e-7 * eps)
    graph = model.neighbors_graph(eps).toarray()
    is_inside = eps >= D
    np.testing.assert_array_equal(graph > 0, is_inside & (D > 0))
    np.testing.assert_allclose(graph[is_inside], D[is_inside], rtol=0, atol=1e-7 * eps)
    assert squareform(D, checks=True).shape == (100 * 99 // 2,)


def test_a_hundred_thousand_dimensions():
    rng = np.random.default_rng(0)
    m = 100_000
    basis = rng.normal(size=(3, m)) / np.sqrt(m)
    X = rng.normal(size=(30, 3)) @ basis  # isometric, nearly, to points in space
    model = gt.GaussianTransform(1.5, 2.0, n_iter=1).fit(X)
    gram_root = np.linalg.cholesky(basis @ basis.T)
    low = gt.GaussianTransform(1.5, 2.0, n_iter=1).fit(X @ np.linalg.pinv(basis) @ gram_root)
    np.testing.assert_allclose(model.distances(), low.distances(), rtol=0, atol=1e-6)
    with pytest.raises(MemoryError, match=r"bytes.*factors_"):
        _ = model.covariances_


def test_clustering_in_many_dimensions():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(size=(40, 200)) * 0.05, 3.0 + rng.normal(size=(40, 200)) * 0.05])
    model = gt.GaussianTransformClustering(1.2, 1.0, n_clusters=2).fit(X)
    assert sorted(np.bincount(model.labels_)) == [40, 40]
    np.testing.assert_array_equal(model.predict(X), model.labels_)
