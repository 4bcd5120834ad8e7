"""Singular values of batches against mpmath and LAPACK, for every kind of matrix that makes them hard."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussian_transform._kernels.singular import singular_values
from gaussian_transform._parallel import run_ranges

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 13, 20, 33, 64)
# Of the nuclear norm, which is what the distances need; LAPACK's own error is about the same.
TOLERANCE = 1e-14


def singular(matrices):
    values = np.full(matrices.shape[:2], np.nan)
    singular_values(matrices, values)
    return values


def with_values(values, rng):
    r = values.size
    left, right = (np.linalg.qr(rng.standard_normal((r, r)))[0] for _ in range(2))
    return (left * values) @ right


def hard_matrices(r, rng):
    """Matrices by name, among them all that rank, ties, gradation, sparsity and scale do to bidiagonal forms."""
    gauss = rng.standard_normal((r, r))
    rank = max(1, r // 3)
    matrices = {
        "general": gauss,
        "half rank": rng.standard_normal((r, rank)) @ rng.standard_normal((rank, r)),
        "rank one": np.outer(gauss[0], gauss[:, 0]),
        "zero": np.zeros((r, r)),
        "one entry": np.eye(r, k=1 - r) * 3.0,
        "orthogonal": np.linalg.qr(gauss)[0],
        "permutation": np.eye(r)[rng.permutation(r)],
        "diagonal": np.diag(10.0 ** rng.uniform(-200.0, 100.0, r)),
        "two values": with_values(np.arange(r) % 2 + 1.0, rng),
        "four values and zero": with_values(np.arange(r) % 5 * 1.0, rng),
        "almost equal": with_values(1.0 + 1e-9 * rng.standard_normal(r), rng),
        "a few large": with_values(np.where(np.arange(r) < 3, 10.0, 1.0) + 1e-2 * rng.standard_normal(r), rng),
        "graded values": with_values(10.0 ** np.linspace(0.0, -40.0, r), rng),
        "graded rows": 10.0 ** np.linspace(-150.0, 150.0, r)[:, None] * gauss,
        "graded columns": 10.0 ** np.linspace(150.0, -150.0, r) * gauss,
        "nilpotent": np.eye(r, k=1),
        "jordan": np.eye(r) * 0.5 + np.eye(r, k=1),
        "almost nilpotent": np.diag(10.0 ** rng.uniform(-12.0, 0.0, r)) + np.eye(r, k=1),
        "two blocks": np.kron(np.eye(2), rng.standard_normal((r, r)))[: 2 * r : 2, : 2 * r : 2],
        "small above close values": np.diag(np.where(np.arange(r) < r // 2, 1e-3, 1.0))
        + np.diag(np.where(np.arange(1, r) < r // 2, 1.0, np.where(np.arange(1, r) == r // 2, 0.0, 1e-3)), 1),
        "wilkinson": np.diag(np.abs(np.arange(r) - (r - 1) / 2)) + np.eye(r, k=1) + np.eye(r, k=-1),
        "hilbert": 1.0 / (1.0 + np.arange(r)[:, None] + np.arange(r)),
        "all equal": np.ones((r, r)),
        "triangle": np.tril(np.ones((r, r))),
        "small integers": rng.integers(-1, 2, (r, r)).astype(float),
        "sparse": gauss * (rng.random((r, r)) < 2.0 / r),
        "huge": gauss * 1e300,
        "small": gauss * 1e-300,
    }
    return list(matrices), np.array(list(matrices.values()))


def assert_nuclear_norms(matrices, values, norms, names):
    assert np.all(values >= 0.0), "negative or NaN"
    errors = np.abs(values.sum(axis=1) - norms)
    for name, error, norm in zip(names, errors, norms, strict=True):
        assert error <= TOLERANCE * norm, f"{name} of size {matrices.shape[1]}: {error / norm if norm else error}"


@pytest.mark.parametrize("r", SIZES)
def test_hard_matrices_agree_with_lapack(r):
    names, matrices = hard_matrices(r, np.random.default_rng(r))
    values, expected = singular(matrices), np.linalg.svd(matrices, compute_uv=False)
    assert_nuclear_norms(matrices, values, expected.sum(axis=1), names)
    descending = -np.sort(-values, axis=1)
    assert np.all(np.abs(descending - expected) <= 5e-14 * expected[:, :1])


@pytest.mark.parametrize("r", [2, 5, 8])
def test_hard_matrices_agree_with_mpmath(r):
    names, matrices = hard_matrices(r, np.random.default_rng(100 + r))
    with mpmath.workdps(400):  # the graded ones span 300 digits
        norms = [float(sum(mpmath.svd_r(mpmath.matrix(m.tolist()), compute_uv=False))) for m in matrices]
    assert_nuclear_norms(matrices, singular(matrices), np.array(norms), names)


def test_values_far_below_the_largest_keep_their_absolute_accuracy():
    values = 10.0 ** -np.arange(16.0)
    found = np.sort(singular(with_values(values, np.random.default_rng(3))[None])[0])[::-1]
    assert np.all(np.abs(found - values) <= 1e-15)


@pytest.mark.parametrize("r", [1, 4, 13, 20])
def test_zero_and_multiples_of_the_identity_are_exact(r):
    for factor in (0.0, 1.0, 4.0, 2.0**-900):
        assert np.array_equal(singular(factor * np.eye(r)[None]), np.full((1, r), factor))


@pytest.mark.parametrize("r", [1, 4, 13])
@pytest.mark.parametrize("entry", [1.7e308, 3e-162, 5e-324])
def test_one_entry_is_exact_up_to_the_ends_of_the_range(r, entry):
    matrix = np.zeros((1, r, r))
    matrix[0, r // 2, r // 3] = -entry
    assert np.array_equal(np.sort(singular(matrix)[0]), np.append(np.zeros(r - 1), entry))


@st.composite
def products(draw):
    """Products of small factors with few distinct entries: every rank, ties, zeros, blocks and scales."""
    r = draw(st.integers(1, 9))
    rank = draw(st.integers(0, r))
    entries = st.sampled_from([0.0, 0.0, 1.0, -1.0, 2.0, 0.5, 1e-8, 3e-17])
    left = np.array(draw(st.lists(entries, min_size=r * rank, max_size=r * rank))).reshape(r, rank)
    right = np.array(draw(st.lists(entries, min_size=r * rank, max_size=r * rank))).reshape(rank, r)
    return left @ right * 10.0 ** draw(st.integers(-280, 280))


@given(st.lists(products(), min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_any_product_of_factors(batch):
    for matrix in batch:
        values, expected = singular(matrix[None])[0], np.linalg.svd(matrix, compute_uv=False)
        assert np.all(values >= 0.0)
        assert abs(values.sum() - expected.sum()) <= TOLERANCE * expected.sum()


@pytest.mark.parametrize("r", [3, 12, 20])
def test_company_does_not_change_the_bits(r):
    rng = np.random.default_rng(r)
    matrices = np.concatenate([hard_matrices(r, rng)[1], rng.standard_normal((50, r, r))])
    values = singular(matrices)
    order = rng.permutation(matrices.shape[0])
    assert np.array_equal(singular(matrices[order]), values[order])
    for k in (0, 7, -1):
        assert np.array_equal(singular(matrices[k : k + 1 or None]), values[k : k + 1 or None])


def test_threads_do_not_change_the_bits():
    matrices = np.random.default_rng(5).standard_normal((203, 14, 14))
    values = np.empty((203, 14))
    run_ranges(lambda a, b: singular_values(matrices[a:b], values[a:b]), 203, n_threads=3, grain=30)
    assert np.array_equal(values, singular(matrices))


def test_strided_stacks_are_read_in_place():
    wide = np.random.default_rng(6).standard_normal((9, 30, 9))
    stack = np.swapaxes(wide, 0, 1)
    assert np.array_equal(singular(stack), singular(np.ascontiguousarray(stack)))


def test_a_matrix_with_nan_ends_and_leaves_its_neighbours_alone():
    matrices = np.random.default_rng(7).standard_normal((20, 6, 6))
    expected = singular(matrices)
    matrices[3, 2, 4] = np.nan
    values = singular(matrices)
    assert np.any(np.isnan(values[3]))
    others = np.arange(20) != 3
    assert np.array_equal(values[others], expected[others])


def test_an_empty_stack_is_left_alone():
    assert singular(np.empty((0, 5, 5))).shape == (0, 5)
