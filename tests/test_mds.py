"""Multidimensional scaling: exact for Euclidean distances, lower in stress by majorisation, the same every time."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import gaussian_transform as gt
from gaussian_transform.mds import multidimensional_scaling


def stress(distances, points):
    return np.sum((distances - cdist(points, points)) ** 2)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("method", ["classical", "smacof"])
def test_euclidean_distances_come_back(method, scale):
    X = np.random.default_rng(0).random((30, 3))
    D = cdist(X, X)
    points = multidimensional_scaling(D * scale, 3, method)
    np.testing.assert_allclose(cdist(points / scale, points / scale), D, atol=1e-9)


def test_classical_axes_are_principal_axes():
    X = np.random.default_rng(1).normal(size=(50, 3)) * [5.0, 2.0, 0.5]
    points = multidimensional_scaling(cdist(X, X), 2)
    left, values, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.abs(points), np.abs(left[:, :2] * values[:2]), atol=1e-9)


def test_majorisation_lowers_the_stress_of_a_metric_that_is_not_euclidean():
    D = gt.GaussianTransform(eps=10, lam=5, n_iter=1).fit(gt.datasets.make_t_junction().points[::4]).distances()
    classical, smacof = (multidimensional_scaling(D, 2, method) for method in ("classical", "smacof"))
    assert stress(D, smacof) < 0.9 * stress(D, classical)
    np.testing.assert_array_equal(multidimensional_scaling(D, 2, "smacof"), smacof)


def test_few_points_and_points_in_one_place():
    assert multidimensional_scaling(np.zeros((1, 1)), 2).tolist() == [[0.0, 0.0]]
    assert multidimensional_scaling(np.zeros((3, 3)), 3, "smacof").tolist() == [[0.0] * 3] * 3
    pair = multidimensional_scaling(np.array([[0.0, 2.0], [2.0, 0.0]]), 3)
    np.testing.assert_allclose(pair, [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], atol=1e-7)


@pytest.mark.parametrize(
    "model", [gt.GaussianTransform(eps=1.5), gt.MeanShiftTransform(eps=1.5), gt.WassersteinTransform(eps=1.5)]
)
def test_every_transform_offers_it(model):
    X = np.random.default_rng(2).random((25, 2)) * 4
    fitted = model.fit(X)
    assert fitted.mds(3, "smacof").shape == (25, 3)
    np.testing.assert_array_equal(fitted.mds(), multidimensional_scaling(fitted.distances(), 2))


@pytest.mark.parametrize(
    ("options", "part"), [({"n_components": 0}, "n_components=0"), ({"method": "tsne"}, "method='tsne'")]
)
def test_errors_name_the_parameter(options, part):
    with pytest.raises(ValueError, match=part):
        multidimensional_scaling(np.zeros((3, 3)), **options)
