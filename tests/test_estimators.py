"""The estimators as users meet them: scikit-learn's rules, every kind of input, what a fit tells, and bad input."""

import functools
import os
import pickle
import re
import subprocess
import sys

import joblib
import numba
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.cluster import hierarchy
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gaussian_transform as gt
from gaussian_transform import datasets

TRANSFORMS = [gt.GaussianTransform, gt.MeanShiftTransform]
ESTIMATORS = [*TRANSFORMS, gt.GaussianTransformClustering]


def blobs(seed=0, n=90, m=2, n_blobs=3):
    """Blobs of the same size with their labels, far enough apart to be told."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_blobs
    centres = 4.0 * np.eye(max(m, n_blobs))[:n_blobs, :m] if m > 1 else 4.0 * np.arange(n_blobs)[:, None]
    return centres[y] + 0.5 * rng.normal(size=(n, m)), y


def exp_minus(r):
    return np.exp(-r)


@numba.njit
def numba_exp_minus(r):
    return np.exp(-r)


# --- scikit-learn's own checks ----------------------------------------------------------------------------------------


@parametrize_with_checks([estimator() for estimator in ESTIMATORS])
def test_scikit_learn(estimator, check):
    """None of them is expected to fail; the one that scikit-learn skips here is run by the test below."""
    check(estimator)


def test_scikit_learn_array_api():
    """Needs a switch in the environment before SciPy is imported."""
    script = """
import gaussian_transform as gt
from sklearn.utils.estimator_checks import estimator_checks_generator
for estimator in gt.GaussianTransform(), gt.MeanShiftTransform(), gt.GaussianTransformClustering():
    for model, check in estimator_checks_generator(estimator):
        if "array_api" in getattr(check, "func", check).__name__:
            check(model)
            print("checked")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "SCIPY_ARRAY_API": "1"}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("checked") >= 3


# --- data frames, pickles, pipelines, searches ------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", TRANSFORMS)
def test_data_frames_in_and_out(estimator):
    X, _ = blobs()
    frame = pd.DataFrame(X, columns=["width", "height"], index=[f"row {i}" for i in range(len(X))])
    plain = estimator(1.0, n_iter=2)
    told = estimator(1.0, n_iter=2).set_output(transform="pandas")
    cleaned = told.fit_transform(frame)
    assert list(cleaned.columns) == list(told.get_feature_names_out()) == ["width", "height"]
    assert list(told.feature_names_in_) == ["width", "height"]
    assert list(cleaned.index) == list(frame.index)
    assert_array_equal(cleaned.to_numpy(), plain.fit_transform(X))
    moved = told.transform(frame.iloc[:5])
    assert list(moved.columns) == ["width", "height"]
    assert_array_equal(moved.to_numpy(), plain.transform(X[:5]))
    assert isinstance(told.points_, np.ndarray)
    with pytest.raises(ValueError, match="feature names"):
        told.transform(frame[["height", "width"]])


def test_feature_names_without_a_frame():
    X, _ = blobs()
    assert list(gt.GaussianTransform(1.0).fit(X).get_feature_names_out()) == ["x0", "x1"]


def test_clustering_of_data_frames():
    X, _ = blobs()
    frame = pd.DataFrame(X, columns=["width", "height"])
    model = gt.GaussianTransformClustering(1.0).fit(frame)
    assert_array_equal(model.labels_, gt.GaussianTransformClustering(1.0).fit(X).labels_)
    assert_array_equal(model.predict(frame), model.labels_)
    assert list(model.feature_names_in_) == ["width", "height"]


@pytest.mark.parametrize("kernel", ["truncated", "gaussian", "cauchy", exp_minus, numba_exp_minus])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_fitted_estimators_pickle(estimator, kernel):
    X, _ = blobs(n=30)
    model = estimator(1.0, n_iter=2, kernel=kernel).fit(X)
    again = pickle.loads(pickle.dumps(model))
    grown = X[:7] + 0.1
    if estimator is gt.GaussianTransformClustering:
        assert_array_equal(again.labels_, model.labels_)
        assert_array_equal(again.predict(grown), model.predict(grown))
    else:
        assert_array_equal(again.points_, model.points_)
        assert_array_equal(again.transform(grown), model.transform(grown))
        assert_array_equal(again.distances(), model.distances())


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_clones_have_the_parameters_and_nothing_else(estimator):
    model = estimator(0.7, n_iter=3, kernel="cauchy", merge=False, tol=0.1, n_jobs=1).fit(blobs(n=20)[0])
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert [name for name in vars(copy) if name.endswith("_") or name.startswith("_")] == []


def test_pipeline_hands_on_weights():
    X, _ = blobs()
    weights = np.arange(len(X)) % 4.0
    pipeline = make_pipeline(StandardScaler(), gt.GaussianTransform(0.4))
    told = pipeline.fit(X, gaussiantransform__sample_weight=weights)[-1].points_
    alone = gt.GaussianTransform(0.4).fit(StandardScaler().fit_transform(X), sample_weight=weights)
    assert_array_equal(told, alone.points_)


def test_search_over_a_clustering_in_a_pipeline():
    X, y = blobs()
    pipeline = Pipeline([("scale", StandardScaler()), ("cluster", gt.GaussianTransformClustering(n_iter=2))])
    search = GridSearchCV(
        pipeline,
        {"cluster__eps": [0.01, 0.5, 10.0]},
        scoring=lambda model, X, y: adjusted_rand_score(y, model.predict(X)),
        cv=3,
        error_score="raise",
    ).fit(X, y)
    assert search.best_params_ == {"cluster__eps": 0.5}
    assert search.best_score_ == 1.0
    assert_array_equal(search.predict(X), search.best_estimator_[-1].labels_)


