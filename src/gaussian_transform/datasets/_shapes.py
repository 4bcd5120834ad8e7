"""Noise-free sets that ask for clusters: lines that meet, and blobs joined by a chain."""

from __future__ import annotations

import math
from types import MappingProxyType

import numpy as np

from gaussian_transform._typing import FloatArray
from gaussian_transform.datasets._dataset import Dataset, check_count, check_number, check_pair, labels_of_sizes

# The nine linear maps diag(a1, a2) of the chaining experiment, by the paper's name for them: e = a2/a1.
DUMBBELL_SCALES = MappingProxyType(
    {
        "1/1": (1.0, 1.0),
        "1/0.8": (0.8, 1.0),
        "1/0.6": (0.6, 1.0),
        "1/0.4": (0.4, 1.0),
        "1/0.2": (0.2, 1.0),
        "0.8/1": (1.0, 0.8),
        "0.6/1": (1.0, 0.6),
        "0.4/1": (1.0, 0.4),
        "0.2/1": (1.0, 0.2),
    }
)


def make_t_junction(*, junction_radius: float = 10.0) -> Dataset:
    """Make the T-junction: a vertical line of 200 points that stands on a horizontal line of 201.

    The vertical line goes from (0, 1) to (0, 200), the horizontal one from (-100, 0) to (100, 0), a point at every
    unit. The paper cuts it into four clusters.

    Parameters
    ----------
    junction_radius
        A point belongs to the junction if the closed ball of this radius around it holds points of both lines; the
        default is the paper's eps, so that the junction is where neighbourhoods are not straight.

    Returns
    -------
    Dataset
        401 points; labels 0 left arm, 1 right arm, 2 vertical arm, 3 junction.

    Examples
    --------
    >>> import numpy as np
    >>> junction = make_t_junction()
    >>> junction.points.shape, np.bincount(junction.labels).tolist()
    ((401, 2), [91, 91, 190, 29])
    """
    check_number("junction_radius", junction_radius, least=0)
    heights = np.arange(1.0, 201.0)
    places = np.arange(-100.0, 101.0)
    points = np.zeros((heights.size + places.size, 2))
    points[: heights.size, 1] = heights
    points[heights.size :, 0] = places
    # The nearest point of the other line is (0, 0) for the vertical line and (0, 1) for the horizontal one.
    in_vertical = np.where(heights <= junction_radius, 3, 2)
    in_horizontal = np.where(places < 0, 0, 1)
    in_horizontal[np.hypot(places, 1.0) <= junction_radius] = 3
    return Dataset(
        name="t-junction",
        points=points,
        labels=np.concatenate([in_vertical, in_horizontal]).astype(np.int64),
        truth=points.copy(),
        eps=10.0,
        lam=5.0,
        description="A vertical line of 200 points that stands on a horizontal line of 201 points.",
    )


def make_dumbbell(*, scale: tuple[float, float] = (1.0, 1.0)) -> Dataset:
    """Make the dumbbell: two blobs of 300 grid points each, joined by a chain of 200 points.

    The blobs have radius 1 and centres (-2, 0) and (2, 0); each is the 300 nodes of a square grid that are nearest to
    its centre, the outermost at distance 1. The chain is a row of 200 equally spaced points from (-1, 0) to (1, 0).

    Parameters
    ----------
    scale
        The numbers (a1, a2) of the linear map diag(a1, a2) that is applied to all points; `DUMBBELL_SCALES` has the
        nine of the paper by their eccentricity e = a2/a1.

    Returns
    -------
    Dataset
        800 points; labels 0 left blob, 1 right blob, 2 chain.

    Notes
    -----
    The paper says "300 uniform grid points in a circle of radius 1" and "200 uniform grid points with length 2". If the
    chain is a single row, single linkage fails on the raw points and GT (eps=0.2, lam=1, one to four iterations) finds
    the three parts with an adjusted Rand index of 0.98; if it is a strip of the blobs' own grid (10 rows of 20), it
    does not.

    Examples
    --------
    >>> dumbbell = make_dumbbell(scale=DUMBBELL_SCALES["1/0.2"])
    >>> dumbbell.points.shape, dumbbell.points.max(axis=0).round(3).tolist()
    ((800, 2), [0.583, 0.914])
    """
    check_pair("scale", scale, above=0)
    right = _blob() + np.array([2.0, 0.0])
    chain = np.column_stack([np.linspace(-1.0, 1.0, 200), np.zeros(200)])
    points = np.concatenate([right * [-1.0, 1.0], right, chain]) * scale
    return Dataset(
        name="dumbbell",
        points=points,
        labels=labels_of_sizes(300, 300, 200),
        truth=points.copy(),
        eps=0.2,
        lam=1.0,
        description="Two blobs of 300 grid points joined by a chain of 200 points.",
    )


