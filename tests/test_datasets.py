"""The synthetic sets: their sizes, their geometry, their truth and their seeds."""

import doctest
import importlib
import math
import re

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from scipy.spatial import cKDTree

from gaussian_transform import datasets

RANDOM = [name for name in datasets.names() if "random_state" in datasets.options(name)]
FIXED = [name for name in datasets.names() if name not in RANDOM]
PAPER = {  # points, eps, lam
    "t-junction": (401, 10.0, 5.0),
    "dumbbell": (800, 0.2, 1.0),
    "spiral": (750, 4.0, 1.0),
    "concentric-circles": (500, 0.7, 2.5),
    "noisy-circle": (700, 0.7, 10.0),
    "anisotropy-grid": (11001, 0.2, None),
    "two-segments": (200, None, None),
    "grid": (40000, 0.1, 1.0),
}


def test_names_are_those_of_the_paper():
    assert datasets.names() == list(PAPER)


@pytest.mark.parametrize("name", datasets.names())
def test_shapes_types_and_the_papers_values(name):
    data = datasets.load(name)
    n, eps, lam = PAPER[name]
    assert (data.name, data.eps, data.lam) == (name, eps, lam)
    assert data.points.shape == data.truth.shape == (n, 2)
    assert data.labels.shape == (n,)
    assert data.points.dtype == data.truth.dtype == np.float64
    assert data.labels.dtype == np.int64
    assert np.isfinite(data.points).all()
    assert sorted(set(data.labels.tolist()) - {-1}) == list(range(data.labels.max() + 1))
    assert len(np.unique(data.points, axis=0)) == n
    assert data.description.endswith(".")
    # No truth for outliers, and for outliers only.
    np.testing.assert_array_equal(np.isnan(data.truth).any(axis=1), data.labels == -1)
    assert "array" not in repr(data)


@pytest.mark.parametrize("name", FIXED)
def test_sets_without_noise_are_their_own_truth(name):
    data = datasets.load(name)
    np.testing.assert_array_equal(data.points, data.truth)
    assert not np.shares_memory(data.points, data.truth)


@pytest.mark.parametrize("name", RANDOM)
def test_seeds(name):
    default, zero, one = (datasets.load(name, **seed).points for seed in ({}, {"random_state": 0}, {"random_state": 1}))
    np.testing.assert_array_equal(default, zero)
    assert (zero != one).any()
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(datasets.load(name, random_state=rng).points, zero)
    assert (datasets.load(name, random_state=rng).points != zero).any()  # the generator has moved on
    fresh = [datasets.load(name, random_state=None).points for _ in range(2)]
    assert (fresh[0] != fresh[1]).any()


def test_t_junction():
    data = datasets.make_t_junction()
    vertical, horizontal = data.points[:200], data.points[200:]
    np.testing.assert_array_equal(vertical, [(0, y) for y in range(1, 201)])
    np.testing.assert_array_equal(horizontal, [(x, 0) for x in range(-100, 101)])
    near_horizontal = cKDTree(horizontal).query(vertical)[0] <= 10
    near_vertical = cKDTree(vertical).query(horizontal)[0] <= 10
    np.testing.assert_array_equal(data.labels == 3, np.concatenate([near_horizontal, near_vertical]))
    assert np.bincount(data.labels).tolist() == [91, 91, 190, 29]
    assert (data.points[data.labels == 0, 0] < 0).all()
    assert (data.points[data.labels == 1, 0] > 0).all()
    assert (data.points[data.labels == 2, 1] > 10).all()
    assert (datasets.make_t_junction(junction_radius=1).labels == 3).sum() == 2  # (0, 1) and (0, 0)