def test_search_over_a_transform_before_a_classifier():
    X, y = blobs()
    pipeline = make_pipeline(gt.GaussianTransform(n_iter=2), KNeighborsClassifier(3))
    search = GridSearchCV(
        pipeline,
        {"gaussiantransform__eps": [0.5, 50.0], "gaussiantransform__lam": [0.0, 1.0]},
        cv=3,
        error_score="raise",
    )
    with joblib.parallel_backend("threading", n_jobs=4):
        search.fit(X, y)
    assert search.best_params_["gaussiantransform__eps"] == 0.5
    assert search.best_score_ == 1.0


# --- kinds of arrays --------------------------------------------------------------------------------------------------


@pytest.fixture
def read_only_map(tmp_path):
    X, _ = blobs()
    path = tmp_path / "points.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    yield mapped
    mapped._mmap.close()


def test_layouts_give_the_same_bits(read_only_map):
    X, _ = blobs()
    wide = np.zeros((2 * len(X), 5))
    wide[::2, 1:5:2] = X
    read_only = X.copy()
    read_only.setflags(write=False)
    for estimator in TRANSFORMS:
        expected = estimator(1.0, n_iter=2).fit(X)
        for other in (np.asfortranarray(X), read_only_map, wide[::2, 1:5:2], X[::-1][::-1], X.tolist(), read_only):
            model = estimator(1.0, n_iter=2).fit(other)
            assert_array_equal(model.points_, expected.points_)
            assert_array_equal(model.covariances_, expected.covariances_)
            assert_array_equal(model.transform(other), expected.transform(X))


def test_fit_leaves_its_input_alone():
    X, _ = blobs()
    weights = np.arange(1.0, len(X) + 1)
    before, weights_before = X.copy(), weights.copy()
    model = gt.GaussianTransform(1.0, n_iter=2).fit(X, sample_weight=weights)
    model.points_[:] = 0
    model.transform(X)
    gt.GaussianTransformClustering(1.0).fit(X, sample_weight=weights).predict(X)
    assert_array_equal(X, before)
    assert_array_equal(weights, weights_before)


def test_a_fit_does_not_change_with_its_input_afterwards():
    X, _ = blobs()
    model = gt.GaussianTransform(1.0, n_iter=2, store_history=True).fit(X)
    grown = X + 0.05
    expected = model.transform(grown)
    X[:] = -100.0
    model.points_[:] = 7.0
    model.covariances_[:] = 7.0
    assert_array_equal(model.transform(grown), expected)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, np.bool_, np.float16])
def test_whole_numbers_are_taken_as_float64(dtype):
    X = (np.arange(24).reshape(12, 2) % 7).astype(dtype)
    model = gt.GaussianTransform(1.5).fit(X)
    assert model.points_.dtype == np.float64
    assert_array_equal(model.points_, gt.GaussianTransform(1.5).fit(X.astype(np.float64)).points_)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_float32_in_and_out(m):
    """Computed in double precision from the single-precision points: only the answer is rounded."""
    X = blobs(m=m)[0].astype(np.float32)
    model = gt.GaussianTransform(1.0, n_iter=2, store_history=True).fit(X)
    double = gt.GaussianTransform(1.0, n_iter=2).fit(X.astype(np.float64))
    assert_array_equal(model.points_, double.points_.astype(np.float32))
    assert_array_equal(model.covariances_, double.covariances_.astype(np.float32))
    told = (
        model.points_, model.covariances_, model.transform(X), model.distances(), model.embedding(),
        model.neighbors_graph().data, model.fit_transform(X), *model.history_[1],
    )  # fmt: skip
    assert {array.dtype for array in told} == {np.dtype(np.float32)}
    assert_allclose(model.distances(), double.distances(), rtol=1e-6, atol=1e-6)
    assert model.transform(X.astype(np.float64)).dtype == np.float64


# --- small and degenerate clouds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("eps", [None, 0.5])
def test_one_point(eps, m):
    X = np.full((1, m), 0.1)
    for estimator in TRANSFORMS:
        model = estimator(eps, n_iter=3).fit(X)
        assert_array_equal(model.points_, X)
        assert_array_equal(model.covariances_, 0)
        assert_array_equal(model.distances(), [[0]])
        assert model.linkage().shape == (0, 4)
        assert model.linkage("average").shape == (0, 4)
        assert_array_equal(model.transform(X), X)
    clusters = gt.GaussianTransformClustering(eps).fit(X)
    assert_array_equal(clusters.labels_, [0])
    assert_array_equal(clusters.predict(X + 9), [0])
    assert clusters.n_clusters_ == 1


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_two_points(m):
    X = np.zeros((2, m))
    X[1, 0] = 1.0
    together = gt.GaussianTransform(1.0).fit(X)
    assert_array_equal(together.points_[:, 0], [0.5, 0.5])
    apart = gt.GaussianTransform(0.999).fit(X)
    assert_array_equal(apart.points_, X)
    assert gt.GaussianTransform().fit(X).eps_ == 1.0
    assert_array_equal(gt.GaussianTransformClustering(1.0).fit(X).labels_, [0, 0])
    assert gt.GaussianTransformClustering(0.999).fit(X).n_clusters_ == 2


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("merge", [True, False])
def test_copies_only(merge, m):
    X = np.full((9, m), 0.1)
    for eps in (None, 0.3):
        model = gt.GaussianTransform(eps, n_iter=2, merge=merge).fit(X)
        assert_array_equal(model.points_, X)
        assert_array_equal(model.covariances_, 0)
        assert_array_equal(model.distances(), 0)
        assert_array_equal(model.linkage()[:, 2], 0)
    clusters = gt.GaussianTransformClustering(0.3).fit(X)
    assert_array_equal(clusters.labels_, 0)
    assert_array_equal(clusters.predict(X), 0)


