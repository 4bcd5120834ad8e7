"""Bures distances against 50-digit arithmetic and as a metric, on semi-definite matrices as the ordinary case."""

import threading

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussian_transform import _shapes
from gaussian_transform._kernels.singular import singular_values
from gaussian_transform.bures import bures_distance, bures_distances, gaussian_wasserstein, square_roots

# What float64 entries say of the distance of singular matrices: the root of their rounding.
SINGULAR = 4e-8


def reference(a, b, n_eig=None):
    """The definition, tr A + tr B − 2 tr((A^½ B A^½)^½), in 50 digits; an eigenvalue below 0 is rounding."""
    with mpmath.workdps(50):
        a, b = mpmath.matrix(np.asarray(a).tolist()), mpmath.matrix(np.asarray(b).tolist())
        values, vectors = mpmath.eigsy(a)
        roots = mpmath.diag([mpmath.sqrt(max(value, 0)) for value in values])
        root = vectors * roots * vectors.T
        middle = root * b * root
        eigenvalues = sorted(mpmath.eigsy((middle + middle.T) / 2, eigvals_only=True), reverse=True)
        kept = eigenvalues[: n_eig or len(eigenvalues)]
        trace = sum(a[k, k] + b[k, k] for k in range(a.rows))
        squared = trace - 2 * sum(mpmath.sqrt(max(value, 0)) for value in kept)
        return float(mpmath.sqrt(max(squared, 0)))


def semidefinite(rng, m, rank, scale=1.0):
    factor = scale * rng.normal(size=(m, rank)) @ np.diag(10.0 ** rng.uniform(-2, 0, rank))
    return factor @ factor.T


def spread(a, b):
    return np.sqrt(np.trace(a, axis1=-2, axis2=-1) + np.trace(b, axis1=-2, axis2=-1))


def rotation(rng, m):
    return np.linalg.qr(rng.normal(size=(m, m)))[0]


@st.composite
def pairs_of_matrices(draw):
    m = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scales = draw(st.tuples(*[st.integers(-150, 150)] * 2) | st.integers(-150, 150).map(lambda s: (s, s)))
    ranks = draw(st.tuples(*[st.integers(0, m)] * 2))
    return tuple(semidefinite(rng, m, rank, 10.0**scale) for rank, scale in zip(ranks, scales, strict=True))


@settings(max_examples=60, deadline=None)
@given(pairs_of_matrices())
def test_any_rank_and_scale_agrees_with_fifty_digits(pair):
    a, b = pair
    distance = bures_distance(a, b)
    assert distance == pytest.approx(reference(a, b), rel=1e-9, abs=SINGULAR * spread(a, b))
    assert distance == pytest.approx(bures_distance(b, a), rel=1e-12)
    assert bures_distance(a, a) == 0.0
    assert bures_distance(b, b.copy()) == 0.0


@pytest.mark.parametrize("m", range(1, 8))
def test_well_conditioned_matrices_are_right_to_rounding(m):
    rng = np.random.default_rng(m)
    for _ in range(10):
        a, b = (semidefinite(rng, m, m) + np.eye(m) for _ in range(2))
        assert bures_distance(a, b) == pytest.approx(reference(a, b), rel=1e-13)


@pytest.mark.parametrize("m", range(1, 7))
@pytest.mark.parametrize("size", [1e-2, 1e-6, 1e-9, 1e-12])
def test_small_distances_keep_relative_accuracy(m, size):
    """The roots of two matrices are each rounded, so that the relative error is rounding over the distance."""
    rng = np.random.default_rng(m)
    a = semidefinite(rng, m, m) + np.eye(m)
    change = rng.normal(size=(m, m))
    b = a + size * (change + change.T)
    assert bures_distance(a, b) == pytest.approx(reference(a, b), rel=1e-12 + 2e-15 / size)


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_nearby_singular_matrices_with_exact_zeros_keep_relative_accuracy(m):
    """A flat neighbourhood in a coordinate plane loses nothing to the direction that it lacks."""
    rng = np.random.default_rng(m)
    a, b = np.zeros((2, m, m))
    a[: m - 1, : m - 1] = semidefinite(rng, m - 1, m - 1) + np.eye(m - 1)
    b[: m - 1, : m - 1] = a[: m - 1, : m - 1] + 1e-7 * semidefinite(rng, m - 1, m - 1)
    assert bures_distance(a, b) == pytest.approx(reference(a, b), rel=1e-7)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 6])