def test_dumbbell():
    data = datasets.make_dumbbell()
    assert np.bincount(data.labels).tolist() == [300, 300, 200]
    left, right, chain = (data.points[data.labels == label] for label in range(3))
    spacing = 1 / math.sqrt(97)
    for blob, centre in ((left, -2), (right, 2)):
        radii = np.hypot(blob[:, 0] - centre, blob[:, 1])
        assert radii.max() == pytest.approx(1, abs=1e-12)
        nodes = (blob - [centre, 0]) / spacing
        np.testing.assert_allclose(nodes, nodes.round(), atol=1e-9)
        # Nothing is missing but one of the outermost nodes.
        assert len(blob) == sum(i * i + j * j <= 97 for i in range(-9, 10) for j in range(-9, 10)) - 1
        assert (np.round(radii**2 * 97) < 97).sum() == sum(
            i * i + j * j < 97 for i in range(-9, 10) for j in range(-9, 10)
        )
    mirrored = left * [-1, 1]
    np.testing.assert_array_equal(mirrored[np.lexsort(mirrored.T)], right[np.lexsort(right.T)])
    assert chain[0].tolist() == [-1, 0]
    assert chain[-1].tolist() == [1, 0]
    np.testing.assert_allclose(np.diff(chain[:, 0]), 2 / 199, rtol=1e-9)
    # The chaining effect: no gap of the raw points is wider than the spacing of the grid.
    assert linkage(data.points, "single")[-1, 2] == pytest.approx(spacing, rel=1e-9)


def test_dumbbell_scales_are_the_nine_of_the_paper():
    assert list(datasets.DUMBBELL_SCALES) == [
        *("1/1", "1/0.8", "1/0.6", "1/0.4", "1/0.2"),
        *("0.8/1", "0.6/1", "0.4/1", "0.2/1"),
    ]
    plain = datasets.make_dumbbell()
    for eccentricity, (a1, a2) in datasets.DUMBBELL_SCALES.items():
        numerator, denominator = map(float, eccentricity.split("/"))
        assert (a2, a1) == (numerator, denominator)
        scaled = datasets.make_dumbbell(scale=(a1, a2))
        np.testing.assert_array_equal(scaled.points, plain.points @ np.diag([a1, a2]))
        np.testing.assert_array_equal(scaled.labels, plain.labels)


def test_spiral():
    data = datasets.make_spiral()
    spiral, outliers = data.points[data.labels == 0], data.points[data.labels == -1]
    assert (len(spiral), len(outliers)) == (600, 150)
    assert np.abs(data.points).max() <= 30
    np.testing.assert_array_equal(spiral, data.truth[:600])
    radii = np.hypot(*spiral.T)
    assert radii[0] == 0
    assert radii[-1] == pytest.approx(30)
    # On the curve: the angle belonging to the radius is the angle of the point.
    angles = radii / 30 * 6 * math.pi
    np.testing.assert_allclose(spiral, radii[:, None] * np.column_stack([np.cos(angles), np.sin(angles)]), atol=1e-9)
    # Equally spaced: chords differ from the arc only by the curvature near the centre.
    chords = np.hypot(*np.diff(spiral, axis=0).T)
    np.testing.assert_allclose(chords[10:], chords[-1], rtol=2e-3)
    assert chords.max() / chords.min() < 1.05
    # Uniform outliers: each quarter of the square has its share, and they fill it.
    quarters = np.bincount((outliers[:, 0] > 0) * 2 + (outliers[:, 1] > 0), minlength=4)
    assert quarters.min() >= 20
    assert (np.ptp(outliers, axis=0) > 55).all()


def test_spiral_noise_moves_the_points_and_not_the_truth():
    plain, noisy = datasets.make_spiral(), datasets.make_spiral(noise=0.5)
    np.testing.assert_array_equal(plain.truth, noisy.truth)
    moved = (noisy.points - noisy.truth)[:600]
    assert moved.std() == pytest.approx(0.5, rel=0.1)


def test_concentric_circles():
    data = datasets.make_concentric_circles()
    assert np.bincount(data.labels).tolist() == [250, 250]
    assert (np.abs(data.points) <= 2).all(axis=1).mean() > 0.95
    np.testing.assert_allclose(np.hypot(*data.truth.T), np.repeat([0.9, 1.8], 250), rtol=1e-12)
    assert (data.points - data.truth).std() == pytest.approx(0.12, rel=0.1)
    for label in range(2):
        circle = data.truth[data.labels == label]
        gaps = np.hypot(*np.diff(np.vstack([circle, circle[:1]]), axis=0).T)
        np.testing.assert_allclose(gaps, gaps[0], rtol=1e-9)
    still = datasets.make_concentric_circles(noise=0, n_per_circle=10)
    np.testing.assert_array_equal(still.points, still.truth)