@pytest.mark.parametrize("kernel", ["truncated", "gaussian"])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_isolated_points_stay_to_the_bit(m, kernel):
    """Not moved by so much as the rounding of a change of units."""
    rng = np.random.default_rng(m)
    X = rng.normal(size=(20, m))
    X[::4] += 1e3 * (1 + np.arange(5))[:, None]
    for estimator in TRANSFORMS:
        model = estimator(0.37, n_iter=3, kernel=kernel).fit(X)
        assert_array_equal(model.points_[::4], X[::4])
        assert_array_equal(model.covariances_[::4], 0)
        assert_array_equal(model.transform(X[::4]), X[::4])
    lonely = X[:1] + 1e7 / 3
    assert_array_equal(model.transform(lonely), lonely)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_no_iterations_return_the_input_to_the_bit(m, dtype):
    X = (blobs(m=m)[0] * np.pi + 1e5 / 3).astype(dtype)
    model = gt.GaussianTransform(4.0, n_iter=0).fit(X)
    assert_array_equal(model.points_, X)
    assert_array_equal(model.transform(X), X)
    assert_array_equal(model.transform(X + 1), X + 1)
    assert model.n_iter_ == 0
    assert model.covariances_.any()


def test_copies_are_weights():
    X, _ = blobs(n=40)
    counts = 1 + np.arange(40) % 3
    which = np.repeat(np.arange(40), counts)
    for estimator in TRANSFORMS:
        for kernel in ("truncated", "gaussian"):
            weighted = estimator(None, n_iter=2, kernel=kernel).fit(X, sample_weight=counts)
            copied = estimator(None, n_iter=2, kernel=kernel).fit(X[which])
            assert copied.eps_ == weighted.eps_
            assert_allclose(copied.points_, weighted.points_[which], rtol=0, atol=1e-12)
            assert_allclose(copied.covariances_, weighted.covariances_[which], rtol=0, atol=1e-12)
    clusters = gt.GaussianTransformClustering(0.6).fit(X, sample_weight=counts)
    assert_array_equal(gt.GaussianTransformClustering(0.6).fit(X[which]).labels_, clusters.labels_[which])


@pytest.mark.parametrize("factor", [1e-300, 3.0, 1e300])
def test_only_ratios_of_weights_count(factor):
    X, _ = blobs(n=40)
    weights = 2.0 ** (np.arange(40) % 5)
    model = gt.GaussianTransform(1.0).fit(X, sample_weight=weights)
    assert_allclose(gt.GaussianTransform(1.0).fit(X, sample_weight=factor * weights).points_, model.points_, rtol=1e-13)
    assert_allclose(gt.GaussianTransform(1.0).fit(X, sample_weight=7).points_, gt.GaussianTransform(1.0).fit(X).points_)


def test_points_of_no_mass_do_not_choose_the_radius():
    X, _ = blobs(n=60)
    far = np.vstack([X, 1e6 * np.arange(1, 61)[:, None] * np.ones(2)])
    weights = np.repeat([1.0, 0.0], 60)
    assert gt.GaussianTransform().fit(far, sample_weight=weights).eps_ == gt.GaussianTransform().fit(X).eps_


# --- what a fit tells -------------------------------------------------------------------------------------------------


def test_tol_stops_early():
    X, _ = blobs()
    model = gt.GaussianTransform(1.0, n_iter=50, tol=1e-3, store_history=True).fit(X)
    assert 1 < model.n_iter_ < 50
    moves = [
        np.linalg.norm(after.points - before.points, axis=1).max()
        for before, after in zip(model.history_, model.history_[1:], strict=False)
    ]
    assert moves[-1] <= 1e-3
    assert min(moves[:-1]) > 1e-3
    assert_array_equal(model.points_, gt.GaussianTransform(1.0, n_iter=model.n_iter_).fit(X).points_)
    assert gt.GaussianTransform(1.0, n_iter=5, tol=0).fit(X).n_iter_ == 5


def test_history():
    X, _ = blobs()
    model = gt.GaussianTransform(1.0, n_iter=3, store_history=True).fit(X)
    assert len(model.history_) == 4
    assert_array_equal(model.history_[0].points, X)
    for k in range(4):
        shorter = gt.GaussianTransform(1.0, n_iter=k).fit(X)
        assert shorter.history_ is None
        assert_array_equal(model.history_[k].points, shorter.points_)
        assert_array_equal(model.history_[k].covariances, shorter.covariances_)


@pytest.mark.parametrize("tol", [0.0, 0.05])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_callback_hears_how_far_the_fit_is(estimator, tol):
    heard = []
    X, _ = blobs()
    estimator(1.0, n_iter=6, tol=tol, callback=heard.append).fit(X)
    fractions = [event.fraction for event in heard]
    assert fractions == sorted(set(fractions))
    assert fractions[0] > 0.0
    assert fractions[-1] == 1.0
    assert [event.iteration for event in heard] == sorted(event.iteration for event in heard)
    assert {event.n_iter for event in heard} == {6}
    n_points = [event.n_points for event in heard]
    assert n_points[0] == len(X)
    assert n_points == sorted(n_points, reverse=True)
    assert n_points[-1] < len(X)


def test_callback_may_stop_a_fit():
    class EnoughError(Exception):
        pass

    def stop(progress):
        if progress.iteration == 2:
            raise EnoughError

    with pytest.raises(EnoughError):
        gt.GaussianTransform(1.0, n_iter=5, callback=stop).fit(blobs()[0])