def test_commuting_matrices_have_the_distance_of_their_roots(m):
    rng = np.random.default_rng(m)
    turn = rotation(rng, m)
    a, b = rng.random((2, m))
    expected = np.linalg.norm(np.sqrt(a) - np.sqrt(b))
    assert bures_distance((turn * a) @ turn.T, (turn * b) @ turn.T) == pytest.approx(expected, rel=1e-12)
    assert bures_distance(np.diag(a), np.zeros((m, m))) == pytest.approx(np.sqrt(a.sum()), rel=1e-15)


@pytest.mark.parametrize("m", [2, 3])
def test_graded_diagonals_keep_their_small_entries(m):
    a = np.diag([1.0, 1e-20, 1e-30][:m])
    b = np.diag([1.0, 4e-20, 4e-30][:m])
    assert bures_distance(a, b) == pytest.approx(np.sqrt(1e-20 + (1e-30 if m == 3 else 0.0)), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**32))
def test_is_a_metric_that_rotations_and_scales_respect(m, seed):
    rng = np.random.default_rng(seed)
    covs = np.array([semidefinite(rng, m, rank) for rank in rng.integers(0, m + 1, size=6)])
    distances = bures_distances(covs)
    tolerance = SINGULAR * np.sqrt(np.trace(covs, axis1=1, axis2=2).max())
    assert np.array_equal(distances, distances.T)
    assert not np.diagonal(distances).any()
    assert np.all(distances[:, None, :] <= distances[:, :, None] + distances[None, :, :] + tolerance)
    turn = rotation(rng, m)
    turned = turn @ covs @ turn.T
    np.testing.assert_allclose(bures_distances((turned + turned.transpose(0, 2, 1)) / 2), distances, atol=2 * tolerance)
    np.testing.assert_array_equal(bures_distances(covs * 2.0**40), distances * 2.0**20)
    np.testing.assert_allclose(bures_distances(9.0 * covs), 3.0 * distances, atol=tolerance)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7, 14])