def test_noisy_circle():
    data = datasets.make_noisy_circle()
    circle, noise = data.points[data.labels == 0], data.points[data.labels == -1]
    assert (len(circle), len(noise)) == (200, 500)
    np.testing.assert_allclose(np.hypot(*circle.T), 1, rtol=1e-12)
    gaps = np.hypot(*np.diff(np.vstack([circle, circle[:1]]), axis=0).T)
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-9)
    assert np.abs(noise).max() <= 1
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(noise.var(axis=0), 1 / 3, atol=0.05)


def test_grids():
    grid = datasets.make_grid()
    np.testing.assert_array_equal(grid.points[[0, 1, 200, -1]], [(0, 0), (0, 1 / 199), (1 / 199, 0), (1, 1)])
    anisotropy = datasets.make_anisotropy_grid()
    assert np.bincount(anisotropy.labels).tolist() == [10000, 1001]
    square, line = anisotropy.points[:10000], anisotropy.points[10000:]
    np.testing.assert_array_equal(np.unique(square[:, 0]), np.arange(100) / 99)
    assert (line[:, 0] == 0.5).all()
    assert line[[0, 500, -1], 1].tolist() == [0, 0.5, 1]
    np.testing.assert_allclose(np.diff(line[:, 1]), 1e-3, rtol=1e-9)


def test_two_segments_have_the_moments_of_the_proposition():
    s1, s2, theta, (a0, b0), n = 2.0, 0.5, 1.1, (0.3, 1.2), 400
    data = datasets.make_two_segments(length1=s1, length2=s2, angle=theta, offset=(a0, b0), n=n)
    first, second = data.points[data.labels == 0], data.points[data.labels == 1]
    direction = np.array([math.cos(theta), math.sin(theta)])
    np.testing.assert_allclose(first.mean(axis=0), [s1 / 2, 0], atol=1e-12)
    np.testing.assert_allclose(second.mean(axis=0), [a0, b0] + s2 / 2 * direction, rtol=1e-12)
    discrete = 1 - 1 / n**2
    np.testing.assert_allclose(np.cov(first.T, bias=True), [[s1**2 / 12 * discrete, 0], [0, 0]], atol=1e-12)
    np.testing.assert_allclose(
        np.cov(second.T, bias=True), s2**2 / 12 * discrete * np.outer(direction, direction), atol=1e-12
    )


def test_load_passes_options_and_takes_underscores():
    assert len(datasets.load("noisy_circle", n=7, n_noise=0).points) == 7
    assert datasets.options("grid") == {"side": 200}


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: datasets.load("spirall"), ["'spirall'", *datasets.names()]),
        (lambda: datasets.load("grid", random_state=0), ["'grid'", "'random_state'", "side"]),
        (lambda: datasets.make_spiral(n=1), ["n=1", "at least 2"]),
        (lambda: datasets.make_spiral(n=2.5), ["n=2.5", "integer"]),
        (lambda: datasets.make_spiral(noise=-1), ["noise=-1", "at least 0"]),
        (lambda: datasets.make_spiral(turns=0), ["turns=0", "above 0"]),
        (lambda: datasets.make_spiral(random_state=-1), ["random_state=-1", "non-negative"]),
        (lambda: datasets.make_spiral(random_state="a"), ["random_state='a'", "Generator"]),
        (lambda: datasets.make_noisy_circle(n_noise=True), ["n_noise=True", "integer"]),
        (lambda: datasets.make_dumbbell(scale=(1, 2, 3)), ["scale=(1, 2, 3)", "two numbers"]),
        (lambda: datasets.make_dumbbell(scale=2.0), ["scale=2.0", "two numbers"]),
        (lambda: datasets.make_dumbbell(scale=(1, 0)), ["scale=0", "above 0"]),
        (lambda: datasets.make_concentric_circles(radii=(1, math.nan)), ["radii=nan", "finite"]),
        (lambda: datasets.make_two_segments(angle="x"), ["angle='x'", "finite number"]),
        (lambda: datasets.make_grid(side=1), ["side=1", "at least 2"]),
    ],
)
def test_errors_name_the_parameter_and_what_is_needed(call, parts):
    with pytest.raises(ValueError, match=re.escape(parts[0])) as caught:
        call()
    for part in parts[1:]:
        assert part in str(caught.value)


@pytest.mark.parametrize("module", ["_shapes", "_curves", "_registry"])
def test_docstring_examples(module):
    result = doctest.testmod(importlib.import_module(f"gaussian_transform.datasets.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