# --- the radius chosen from the data ----------------------------------------------------------------------------------


def median_distance_to_the_16th(X):
    distances = np.sort(np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2)), axis=1)
    return np.median(distances[:, min(16, len(X) - 1)])


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize(("n", "m"), [(2, 2), (10, 2), (17, 1), (30, 3), (100, 2), (100, 5), (60, 20)])
def test_radius_is_the_median_distance_to_the_16th_neighbour(n, m, offset):
    X = np.random.default_rng(n).normal(size=(n, m)) + offset
    expected = median_distance_to_the_16th(X - offset)
    for estimator in ESTIMATORS:
        model = estimator().fit(X)
        fitted = model.transform_ if estimator is gt.GaussianTransformClustering else model
        assert fitted.eps_ == pytest.approx(expected, rel=1e-9)


def test_copies_do_not_change_the_radius():
    X = np.random.default_rng(1).normal(size=(50, 2))
    copied = np.vstack([X, np.repeat(X[:5], 40, axis=0)])
    assert gt.GaussianTransform().fit(copied).eps_ == gt.GaussianTransform().fit(X).eps_
    assert gt.GaussianTransform().fit([[0.0, 1.0], [-0.0, 1.0]]).eps_ == 1.0


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_radius_scales_with_the_units(scale):
    X = np.random.default_rng(2).normal(size=(50, 2))
    assert gt.GaussianTransform().fit(X * scale).eps_ == pytest.approx(gt.GaussianTransform().fit(X).eps_ * scale)


def test_radius_of_a_crowd_much_smaller_than_its_distance_to_others():
    X = np.append(1e-200 * np.arange(40), 1.0)[:, None]
    assert gt.GaussianTransform().fit(X).eps_ > 0
    X = np.append(1e-100 * np.arange(40), 1.0)[:, None]
    assert gt.GaussianTransform().fit(X).eps_ == pytest.approx(1e-100 * 16, rel=0.2)


def test_radius_of_a_large_cloud_is_measured_on_a_part_of_it():
    X = np.random.default_rng(3).uniform(size=(9000, 1))
    assert gt.GaussianTransform(n_iter=0).fit(X).eps_ == pytest.approx(16 / 9000 / 2, rel=0.05)


# --- units ------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("eps", [1e-153, 1e-150, 1e150, 1e153])
def test_any_radius_whose_square_is_a_number_works(eps):
    corner = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.25]])
    model, reference = gt.GaussianTransform(eps).fit(eps * corner), gt.GaussianTransform(1.0).fit(corner)
    assert_allclose(model.points_ / eps, reference.points_, rtol=0, atol=1e-12)
    assert_allclose(model.covariances_ / eps / eps, reference.covariances_, rtol=0, atol=1e-12)
    assert_allclose(model.distances() / eps, reference.distances(), rtol=0, atol=1e-7)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("eps", [1e-310, 1e-200, 1e160, 1e300, 1.7e308])
def test_other_radii_are_refused(eps):
    """Their squares, and so the covariances, have no room in float64."""
    with pytest.raises(ValueError, match="eps") as caught:
        gt.GaussianTransform(eps).fit(eps * np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.25]]))
    assert_one_clear_sentence(caught.value, [f"eps={eps:g}", "squared"])


@pytest.mark.filterwarnings("error")
def test_points_much_nearer_to_each_other_than_the_radius():
    X = np.array([[0.0, 0.0], [1e-310, 0.0], [5e-324, 0.0]])
    assert_allclose(gt.GaussianTransform(1.0).fit(X).points_, 0, atol=1e-310)


