"""Curves hidden in noise: the sets of the denoising experiments."""

from __future__ import annotations

import math

import numpy as np

from gaussian_transform._typing import FloatArray
from gaussian_transform.datasets._dataset import (
    OUTLIER,
    Dataset,
    check_count,
    check_number,
    check_pair,
    generator,
    labels_of_sizes,
)


def make_spiral(
    *,
    n: int = 600,
    n_outliers: int = 150,
    turns: float = 3.0,
    noise: float = 0.0,
    random_state: int | np.random.Generator | None = 0,
) -> Dataset:
    """Make a spiral in the square [-30, 30]² together with uniform outliers.

    It is the Archimedean spiral r = 30·θ/(2π·turns), its points equally spaced along the arc from the centre to
    radius 30.

    Parameters
    ----------
    n
        The number of points on the spiral.
    n_outliers
        The number of outliers, drawn uniformly from the square.
    turns
        How often it winds around the centre; neighbouring turns are 30/turns apart. The paper does not say: with the
        default 3 they stay apart at its eps of 4.
    noise
        Standard deviation of Gaussian noise in each coordinate of the points of the spiral; the paper adds none.
    random_state
        Seed or generator; None for a different set each time.

    Returns
    -------
    Dataset
        n + n_outliers points; labels 0 spiral, -1 outliers.

    Examples
    --------
    >>> spiral = make_spiral()
    >>> spiral.points.shape, int((spiral.labels == -1).sum())
    ((750, 2), 150)
    """
    check_count("n", n, 2)
    check_count("n_outliers", n_outliers, 0)
    check_number("turns", turns, above=0)
    check_number("noise", noise, least=0)
    rng = generator(random_state)
    largest_angle = 2 * math.pi * turns
    angles = _spiral_angles(np.linspace(0.0, _arc_length(np.array(largest_angle)), n))
    curve = (30 * angles / largest_angle)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    return _with_outliers(
        curve,
        curve + noise * rng.standard_normal(curve.shape),
        rng.uniform(-30.0, 30.0, (n_outliers, 2)),
        name="spiral",
        eps=4.0,
        lam=1.0,
        description="A spiral among uniform outliers.",
    )


def _arc_length(angles: FloatArray) -> FloatArray:
    """Return the length of the spiral r = θ from the centre to each angle."""
    return (angles * np.hypot(1.0, angles) + np.arcsinh(angles)) / 2


def _spiral_angles(lengths: FloatArray) -> FloatArray:
    """Invert `_arc_length` by Newton's method.

    The length is convex in θ and at least θ²/2, so from √(2·length) the steps come down to the root without passing it.
    """
    angles = np.sqrt(2 * lengths)
    for _ in range(10):
        angles -= (_arc_length(angles) - lengths) / np.hypot(1.0, angles)
    return angles


def make_concentric_circles(
    *,
    n_per_circle: int = 250,
    noise: float = 0.12,
    radii: tuple[float, float] = (0.9, 1.8),
    random_state: int | np.random.Generator | None = 0,
) -> Dataset:
    """Make two concentric circles in the square [-2, 2]² whose points are randomly perturbed.

    Parameters
    ----------
    n_per_circle
        The number of points on each circle, equally spaced before they are perturbed.
    noise
        Standard deviation of the Gaussian perturbation of each coordinate. The paper only says "small".
    radii
        Radii of the inner and the outer circle, which the paper does not give. With the default some points stray
        between the circles to within the paper's eps of 0.7 of both, so that the transform absorbs them better than
        mean shift, as in the paper; few points lie outside the square.
    random_state
        Seed or generator; None for a different set each time.

    Returns
    -------
    Dataset
        2·n_per_circle points; labels 0 inner circle, 1 outer circle.

    Examples
    --------
    >>> import numpy as np
    >>> circles = make_concentric_circles()
    >>> circles.points.shape, np.hypot(*circles.truth.T)[[0, -1]].tolist()
    ((500, 2), [0.9, 1.8])
    """
    check_count("n_per_circle", n_per_circle, 1)
    check_number("noise", noise, least=0)
    check_pair("radii", radii, above=0)
    truth = np.concatenate([radius * _unit_circle(n_per_circle) for radius in radii])
    return Dataset(
        name="concentric-circles",
        points=truth + noise * generator(random_state).standard_normal(truth.shape),
        labels=labels_of_sizes(n_per_circle, n_per_circle),
        truth=truth,
        eps=0.7,
        lam=2.5,
        description="Two concentric circles of randomly perturbed points.",
    )


def make_noisy_circle(
    *, n: int = 200, n_noise: int = 500, random_state: int | np.random.Generator | None = 0
) -> Dataset:
    """Make a unit circle buried in uniform noise.

    Parameters
    ----------
    n
        The number of points on the circle, equally spaced.
    n_noise
        The number of noise points, drawn uniformly from the square [-1, 1]².
    random_state
        Seed or generator; None for a different set each time.

    Returns
    -------
    Dataset
        n + n_noise points; labels 0 circle, -1 noise.

    Examples
    --------
    >>> make_noisy_circle().points.shape
    (700, 2)
    """
    check_count("n", n, 1)
    check_count("n_noise", n_noise, 0)
    circle = _unit_circle(n)
    return _with_outliers(
        circle,
        circle.copy(),
        generator(random_state).uniform(-1.0, 1.0, (n_noise, 2)),
        name="noisy-circle",
        eps=0.7,
        lam=10.0,
        description="A circle buried in uniform noise.",
    )


def _unit_circle(n: int) -> FloatArray:
    angles = 2 * math.pi * np.arange(n) / n
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _with_outliers(
    truth: FloatArray,
    points: FloatArray,
    outliers: FloatArray,
    *,
    name: str,
    eps: float,
    lam: float,
    description: str,
) -> Dataset:
    return Dataset(
        name=name,
        points=np.concatenate([points, outliers]),
        labels=np.repeat(np.array([0, OUTLIER], dtype=np.int64), [len(points), len(outliers)]),
        truth=np.concatenate([truth, np.full(outliers.shape, np.nan)]),
        eps=eps,
        lam=lam,
        description=description,
    )
