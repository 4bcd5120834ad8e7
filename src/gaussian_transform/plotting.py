"""Pictures of point clouds, their local Gaussians and their hierarchies.

Every function draws into the axes it is given and returns them, so that they combine with each other and with a
figure of your own. matplotlib is imported on first use and comes with ``pip install "gaussian-transform[plot]"``.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gaussian_transform._typing import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["INK", "MUTED", "PALETTE", "before_after", "dendrogram", "ellipses", "label_colors", "scatter", "subplots"]

# Okabe and Ito's colours, told apart by readers with any of the usual colour deficiencies; the darkest first.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK = "#1f2933"
MUTED = "#9aa5b1"


def _matplotlib(module: str) -> Any:
    """Import a part of matplotlib, or say how to install it."""
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError as error:
        message = 'Plotting needs matplotlib, which is not installed: run pip install "gaussian-transform[plot]".'
        raise ImportError(message) from error


def _planar(points: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(points, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 2:
        message = (
            f"{name} has the shape {array.shape}, but plotting needs (n, 2): choose two columns, as in {name}[:, :2]."
        )
        raise ValueError(message)
    return array


def subplots(
    n_rows: int = 1, n_columns: int = 1, *, size: tuple[float, float] = (6.0, 4.0), **options: Any
) -> tuple[Figure, Any]:
    """Return a new figure and its axes, for writing to a file: no window and no global state, unlike pyplot's.

    Parameters
    ----------
    n_rows, n_columns : int
        Number of axes.
    size : pair of float
        Width and height in inches.
    **options
        Passed on to ``matplotlib.figure.Figure.subplots``.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Write it with ``figure.savefig("picture.png")``.
    axes : matplotlib.axes.Axes or array of them
        To hand to the other functions.

    Examples
    --------
    >>> from gaussian_transform.plotting import subplots
    >>> figure, axes = subplots(1, 2)
    >>> axes.shape
    (2,)
    """
    figure: Figure = _matplotlib("figure").Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, **options)


def label_colors(labels: ArrayLike) -> AnyArray:
    """Return the colour of each label: the same one in every picture.

    Parameters
    ----------
    labels : array of int of shape (n,)
        Cluster of each point, counted from 0; -1 stands for noise and is grey. Colours repeat after seven clusters.

    Returns
    -------
    array of shape (n,)
        Colours as strings such as ``"#0072B2"``.

    Examples
    --------
    >>> from gaussian_transform.plotting import label_colors
    >>> [str(color) for color in label_colors([0, 1, -1])]
    ['#0072B2', '#D55E00', '#9aa5b1']
    """
    codes = np.asarray(labels)
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        message = (
            f"labels has the shape {codes.shape} and the type {codes.dtype}, but one integer for each point is needed: "
            "pass labels_, or number your classes by numpy.unique(classes, return_inverse=True)[1]."
        )
        raise ValueError(message)
    colors: AnyArray = np.where(codes < 0, MUTED, np.array(PALETTE)[codes % len(PALETTE)])
    return colors


def scatter(
    ax: Axes,
    points: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    color: str = INK,
    size: float = 6.0,
    title: str | None = None,
    frame: bool = False,
) -> Axes:
    """Draw a planar point cloud at equal scales, coloured by cluster if `labels` are given.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    points : array of shape (n, 2)
        Where the points are.
    labels : array of shape (n,), optional
        Cluster of each point; -1 is noise.
    color : str
        Colour of all points when there are no labels.
    size : float
        Area of a marker in points squared.
    title : str, optional
        Written above, on the left.
    frame : bool
        Whether to keep the axes' box and ticks.

    Returns
    -------
    matplotlib.axes.Axes
        `ax` itself.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from gaussian_transform.plotting import scatter
    >>> ax = scatter(Figure().subplots(), [[0, 0], [1, 0]], labels=[0, 1], title="two points")
    >>> len(ax.collections[0].get_offsets())
    2
    """
    array = _planar(points, "points")
    if labels is None:
        ax.scatter(array[:, 0], array[:, 1], s=size, c=color, linewidths=0)
    else:
        colors = label_colors(labels)
        from_below = np.argsort(colors != MUTED, kind="stable")  # noise lies under the clusters
        across, up = array[from_below].T
        ax.scatter(across, up, s=size, c=colors[from_below].tolist(), linewidths=0)
    return _finish(ax, title, frame)


def ellipses(
    ax: Axes,
    points: ArrayLike,
    covariances: ArrayLike,
    *,
    scale: float = 1.0,
    every: int = 1,
    color: str = PALETTE[0],
    alpha: float = 0.25,
    title: str | None = None,
    frame: bool = False,
) -> Axes:
    """Draw each local Gaussian N(x, Σ) as the ellipse {x + v : vᵀ Σ⁻¹ v = scale²}.

    A semi-definite Σ gives a line, and Σ = 0 (an isolated point) a dot.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    points : array of shape (n, 2)
        Centres.
    covariances : array of shape (n, 2, 2)
        Covariances, as in ``covariances_`` of a fitted transform.
    scale : float
        Number of standard deviations from the centre to the ellipse.
    every : int
        Draw every so many points only.
    color, alpha : str, float
        Colour of outlines and inside, and the opacity of the inside.
    title, frame
        As in :func:`scatter`.

    Returns
    -------
    matplotlib.axes.Axes
        `ax` itself.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from gaussian_transform.plotting import ellipses
    >>> ax = ellipses(Figure().subplots(), [[0, 0]], [np.diag([4.0, 1.0])])
    >>> [float(side) for side in (ax.collections[0].get_widths()[0], ax.collections[0].get_heights()[0])]
    [2.0, 4.0]
    """
    centres = _planar(points, "points")[::every]
    matrices = np.asarray(covariances, dtype=np.float64)[::every]
    if matrices.shape != (len(centres), 2, 2):
        message = (
            f"covariances has the shape {np.shape(covariances)}, but one 2 x 2 matrix for each of the "
            f"{len(np.asarray(points))} points is needed: pass covariances_ of the transform fitted on them."
        )
        raise ValueError(message)
    variances, axes = np.linalg.eigh(matrices)
    widths, heights = 2.0 * scale * np.sqrt(np.maximum(variances, 0.0)).T
    angles = np.degrees(np.arctan2(axes[:, 1, 0], axes[:, 0, 0]))
    collection = _matplotlib("collections").EllipseCollection(
        widths,
        heights,
        angles,
        units="xy",
        offsets=centres,
        offset_transform=ax.transData,
        facecolors=_matplotlib("colors").to_rgba(color, alpha),
        edgecolors=_matplotlib("colors").to_rgba(color, min(1.0, 2.5 * alpha)),
        linewidths=0.7,
    )
    ax.add_collection(collection)
    reach = np.maximum(widths, heights)[:, None] / 2.0
    ax.update_datalim(np.concatenate([centres - reach, centres + reach]))
    ax.autoscale_view()
    return _finish(ax, title, frame)


def before_after(
    axes: Sequence[Axes],
    before: ArrayLike,
    after: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    titles: tuple[str, str] = ("before", "after"),
    size: float = 6.0,
) -> Sequence[Axes]:
    """Draw a planar cloud before and after a transform in two axes, both with the same limits.

    Parameters
    ----------
    axes : sequence of two matplotlib.axes.Axes
        Where to draw, such as ``plt.subplots(1, 2)[1]``.
    before, after : arrays of shape (n, 2)
        The points in the same order, such as the data and ``points_``.
    labels : array of shape (n,), optional
        Cluster of each point.
    titles : pair of str
        Written above the two.
    size : float
        Area of a marker in points squared.

    Returns
    -------
    sequence of matplotlib.axes.Axes
        `axes` itself.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from gaussian_transform.plotting import before_after
    >>> left, right = before_after(Figure().subplots(1, 2), [[0, 0], [2, 0]], [[1, 0], [1, 0]])
    >>> left.get_xlim() == right.get_xlim()
    True
    """
    for ax, points, title in zip(axes, (before, after), titles, strict=True):
        scatter(ax, points, labels, size=size, title=title)
    first, second = axes
    for limits, assign in ((first.get_xlim, second.set_xlim), (first.get_ylim, second.set_ylim)):
        assign(limits())
    return axes


def dendrogram(
    ax: Axes,
    tree: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    title: str | None = None,
    max_height: float | None = None,
) -> Axes:
    """Draw a hierarchy of merges; a branch whose points all share a label has that label's colour.

    Unlike SciPy's, the drawing is not recursive: the long chains of single linkage are no trouble.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    tree : array of shape (n - 1, 4)
        Merges in SciPy's format, as from ``linkage()`` of a fitted transform.
    labels : array of shape (n,), optional
        Cluster of each point.
    title : str, optional
        Written above, on the left.
    max_height : float, optional
        Upper end of the vertical axis.

    Returns
    -------
    matplotlib.axes.Axes
        `ax` itself.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from gaussian_transform.plotting import dendrogram
    >>> ax = dendrogram(Figure().subplots(), [[0, 1, 0.5, 2], [3, 2, 2.0, 3]])
    >>> len(ax.collections[0].get_segments())
    2
    """
    merges = np.asarray(tree, dtype=np.float64)
    if merges.ndim != 2 or merges.shape[1] != 4 or len(merges) == 0:
        message = (
            f"tree has the shape {merges.shape}, but SciPy's format (n - 1, 4) with n >= 2 is needed: pass linkage()."
        )
        raise ValueError(message)
    n = len(merges) + 1
    children = merges[:, :2].astype(np.int64)
    colors = np.full(n, INK) if labels is None else label_colors(labels)
    across, height, color = _layout(children, merges[:, 2], colors)
    left, right = children.T
    top = merges[:, 2]
    corners = [(across[left], height[left]), (across[left], top), (across[right], top), (across[right], height[right])]
    lines = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)
    # Of many leaves, lines this thin leave some paper between them; what joins the clusters is drawn to be seen.
    widths = np.where(color[n:] == MUTED, 1.0, min(max(160.0 / n, 0.25), 1.0))
    ax.add_collection(_matplotlib("collections").LineCollection(lines, colors=color[n:].tolist(), linewidths=widths))
    ax.set_xlim(-0.01 * n, 1.01 * n)
    ax.set_ylim(0.0, max_height if max_height is not None else 1.04 * (float(top.max()) or 1.0))
    ax.set_xticks([])
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)
    ax.tick_params(labelsize=8, colors=INK)
    if title is not None:
        ax.set_title(title, loc="left", fontsize=10, color=INK)
    return ax


def _layout(children: IntArray, heights: FloatArray, colors: AnyArray) -> tuple[FloatArray, FloatArray, AnyArray]:
    """Place the leaves side by side and each merge midway over its two branches."""
    n = len(children) + 1
    sizes = np.ones(2 * n - 1, dtype=np.int64)
    for k, (left, right) in enumerate(children):
        sizes[n + k] = sizes[left] + sizes[right]
    start = np.zeros(2 * n - 1, dtype=np.int64)
    for k in range(n - 2, -1, -1):  # parents come after their children, so downwards means backwards
        left, right = children[k]
        start[left] = start[n + k]
        start[right] = start[n + k] + sizes[left]
    across: FloatArray = start + np.float64(0.5)
    height: FloatArray = np.concatenate([np.zeros(n), heights])
    color = np.concatenate([colors, np.full(n - 1, MUTED, dtype=colors.dtype)])
    for k, (left, right) in enumerate(children):
        across[n + k] = (across[left] + across[right]) / 2.0
        if color[left] == color[right]:
            color[n + k] = color[left]
    return across, height, color


def _finish(ax: Axes, title: str | None, frame: bool) -> Axes:
    ax.set_aspect("equal", adjustable="datalim" if frame else "box")
    if not frame:
        ax.set_axis_off()
    if title is not None:
        ax.set_title(title, loc="left", fontsize=10, color=INK)
    return ax