# --- kernels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 5])
def test_kernels_by_name_and_by_function(m):
    X, _ = blobs(n=40, m=m)

    def fit(kernel):
        return gt.GaussianTransform(1.0, n_iter=2, kernel=kernel).fit(X)

    @numba.njit
    def half_gaussian(r):
        return np.exp(-0.5 * r)

    named = fit("gaussian").points_
    assert_allclose(fit(lambda r: np.exp(-0.5 * r)).points_, named, rtol=1e-12)
    assert_allclose(fit(half_gaussian).points_, named, rtol=1e-12)
    assert_allclose(fit(lambda r: (1 + r) ** -(m / 2 + 1)).points_, fit("cauchy").points_, rtol=1e-12)
    step = fit(lambda r: (r <= 1 + 1e-9).astype(float))
    assert_allclose(step.points_, fit("truncated").points_, rtol=0, atol=1e-12)
    assert np.abs(named - fit("cauchy").points_).max() > 1e-3


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("boxcar", ["kernel", "'boxcar'", "'truncated'", "'gaussian'", "'cauchy'"]),
        (3, ["kernel=3", "'truncated'"]),
        (None, ["kernel=None"]),
        (lambda r: -r, ["kernel", "negative", "r="]),
        (lambda r: np.where(r > 1, np.nan, 1.0), ["kernel", "finite", "r="]),
        (lambda r: r.sum(axis=0), ["kernel", "shape"]),
        (lambda r: 1.0, ["kernel", "shape"]),
        (lambda r: "a", ["kernel"]),
    ],
)
def test_bad_kernels(kernel, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        gt.GaussianTransform(1.0, kernel=kernel).fit(blobs(n=20)[0])
    assert_one_clear_sentence(caught.value, words)


# --- unseen points and the training points again ----------------------------------------------------------------------

PAPER = {
    "t_junction": (datasets.make_t_junction(), 10.0, 5.0),
    "dumbbell": (datasets.make_dumbbell(), 0.3, 1.0),
    "spiral": (datasets.make_spiral(n=300, n_outliers=60), 3.0, 1.0),
    "concentric_circles": (datasets.make_concentric_circles(n_per_circle=150), 0.4, 20.0),
    "noisy_circle": (datasets.make_noisy_circle(n=150, n_noise=250), 0.3, 5.0),
    "anisotropy_grid": (datasets.make_anisotropy_grid(side=15, n_line=71), 0.25, 10.0),
    "two_segments": (datasets.make_two_segments(n=100), 0.25, 5.0),
    "grid": (datasets.make_grid(side=20), 0.2, 1.0),
}


@pytest.mark.parametrize("n_iter", [0, 1, 4])
@pytest.mark.parametrize("name", PAPER)
def test_training_points_end_where_they_ended(name, n_iter):
    data, eps, lam = PAPER[name]
    clusters = gt.GaussianTransformClustering(eps, lam, n_iter=n_iter).fit(data.points)
    model = clusters.transform_
    assert_allclose(model.transform(data.points), model.points_, rtol=0, atol=1e-12 * eps)
    assert_array_equal(clusters.predict(data.points), clusters.labels_)
    assert_array_equal(np.unique(clusters.labels_), np.arange(clusters.n_clusters_))


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("kernel", ["truncated", "cauchy"])
def test_training_points_end_where_they_ended_in_any_dimension(kernel, m):
    X = np.round(blobs(m=m)[0], 1)  # with ties and copies
    weights = np.arange(len(X)) % 3
    model = gt.GaussianTransform(0.7, 2.0, n_iter=3, kernel=kernel).fit(X, sample_weight=weights)
    assert_allclose(model.transform(X), model.points_, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("m", "n_eig"), [(2, 1), (3, 2), (5, 1), (5, 4)])
def test_training_points_end_where_they_ended_with_truncated_traces(m, n_eig):
    X, _ = blobs(m=m)
    model = gt.GaussianTransform(1.5, 0.5, n_iter=2, n_eig=n_eig).fit(X)
    assert_allclose(model.transform(X), model.points_, rtol=0, atol=1e-12)


def test_unseen_points_do_not_see_each_other():
    X, _ = blobs()
    model = gt.GaussianTransform(1.0, n_iter=3).fit(X)
    new = X[:30] + 0.1
    assert_array_equal(model.transform(new)[::3], model.transform(new[::3]))
    assert_array_equal(model.transform(new[:1]), model.transform(new)[:1])


# --- distances, graphs, embeddings, dendrograms -----------------------------------------------------------------------

DIMENSIONS_AND_ITERATIONS = [(m, n_iter) for m in (1, 2, 3, 5) for n_iter in (0, 2)]


@functools.cache
def fitted(m, n_iter):
    return gt.GaussianTransform(1.0, 2.0, n_iter=n_iter).fit(blobs(n=60, m=m)[0])


@pytest.mark.parametrize(("m", "n_iter"), DIMENSIONS_AND_ITERATIONS)
def test_distances_are_symmetric_with_a_zero_diagonal(m, n_iter):
    model = fitted(m, n_iter)
    D = model.distances()
    assert_array_equal(D, D.T)
    assert_array_equal(np.diagonal(D), 0)
    assert np.isfinite(D).all()
    assert (cdist(model.points_, model.points_) <= D + 1e-12).all()


@pytest.mark.parametrize(("m", "n_iter"), DIMENSIONS_AND_ITERATIONS)
def test_embedding_bounds_the_distances(m, n_iter):
    model = fitted(m, n_iter)
    D, embedded = model.distances(), model.embedding()
    assert embedded.shape == (60, m + m * (m + 1) // 2)
    assert_array_equal(embedded[:, :m], model.points_)
    E = cdist(embedded, embedded)
    assert (E >= D - 1e-7).all()
    assert (np.sqrt(2) * D + 1e-7 >= E).all()


@pytest.mark.parametrize(("m", "n_iter"), DIMENSIONS_AND_ITERATIONS)
def test_neighbors_graph_holds_the_near_distances(m, n_iter):
    model = fitted(m, n_iter)
    D = model.distances()
    for radius in (0.4, 1.0, 3.7, 1e9):
        graph = model.neighbors_graph(radius)
        assert isinstance(graph, csr_array)
        rows, columns = np.nonzero(radius**2 * (1 + 1e-9) >= D**2)
        assert graph.nnz == rows.size
        assert graph.has_sorted_indices
        assert_array_equal(graph.indices, columns)
        assert_allclose(graph.data, D[rows, columns], rtol=0, atol=1e-12)
    assert (model.neighbors_graph() != model.neighbors_graph(model.eps_)).nnz == 0


@pytest.mark.parametrize("method", ["single", "complete", "average", "weighted", "ward"])
@pytest.mark.parametrize(("m", "n_iter"), DIMENSIONS_AND_ITERATIONS)
def test_linkage_is_that_of_the_distances(m, n_iter, method):
    Z = fitted(m, n_iter).linkage(method)
    condensed = fitted(m, n_iter).distances()[np.triu_indices(60, 1)]
    assert hierarchy.is_valid_linkage(Z)
    assert_allclose(Z[:, 2], hierarchy.linkage(condensed, method)[:, 2], rtol=1e-9, atol=1e-9)
    assert_allclose(
        hierarchy.cophenet(Z), hierarchy.cophenet(hierarchy.linkage(condensed, method)), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("n_eig", [1, 2])
def test_truncated_traces_reach_everything_that_is_told(n_eig):
    """The truncated distance is another distance: graph, dendrogram and clusters must be those of that one."""
    X, _ = blobs(n=40, m=3)
    clusters = gt.GaussianTransformClustering(1.0, 0.5, n_eig=n_eig).fit(X)
    model = clusters.transform_
    D = model.distances()
    assert np.abs(D - gt.GaussianTransform(1.0, 0.5).fit(X).distances()).max() > 1e-3
    assert_allclose(model.neighbors_graph(1e3).toarray(), D, rtol=0, atol=1e-12)
    for method in ("single", "average"):
        expected = hierarchy.linkage(D[np.triu_indices(40, 1)], method)
        assert_allclose(model.linkage(method)[:, 2], expected[:, 2], rtol=1e-9)
    assert_allclose(clusters.linkage_matrix_[:, 2], model.linkage()[:, 2], rtol=1e-9)
    assert_array_equal(clusters.predict(X), clusters.labels_)


@pytest.mark.parametrize("scale", [1e150, 1e-150])
@pytest.mark.parametrize("method", ["single", "average"])
def test_dendrograms_scale_with_the_units(method, scale):
    X, _ = blobs(n=40)
    Z = gt.GaussianTransform(1.0, n_iter=2).fit(X).linkage(method)
    scaled = gt.GaussianTransform(scale, n_iter=2).fit(X * scale).linkage(method)
    assert_allclose(scaled[:, 2] / scale, Z[:, 2], rtol=0, atol=1e-7)
    assert_allclose(hierarchy.cophenet(scaled) / scale, hierarchy.cophenet(Z), rtol=0, atol=1e-7)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_too_little_memory_for_a_matrix(estimator, monkeypatch):
    X, _ = blobs(n=60)
    model = estimator(1.0).fit(X)
    monkeypatch.setattr("gaussian_transform._shapes.available_bytes", lambda: 10_000)
    if estimator is gt.GaussianTransformClustering:
        assert estimator(1.0).fit(X).n_clusters_ == model.n_clusters_  # single linkage needs no matrix
        with pytest.raises(MemoryError) as caught:
            estimator(1.0, linkage="average").fit(X)
        assert_one_clear_sentence(caught.value, ["10,000", "bytes", "single"])
        return
    with pytest.raises(MemoryError) as caught:
        model.distances()
    assert_one_clear_sentence(caught.value, [f"{8 * 60 * 60:,}", "10,000", "bytes", "neighbors_graph"])
    with pytest.raises(MemoryError) as caught:
        model.linkage("average")
    assert_one_clear_sentence(caught.value, ["10,000", "bytes", "single"])
    needed = int(re.search(r"needs ([\d,]+) bytes", str(caught.value))[1].replace(",", ""))
    assert needed >= 8 * 60 * 59 // 2
    assert model.linkage("single").shape == (59, 4)


# --- clusters ---------------------------------------------------------------------------------------------------------


def test_clusters_by_number_by_height_and_by_eps():
    X, y = blobs()
    model = gt.GaussianTransformClustering(1.0, n_iter=2)
    for n_clusters in (1, 2, 3, 7, len(X)):
        assert clone(model).set_params(n_clusters=n_clusters).fit(X).n_clusters_ == n_clusters
    assert adjusted_rand_score(y, clone(model).set_params(n_clusters=3).fit(X).labels_) == 1.0
    by_eps = model.fit(X)
    heights = by_eps.linkage_matrix_[:, 2]
    assert by_eps.n_clusters_ == 1 + (heights > 1.0).sum()
    for height in (0.05, 0.3, 2.0):
        by_height = clone(model).set_params(distance_threshold=height).fit(X)
        assert by_height.n_clusters_ == 1 + (heights > height).sum()
        flat = hierarchy.fcluster(by_height.linkage_matrix_, height, "distance")
        assert adjusted_rand_score(flat, by_height.labels_) == 1.0
    assert clone(model).set_params(distance_threshold=np.inf).fit(X).n_clusters_ == 1
    assert_array_equal(by_eps.linkage_matrix_, by_eps.transform_.linkage())


def test_default_cut_joins_overlapping_balls_with_ties():
    """A chain at exactly eps is one cluster; the next wider one is as many as it has points."""
    chain = 0.1 * np.arange(10)[:, None]
    assert gt.GaussianTransformClustering(0.1, 0.0, n_iter=0).fit(chain).n_clusters_ == 1
    assert gt.GaussianTransformClustering(0.0999, 0.0, n_iter=0).fit(chain).n_clusters_ == 10


def test_labels_go_from_the_heaviest():
    X = np.array([0.0, 0.1, 0.2, 10.0, 10.1, 20.0])[:, None]
    assert_array_equal(gt.GaussianTransformClustering(1.0).fit(X).labels_, [0, 0, 0, 1, 1, 2])
    weights = [1, 1, 1, 1, 1, 9]
    assert_array_equal(gt.GaussianTransformClustering(1.0).fit(X, sample_weight=weights).labels_, [1, 1, 1, 2, 2, 0])
    tied = gt.GaussianTransformClustering(1.0).fit(X, sample_weight=[2, 2, 2, 3, 3, 6])
    assert_array_equal(tied.labels_, [0, 0, 0, 1, 1, 2])


@pytest.mark.parametrize("linkage", ["single", "average"])
def test_clusters_do_not_depend_on_the_order(linkage):
    X, _ = blobs(n=60)
    weights = 1 + np.arange(60) % 4
    options = {"n_clusters": 4, "linkage": linkage}
    labels = gt.GaussianTransformClustering(1.0, **options).fit(X, sample_weight=weights).labels_
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(60)
        again = gt.GaussianTransformClustering(1.0, **options).fit(X[order], sample_weight=weights[order])
        assert_array_equal(again.labels_, labels[order])


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_points_do_not_depend_on_the_order(m):
    X, _ = blobs(n=60, m=m)
    order = np.random.default_rng(m).permutation(60)
    model, again = (gt.GaussianTransform(1.0, n_iter=3).fit(points) for points in (X, X[order]))
    assert_allclose(again.points_, model.points_[order], rtol=0, atol=1e-12)
    assert_allclose(again.covariances_, model.covariances_[order], rtol=0, atol=1e-12)


def test_points_of_no_mass_join_the_cluster_they_are_predicted_to():
    X, _ = blobs()
    weights = np.ones(len(X))
    weights[::3] = 0.0
    model = gt.GaussianTransformClustering(1.0).fit(X, sample_weight=weights)
    alone = gt.GaussianTransformClustering(1.0).fit(X[weights > 0])
    assert_array_equal(model.labels_[weights > 0], alone.labels_)
    assert_array_equal(model.labels_[::3], alone.predict(X[::3]))
    assert_array_equal(model.predict(X), model.labels_)
    assert len(model.linkage_matrix_) == (weights > 0).sum() - 1


@pytest.mark.parametrize("linkage", ["single", "average"])
def test_one_point_with_mass_is_the_only_cluster(linkage):
    model = gt.GaussianTransformClustering(1.0, linkage=linkage).fit([[0.0], [1.0], [9.0]], sample_weight=[0, 1, 0])
    assert_array_equal(model.labels_, 0)
    assert model.linkage_matrix_.shape == (0, 4)


# --- bad input --------------------------------------------------------------------------------------------------------


def assert_one_clear_sentence(error, words):
    """One sentence that has all the words: the parameter, what it got, what is needed."""
    message = str(error)
    for word in words:
        assert word in message, message
    assert "\n" not in message, message
    assert message.endswith("."), message
    assert 15 < len(message) < 250, message


BAD_PARAMETERS = [
    ("eps", 0, ["eps=0", "above 0"]),
    ("eps", -1.5, ["eps=-1.5", "above 0"]),
    ("eps", float("nan"), ["eps=nan", "above 0"]),
    ("eps", float("inf"), ["eps=inf", "finite"]),
    ("eps", "wide", ["eps='wide'", "number"]),
    ("eps", True, ["eps=True", "number"]),
    ("eps", [1.0], ["eps=[1.0]", "number"]),
    ("eps", 1j, ["eps=1j", "number"]),
    ("n_iter", -1, ["n_iter=-1", "at least 0"]),
    ("n_iter", 1.5, ["n_iter=1.5", "whole number"]),
    ("n_iter", "two", ["n_iter='two'", "whole number"]),
    ("n_iter", True, ["n_iter=True", "whole number"]),
    ("n_iter", None, ["n_iter=None", "whole number"]),
    ("tol", -0.1, ["tol=-0.1", "at least 0"]),
    ("tol", float("nan"), ["tol=nan", "at least 0"]),
    ("tol", "small", ["tol='small'", "number"]),
    ("n_jobs", 0, ["n_jobs=0"]),
    ("n_jobs", 1.5, ["n_jobs=1.5"]),
    ("n_jobs", "all", ["n_jobs='all'"]),
    ("kernel", "boxcar", ["kernel='boxcar'"]),
    ("callback", "print", ["callback='print'"]),
]
BAD_LAM = [
    ("lam", -1, ["lam=-1", "at least 0"]),
    ("lam", float("nan"), ["lam=nan", "at least 0"]),
    ("lam", float("inf"), ["lam=inf", "finite"]),
    ("lam", "much", ["lam='much'", "number"]),
    ("lam", None, ["lam=None", "number"]),
    ("n_eig", 0, ["n_eig=0", "at least 1"]),
    ("n_eig", 1.5, ["n_eig=1.5", "whole number"]),
]
BAD_CUTS = [
    ("n_clusters", 0, ["n_clusters=0", "1"]),
    ("n_clusters", 21, ["n_clusters=21", "20"]),
    ("n_clusters", 2.5, ["n_clusters=2.5", "whole number"]),
    ("distance_threshold", -1.0, ["distance_threshold=-1.0", "at least 0"]),
    ("distance_threshold", float("nan"), ["distance_threshold=nan", "at least 0"]),
    ("distance_threshold", "far", ["distance_threshold='far'", "number"]),
    ("linkage", "centroid", ["linkage='centroid'", "'single'", "'ward'"]),
    ("linkage", None, ["linkage=None", "'single'"]),
]


@pytest.mark.parametrize(
    ("estimator", "parameter", "value", "words"),
    [
        *((estimator, *bad) for estimator in ESTIMATORS for bad in BAD_PARAMETERS),
        *((estimator, *bad) for estimator in (ESTIMATORS[0], ESTIMATORS[2]) for bad in BAD_LAM),
        *((ESTIMATORS[2], *bad) for bad in BAD_CUTS),
    ],
    ids=lambda value: getattr(value, "__name__", None) or (None if isinstance(value, list) else str(value)),
)
def test_bad_parameters(estimator, parameter, value, words):
    model = estimator(**{"eps": 1.0, parameter: value})
    with pytest.raises((ValueError, TypeError)) as caught:
        model.fit(blobs(n=20)[0])
    assert_one_clear_sentence(caught.value, words)


def test_two_ways_to_cut_at_once():
    with pytest.raises(ValueError, match="n_clusters") as caught:
        gt.GaussianTransformClustering(1.0, n_clusters=2, distance_threshold=0.5).fit(blobs()[0])
    assert_one_clear_sentence(caught.value, ["n_clusters=2", "distance_threshold=0.5", "one of them"])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.r_[-0.5, np.ones(19)], ["sample_weight[0]=-0.5", "negative"]),
        (np.zeros(20), ["sample_weight", "zero", "above 0"]),
        (0, ["sample_weight", "zero", "above 0"]),
        (np.ones(19), ["sample_weight", "(19,)", "20 points"]),
        (np.ones((20, 1)), ["sample_weight", "(20, 1)", "20 points"]),
        (np.r_[np.ones(19), np.nan], ["sample_weight[19]=nan", "finite"]),
        (np.r_[np.inf, np.ones(19)], ["sample_weight[0]=inf", "finite"]),
        (["a"] * 20, ["sample_weight", "number", "20 points"]),
        ([[1], [2, 3]], ["sample_weight", "number", "20 points"]),
        (np.ones(20) * 1j, ["sample_weight"]),
    ],
    ids=["negative", "zeros", "zero", "short", "column", "nan", "inf", "strings", "ragged", "complex"],
)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bad_weights(estimator, weights, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        estimator(1.0).fit(blobs(n=20)[0], sample_weight=weights)
    assert_one_clear_sentence(caught.value, words)


BAD_POINTS = {
    "nan": (np.array([[0.0, np.nan], [1.0, 2.0]]), "contains NaN"),
    "inf": (np.array([[0.0, np.inf], [1.0, 2.0]]), "contains infinity"),
    "empty": (np.empty((0, 2)), r"Found array with 0 sample\(s\)"),
    "no columns": (np.empty((3, 0)), r"Found array with 0 feature\(s\)"),
    "1-D": (np.arange(5.0), "Expected 2D array, got 1D array"),
    "number": (3.0, "Expected 2D array, got scalar array"),
    "3-D": (np.zeros((2, 2, 2)), "Found array with dim 3"),
    "strings": ([["a", "b"], ["c", "d"]], "could not convert string to float: 'a'"),
    "objects": (np.array([["1.5", "2"], ["3", "four"]], dtype=object), "could not convert string to float: 'four'"),
    "complex": (np.array([[1j, 2], [3, 4]]), "Complex data not supported"),
    "sparse": (csr_array(np.eye(3)), "Sparse data was passed for X, but dense data is required"),
    "dicts": (np.array([[{}, 1], [2, 3]], dtype=object), "dict"),
    "ragged": ([[1.0, 2.0], [3.0]], "inhomogeneous"),
    "none": (None, "Expected 2D array, got scalar array"),
}


@pytest.mark.parametrize("kind", BAD_POINTS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bad_points(estimator, kind):
    """Here scikit-learn speaks; its words name the problem."""
    X, words = BAD_POINTS[kind]
    with pytest.raises((ValueError, TypeError), match=words):
        estimator(1.0).fit(X)
    fitted = estimator(1.0).fit(blobs(n=20)[0])
    with pytest.raises((ValueError, TypeError), match=f"{words}|expecting 2 features"):
        (fitted.predict if hasattr(fitted, "predict") else fitted.transform)(X)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_wrong_number_of_columns(estimator):
    model = estimator(1.0).fit(blobs(n=20)[0])
    use = model.predict if hasattr(model, "predict") else model.transform
    with pytest.raises(ValueError, match=r"X has 3 features, but \w+ is expecting 2 features"):
        use(np.zeros((4, 3)))


@pytest.mark.parametrize("estimator", TRANSFORMS)
@pytest.mark.parametrize("name", ["transform", "distances", "neighbors_graph", "embedding", "linkage"])
def test_use_before_fit(estimator, name):
    model = estimator(1.0)
    with pytest.raises(NotFittedError, match=rf"This {estimator.__name__} instance is not fitted yet"):
        getattr(model, name)(*([np.zeros((2, 2))] if name == "transform" else []))


def test_prediction_before_fit():
    with pytest.raises(NotFittedError, match=r"This GaussianTransformClustering instance is not fitted yet"):
        gt.GaussianTransformClustering(1.0).predict(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("radius", "words"),
    [
        (0, ["radius=0", "above 0"]),
        (-1.0, ["radius=-1.0"]),
        (float("nan"), ["radius=nan"]),
        ("a", ["radius='a'", "number"]),
    ],
)
def test_bad_radius_of_a_graph(radius, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        fitted(2, 0).neighbors_graph(radius)
    assert_one_clear_sentence(caught.value, words)


def test_bad_method_of_a_dendrogram():
    with pytest.raises(ValueError, match="method") as caught:
        fitted(2, 0).linkage("centroid")
    assert_one_clear_sentence(caught.value, ["method='centroid'", "'single'", "'ward'"])


def test_radius_too_small_for_the_cloud():
    X = np.array([[0.0], [1e10]])
    with pytest.raises(ValueError, match="eps") as caught:
        gt.GaussianTransform(1e-145).fit(X)
    assert_one_clear_sentence(caught.value, ["eps=1e-145", "1e+10"])
    model = gt.GaussianTransform(1.0).fit(X)
    with pytest.raises(ValueError, match="eps") as caught:
        model.transform([[1e200]])
    assert_one_clear_sentence(caught.value, ["eps=1", "1e+200"])


def test_a_failed_fit_does_not_hide_the_parameters():
    """Fitting again after a bad parameter was mended works on the same object."""
    X, _ = blobs(n=20)
    model = gt.GaussianTransform(-1.0)
    with pytest.raises(ValueError, match="eps"):
        model.fit(X)
    with pytest.raises(NotFittedError):
        model.transform(X)
    assert_array_equal(model.set_params(eps=1.0).fit(X).points_, gt.GaussianTransform(1.0).fit(X).points_)