def _blob() -> FloatArray:
    """Return the 300 nodes of a square grid nearest to the origin, scaled to radius 1.

    The grid has a node in the centre, so that the chain goes on from a row of it. 301 nodes have i² + j² ≤ 97: of the
    eight with 97 the last one, (9, 4), which is turned away from the chain in both blobs, is left out.
    """
    steps = np.arange(-9.0, 10.0)
    nodes = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    nodes = nodes[np.square(nodes).sum(axis=1) <= 97][:-1]
    blob: FloatArray = nodes / math.sqrt(97)
    return blob


def make_two_segments(
    *,
    length1: float = 1.0,
    length2: float = 0.8,
    angle: float = math.pi / 4,
    offset: tuple[float, float] = (0.2, 0.4),
    n: int = 100,
) -> Dataset:
    """Make points on two line segments, the setting of the paper's Proposition on line segments.

    The segments are l₁(t) = (t·s₁, 0) and l₂(t) = (a₀ + t·s₂·cos θ, b₀ + t·s₂·sin θ) for t in [0, 1].

    Parameters
    ----------
    length1, length2
        The lengths s₁ and s₂.
    angle
        The angle θ between them, in radians.
    offset
        Where the second segment starts, (a₀, b₀).
    n
        The number of points on each segment: the midpoints of its n equal pieces. Their mean is the segment's centre
        and their variance along it s²/12·(1 − 1/n²), where the normalised length measure has s²/12.

    Returns
    -------
    Dataset
        2n points; the label is the segment.

    Examples
    --------
    >>> segments = make_two_segments(length1=2.0, n=1000)
    >>> round(float(segments.points[:1000, 0].var()), 5)  # 2²/12
    0.33333
    """
    check_number("length1", length1, above=0)
    check_number("length2", length2, above=0)
    check_number("angle", angle)
    check_count("n", n, 1)
    check_pair("offset", offset)
    t = (np.arange(n) + 0.5) / n
    first = np.column_stack([t * length1, np.zeros(n)])
    second = np.asarray(offset, dtype=float) + np.outer(t * length2, [math.cos(angle), math.sin(angle)])
    points = np.concatenate([first, second])
    return Dataset(
        name="two-segments",
        points=points,
        labels=labels_of_sizes(n, n),
        truth=points.copy(),
        eps=None,
        lam=None,
        description="Equally spaced points on two line segments.",
    )


def make_grid(*, side: int = 200) -> Dataset:
    """Make the square grid {(i/(s−1), j/(s−1))} on which the paper validates its accelerations.

    Parameters
    ----------
    side
        The number s of points along each side of the unit square.

    Returns
    -------
    Dataset
        side² points, all with label 0.

    Examples
    --------
    >>> make_grid(side=3).points[:4].tolist()
    [[0.0, 0.0], [0.0, 0.5], [0.0, 1.0], [0.5, 0.0]]
    """
    check_count("side", side, 2)
    points = _unit_grid(side)
    return Dataset(
        name="grid",
        points=points,
        labels=labels_of_sizes(side * side),
        truth=points.copy(),
        eps=0.1,
        lam=1.0,
        description="A square grid of points that fills the unit square.",
    )


def make_anisotropy_grid(*, side: int = 100, n_line: int = 1001) -> Dataset:
    """Make the grid with a dense line on which the paper shows that neighbourhoods of the GT distance are anisotropic.

    Parameters
    ----------
    side
        The number of grid points along each side of the unit square.
    n_line
        The number of equally spaced points on the segment from (0.5, 0) to (0.5, 1).

    Returns
    -------
    Dataset
        side² + n_line points; labels 0 grid, 1 line. With the default sizes (0.5, 0.5), the centre of the paper's
        balls, is the point with index 10500.

    Examples
    --------
    >>> anisotropy = make_anisotropy_grid()
    >>> len(anisotropy.points), anisotropy.points[10500].tolist()
    (11001, [0.5, 0.5])
    """
    check_count("side", side, 2)
    check_count("n_line", n_line, 2)
    line = np.column_stack([np.full(n_line, 0.5), np.linspace(0.0, 1.0, n_line)])
    points = np.concatenate([_unit_grid(side), line])
    return Dataset(
        name="anisotropy-grid",
        points=points,
        labels=labels_of_sizes(side * side, n_line),
        truth=points.copy(),
        eps=0.2,
        lam=None,
        description="A square grid of points with a dense vertical line through its middle.",
    )


def _unit_grid(side: int) -> FloatArray:
    # Division by side − 1 and not multiplication by a step: i/(s−1) as the paper writes it, ending in 1 exactly.
    steps = np.arange(side) / (side - 1)
    return np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