def test_closed_forms_factors_and_singular_values_agree(m):
    rng = np.random.default_rng(m)
    covs = np.array([semidefinite(rng, m, rank) for rank in [*range(m + 1), m, m, m]])
    distances = bures_distances(covs)
    tolerance = SINGULAR * np.sqrt(np.trace(covs, axis1=1, axis2=2).max())
    np.testing.assert_allclose(bures_distances(square_roots(covs), factors=True), distances, atol=tolerance)
    np.testing.assert_allclose(bures_distance(covs[:, None], covs), distances, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(bures_distances(covs[:2], covs), distances[:2])


def test_factors_of_any_width_stand_for_their_products():
    rng = np.random.default_rng(0)
    narrow, wide = rng.normal(size=(4, 3, 2)), rng.normal(size=(5, 3, 9))
    expected = bures_distances(narrow @ narrow.transpose(0, 2, 1), wide @ wide.transpose(0, 2, 1))
    np.testing.assert_allclose(bures_distances(narrow, wide, factors=True), expected, atol=1e-7)
    assert not np.diagonal(bures_distances(wide, factors=True)).any()
    assert not np.diagonal(bures_distances(wide, wide.copy(), factors=True)).any()


def test_factors_keep_what_their_product_loses():
    factor = np.array([[1.0, 0.0], [1.0, 1e-12]])  # F Fᵀ rounds to a singular matrix
    other = np.array([[1.0, 0.0], [1.0, 3e-12]])
    with mpmath.workdps(50):
        product = mpmath.matrix(factor.tolist()), mpmath.matrix(other.tolist())
        a, b = ((f * f.T).tolist() for f in product)
    expected = reference_of_exact(a, b)
    assert bures_distances(factor[None], other[None], factors=True)[0, 0] == pytest.approx(expected, rel=1e-3)


def reference_of_exact(a, b):
    """The closed form in the plane, in 50 digits, of matrices of mpmath numbers."""
    with mpmath.workdps(50):
        (a11, a12), (_, a22) = a
        (b11, b12), (_, b22) = b
        inner = a11 * b11 + 2 * a12 * b12 + a22 * b22
        root = mpmath.sqrt((a11 * a22 - a12**2) * (b11 * b22 - b12**2))
        return float(mpmath.sqrt(a11 + a22 + b11 + b22 - 2 * mpmath.sqrt(inner + 2 * root)))


def test_flat_neighborhoods_in_space_never_fail():
    """Two hundred planes through five points each, where other libraries give NaN or raise."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(200, 5, 2)) @ rng.normal(size=(200, 2, 3)) + rng.normal(size=(200, 1, 3))
    covs = np.array([np.cov(p.T, bias=True) for p in points])
    distances = bures_distances(covs)
    assert np.all(np.isfinite(distances))
    assert np.all(distances[~np.eye(200, dtype=bool)] > 0.0)
    for i, j in rng.integers(0, 200, size=(10, 2)):
        expected = reference(covs[i], covs[j])
        assert distances[i, j] == pytest.approx(expected, abs=SINGULAR * spread(covs[i], covs[j]))


@pytest.mark.parametrize(("m", "n_eig"), [(2, 1), (3, 1), (3, 2), (5, 3), (13, 2), (4, 4)])
def test_truncated_trace_keeps_the_largest_singular_values(m, n_eig):
    rng = np.random.default_rng(m)
    covs = np.array([semidefinite(rng, m, m) for _ in range(4)])
    distances = bures_distances(covs, n_eig=n_eig)
    assert not np.diagonal(distances).any()
    assert np.array_equal(distances, distances.T)
    assert distances[0, 1] == pytest.approx(reference(covs[0], covs[1], n_eig), rel=1e-7)
    assert np.all(distances >= bures_distances(covs) * (1.0 - 1e-12))


def test_truncated_trace_of_large_matrices_is_found_by_iterations(monkeypatch):
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(3, 60, 60)) * np.arange(1, 61) ** -0.5
    factors[2] = 0.0
    expected = bures_distances(factors, factors=True, n_eig=3)
    monkeypatch.setattr(_shapes, "_LANCZOS_SIZE", 50)
    monkeypatch.setattr(np.linalg, "svd", None)
    np.testing.assert_allclose(bures_distances(factors[:2], factors=True, n_eig=3), expected[:2, :2], rtol=1e-12)
    monkeypatch.undo()
    monkeypatch.setattr(_shapes, "_LANCZOS_SIZE", 50)
    np.testing.assert_allclose(bures_distances(factors, factors=True, n_eig=3), expected, rtol=1e-12)


@pytest.mark.parametrize("r", [1, 2, 5, 9, 12])
def test_singular_values_of_every_kind_of_matrix(r):
    rng = np.random.default_rng(r)
    turns = np.array([rotation(rng, r) for _ in range(40)])
    matrices = [
        rng.normal(size=(r, r)),
        np.zeros((r, r)),
        np.eye(r),
        np.ones((r, r)),
        *((turn * 10.0 ** rng.uniform(-200, 0, r)) @ turns[0] for turn in turns[:20]),
        *((turn * rng.choice([0.0, 0.5, 1.0], r)) @ turns[0] for turn in turns[20:]),
        *(2.0**400 * turn for turn in turns),
        *(2.0**-400 * turn for turn in turns),
    ]
    stack = np.array(matrices)
    out = np.empty(stack.shape[:2])
    singular_values(stack, out)
    expected = np.linalg.svd(stack, compute_uv=False)
    assert np.all(np.abs(np.sort(out, axis=1)[:, ::-1] - expected) <= 1e-14 * expected[:, :1])


def test_broadcasting_follows_numpy():
    rng = np.random.default_rng(0)
    a = np.array([semidefinite(rng, 3, 2) for _ in range(6)]).reshape(2, 3, 1, 3, 3)
    b = np.array([semidefinite(rng, 3, 3) for _ in range(4)])
    distances = bures_distance(a, b)
    assert distances.shape == (2, 3, 4)
    assert distances[1, 2, 3] == bures_distance(a[1, 2, 0], b[3])
    assert isinstance(bures_distance(b[0], b[1]), np.float64)
    assert bures_distance(np.empty((0, 3, 3)), b[0]).shape == (0,)
    assert bures_distances(np.empty((0, 4, 4)), np.empty((2, 4, 4)) * 0.0).shape == (0, 2)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_single_precision_in_gives_single_precision_out(m):
    rng = np.random.default_rng(m)
    covs = np.array([semidefinite(rng, m, rank) for rank in (1, m, m)])
    single = covs.astype(np.float32)
    for got in (bures_distances(single), bures_distance(single, single[0]), square_roots(single)):
        assert got.dtype == np.float32
    assert bures_distance(single, covs).dtype == np.float64
    assert bures_distances(np.eye(m, dtype=int)[None]).dtype == np.float64
    np.testing.assert_allclose(bures_distances(single), bures_distances(covs), atol=1e-3)


def test_layout_of_the_input_does_not_matter():
    rng = np.random.default_rng(0)
    covs = np.array([semidefinite(rng, 3, 3) for _ in range(5)])
    read_only = np.asfortranarray(covs)
    read_only.flags.writeable = False
    np.testing.assert_array_equal(bures_distances(read_only), bures_distances(covs))
    np.testing.assert_array_equal(bures_distances(covs.tolist()), bures_distances(covs))


@pytest.mark.parametrize("m", [2, 3, 4, 13])
def test_number_of_threads_and_callers_does_not_change_a_bit(m):
    rng = np.random.default_rng(m)
    covs = np.array([semidefinite(rng, m, m) for _ in range(70)])
    alone = bures_distances(covs, n_jobs=1)
    results = [None] * 3

    def call(k):
        results[k] = bures_distances(covs, n_jobs=2 + k)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_array_equal(result, alone)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_square_roots_are_symmetric_and_square_to_the_matrix(m, scale):
    rng = np.random.default_rng(m)
    covs = np.array([semidefinite(rng, m, rank, scale) for rank in range(m + 1)])
    roots = square_roots(covs)
    np.testing.assert_array_equal(roots, roots.swapaxes(1, 2))
    np.testing.assert_allclose(roots @ roots, covs, atol=1e-14 * covs.max())
    assert np.all(np.linalg.eigvalsh(roots) >= -1e-14 * roots.max())
    assert not square_roots(np.zeros((2, m, m))).any()


def test_gaussian_wasserstein_is_the_distance_of_means_and_covariances():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 1, 2)), rng.normal(size=(4, 2))
    covs = semidefinite(rng, 2, 2), np.array([semidefinite(rng, 2, 1) for _ in range(4)])
    distances = gaussian_wasserstein(means[0], covs[0], means[1], covs[1])
    expected = np.sqrt(((means[0] - means[1]) ** 2).sum(-1) + bures_distance(*covs) ** 2)
    np.testing.assert_allclose(distances, expected, rtol=1e-14)
    assert gaussian_wasserstein([1e300], [[0.0]], [-1.7e308 + 1e300], [[1.0]]) == pytest.approx(1.7e308)
    single = [np.asarray(given, dtype=np.float32) for given in (means[0], covs[0], means[1], covs[1])]
    assert gaussian_wasserstein(*single).dtype == np.float32


def test_gaussian_wasserstein_of_spheres_has_the_closed_form():
    assert gaussian_wasserstein([3.0, 0.0], 4.0 * np.eye(2), [0.0, 4.0], np.eye(2)) == pytest.approx(np.sqrt(27.0))


GOOD = np.eye(2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bures_distance(np.ones((2, 3)), GOOD), ValueError, r"A must have shape .* but has shape \(2, 3\)"),
        (lambda: bures_distance(GOOD, 3.0), ValueError, r"B must have shape"),
        (lambda: bures_distance(GOOD, np.eye(3)), ValueError, r"A and B must hold matrices of one size"),
        (lambda: bures_distance(np.eye(2)[None].repeat(2, 0), GOOD[None].repeat(3, 0)), ValueError, "do not broadcast"),
        (lambda: bures_distance([[np.nan, 0.0], [0.0, 1.0]], GOOD), ValueError, "A must be finite"),
        (lambda: bures_distance([[np.inf, 0.0], [0.0, 1.0]], GOOD), ValueError, "A must be finite"),
        (
            lambda: bures_distance([[1.0, 0.5], [0.4, 1.0]], GOOD),
            ValueError,
            "matrix 0 differs from its transpose by 0.1",
        ),
        (lambda: bures_distances([GOOD, np.diag([1.0, -1e-7])]), ValueError, "matrix 1 has the eigenvalue -1e-07"),
        (lambda: bures_distances([GOOD, [[0.0, 1.0], [1.0, 0.0]]]), ValueError, "matrix 1 has the eigenvalue -1"),
        (lambda: bures_distances([-np.eye(5)]), ValueError, "matrix 0 has the eigenvalue -1"),
        (lambda: bures_distances(GOOD), ValueError, r"covs must have shape \(n, m, m\) but has shape \(2, 2\)"),
        (lambda: bures_distances(GOOD[None], np.eye(3)[None]), ValueError, "covs and covs2 must hold"),
        (
            lambda: bures_distances(GOOD[None], n_eig=3),
            ValueError,
            "n_eig must be an integer from 1 to the dimension 2",
        ),
        (lambda: bures_distances(GOOD[None], n_eig=0), ValueError, "but is 0"),
        (lambda: bures_distances(GOOD[None], n_eig=1.5), ValueError, "but is 1.5"),
        (lambda: bures_distances(GOOD[None], n_jobs=0), ValueError, "n_jobs=0 must be"),
        (lambda: bures_distances(np.ones((2, 3, 0)), factors=True), ValueError, "m and r at least 1"),
        (lambda: bures_distance(np.eye(2) * 1j, GOOD), TypeError, "A must hold real numbers but has dtype complex128"),
        (lambda: bures_distance([["a"]], [["b"]]), TypeError, "A must hold real numbers"),
        (lambda: gaussian_wasserstein([0.0], GOOD, [0.0, 1.0], GOOD), ValueError, r"mean1 must have shape \(..., 2\)"),
        (lambda: square_roots([1.0]), ValueError, "covs must have shape"),
    ],
)
def test_what_is_wrong_with_the_input_is_said(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_negative_eigenvalues_of_rounding_are_accepted():
    slightly = np.diag([1.0, 1.0, -1e-9])
    assert bures_distance(slightly, np.diag([1.0, 1.0, 0.0])) == pytest.approx(0.0, abs=1e-12)
    assert bures_distance(slightly[1:, 1:], np.zeros((2, 2))) == pytest.approx(1.0, rel=1e-8)
    with pytest.raises(ValueError, match="eigenvalue"):
        bures_distance(np.diag([1.0, 1.0, -1e-7]), np.eye(3))


def test_a_matrix_of_distances_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(_shapes, "available_bytes", lambda: 1000)
    assert bures_distances(np.zeros((11, 2, 2))).shape == (11, 11)
    with pytest.raises(MemoryError, match=r"12 x 12 matrix of distances needs 1,152 bytes of memory but 1,000 are"):
        bures_distances(np.zeros((12, 2, 2)))
