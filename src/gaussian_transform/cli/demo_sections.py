"""What the demonstration shows: each section computes, measures and draws one thing."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gaussian_transform import datasets, plotting
from gaussian_transform._typing import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 160


@dataclass(frozen=True)
class Section:
    """One section of the page.

    Attributes
    ----------
    name : str
        Name of its picture's file, without the ending.
    title, text, caption : str
        What the reader is told; `caption` describes the picture.
    picture : bytes
        The picture as a PNG file.
    measured : list of rows
        A small table of what was measured just now, its header first.
    code : str
        The Python lines that do the same.
    """

    name: str
    title: str
    text: str
    caption: str
    picture: bytes
    measured: list[tuple[str, ...]]
    code: str


def local_gaussians() -> Section:
    """Show the local Gaussians of three clouds."""
    import gaussian_transform as gt

    figure, axes = plotting.subplots(1, 3, size=(9.0, 3.0))
    clouds = (
        ("two blobs and a chain", datasets.load("dumbbell").points, 0.2, 0.5, (0.55, 2.35, -0.9, 0.9)),
        ("T-junction", datasets.load("t-junction").points, 10.0, 1.0, (-28.0, 28.0, -14.0, 42.0)),
        ("noisy spiral", datasets.make_spiral(noise=0.8, n_outliers=0).points, 4.0, 1.0, (-12.0, 17.0, -17.0, 12.0)),
    )
    measured: list[tuple[str, ...]] = [("data", "points", "ε", "all covariances in")]
    for ax, (name, points, eps, scale, (left, right, bottom, top)) in zip(axes, clouds, strict=True):
        transform = gt.GaussianTransform(eps=eps, n_iter=0)
        seconds, _ = _timed(transform.fit, points)
        plotting.ellipses(ax, points, transform.covariances_, scale=scale, alpha=0.14)
        plotting.scatter(ax, points, size=3, title=name)
        ax.set(xlim=(left, right), ylim=(bottom, top))
        measured.append((name, f"{len(points)}", f"{eps:g}", _milliseconds(seconds)))
    return Section(
        name="local-gaussians",
        title="Every point becomes a Gaussian",
        text="""
            The covariance of the points within a radius ε says what the neighbourhood looks like: round inside a
            blob, flat on a line, something between where lines meet. The distance between two points is the Wasserstein
            distance between their Gaussians, d² = ‖x − x′‖² + λ·dcov²(Σ, Σ′), so that points in different
            surroundings are far apart even when they touch.
        """,
        caption="Local Gaussians as ellipses: where a chain meets a blob, where lines meet, and around a noisy spiral.",
        picture=_png(figure),
        measured=measured,
        code="""
            import gaussian_transform as gt
            from gaussian_transform import plotting

            points = gt.datasets.load("dumbbell").points
            transform = gt.GaussianTransform(eps=0.2, n_iter=0).fit(points)

            figure, ax = plotting.subplots()
            plotting.ellipses(ax, points, transform.covariances_, scale=0.5)
            figure.savefig("local-gaussians.png")
        """,
    )


def dumbbell() -> Section:
    """Cluster two blobs joined by a chain."""
    return _clustering(
        "dumbbell",
        eps=0.2,
        lam=5.0,
        size=(9.0, 3.5),
        title="Two blobs and a chain",
        text="""
            Single linkage merges whatever touches, and here everything touches: it cannot see two blobs and a chain.
            In the distance between local Gaussians the thin chain is far from the round blobs, and the same single
            linkage finds the three parts.
        """,
    )


def t_junction() -> Section:
    """Cluster the T-junction."""
    return _clustering(
        "t-junction",
        eps=10.0,
        lam=5.0,
        size=(9.0, 4.8),
        title="Where lines meet",
        text="""
            Three arms of evenly spaced points: every gap is the same, so that no threshold on Euclidean distances
            separates them. The local Gaussians of the arms point in different directions, and the junction has a shape
            of its own.
        """,
    )


def spiral() -> Section:
    """Denoise a spiral among outliers."""
    return _denoising(
        datasets.make_spiral(noise=0.8),
        datasets.make_spiral(n=20_000, n_outliers=0).points,
        maker="make_spiral(noise=0.8)",
        eps=4.0,
        lam=1.0,
        title="A spiral among outliers",
        text="""
            600 points around a spiral, and 150 scattered anywhere. Each point moves to the mean of what is near in
            the GT distance: two iterations draw the spiral and take in the outliers close to it, while lone ones stay.
        """,
    )


def circles() -> Section:
    """Denoise two circles."""
    return _denoising(
        datasets.make_concentric_circles(),
        datasets.make_concentric_circles(n_per_circle=5_000, noise=0.0).points,
        maker="make_concentric_circles()",
        eps=0.35,
        lam=1.0,
        title="Two circles",
        text="""
            Two circles of 250 points each, blurred by noise. After two iterations they are thin curves again, and
            still two.
        """,
    )


SECTIONS: tuple[Callable[[], Section], ...] = (local_gaussians, dumbbell, t_junction, spiral, circles)


def compile_kernels() -> None:
    """Have every kernel that the sections use compiled or loaded, so that it is not measured."""
    import gaussian_transform as gt

    points = datasets.load("grid", side=10).points
    gt.GaussianTransformClustering(eps=0.2, n_iter=2, n_clusters=2).fit(points)


def _clustering(name: str, *, eps: float, lam: float, size: tuple[float, float], title: str, text: str) -> Section:
    from scipy.cluster.hierarchy import linkage
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics import adjusted_rand_score

    import gaussian_transform as gt

    data = datasets.load(name)
    n = int(data.labels.max()) + 1
    plain = AgglomerativeClustering(n_clusters=n, linkage="single")
    ours = gt.GaussianTransformClustering(eps=eps, lam=lam, n_iter=2, n_clusters=n)
    plain_seconds, _ = _timed(plain.fit, data.points)
    seconds, _ = _timed(ours.fit, data.points)
    trees = linkage(data.points, "single"), ours.linkage_matrix_
    figure, axes = plotting.subplots(2, 2, size=size, height_ratios=[size[1] - 1.8, 1.8])
    measured: list[tuple[str, ...]] = [("single linkage in the", "agreement with the truth", "time")]
    names = "Euclidean distance", f"GT distance, ε = {eps:g}, λ = {lam:g}, 2 iterations"
    for column, (model, tree, time_taken) in enumerate(
        zip((plain, ours), trees, (plain_seconds, seconds), strict=True)
    ):
        labels = _like(model.labels_, data.labels)
        plotting.scatter(axes[0, column], data.points, labels, title=names[column].split(",")[0], size=7)
        plotting.dendrogram(axes[1, column], tree, labels)
        score = max(0.0, adjusted_rand_score(data.labels, labels))  # no "-0.00"
        measured.append((names[column], f"{score:.2f}", _milliseconds(time_taken)))
    return Section(
        name=name,
        title=title,
        text=text,
        caption=f"{n} clusters and the trees they are cut from, in the Euclidean (left) and the GT distance (right).",
        picture=_png(figure),
        measured=measured,
        code=f"""
            import gaussian_transform as gt

            points = gt.datasets.load("{name}").points
            model = gt.GaussianTransformClustering(eps={eps}, lam={lam}, n_iter=2, n_clusters={n})
            labels = model.fit_predict(points)
        """,
    )


def _denoising(
    data: datasets.Dataset, curve: FloatArray, *, maker: str, eps: float, lam: float, title: str, text: str
) -> Section:
    import gaussian_transform as gt

    seconds, transform = _timed(gt.GaussianTransform(eps=eps, lam=lam, n_iter=2).fit, data.points)
    figure, axes = plotting.subplots(1, 2, size=(9.0, 4.6))
    plotting.before_after(axes, data.points, transform.points_, data.labels, size=9)
    is_on_curve = data.labels >= 0
    before, after = (_errors(points[is_on_curve], curve) for points in (data.points, transform.points_))
    return Section(
        name=data.name,
        title=title,
        text=text,
        caption="Before and after two iterations." + ("" if is_on_curve.all() else " The outliers are grey."),
        picture=_png(figure),
        measured=[
            (f"ε = {eps:g}, λ = {lam:g}, {_milliseconds(seconds)}", "before", "after"),
            ("noise: from its points to the true curve, root mean square", f"{before[0]:.3f}", f"{after[0]:.3f}"),
            ("coverage: from the true curve to the nearest point, mean", f"{before[1]:.3f}", f"{after[1]:.3f}"),
        ],
        code=f"""
            import gaussian_transform as gt

            points = gt.datasets.{maker}.points
            denoised = gt.GaussianTransform(eps={eps}, lam={lam}, n_iter=2).fit_transform(points)
        """,
    )


def _errors(points: FloatArray, curve: FloatArray) -> tuple[float, float]:
    """Return how far the points are from the curve, and the curve from the points: the second tells a collapse."""
    from scipy.spatial import cKDTree

    to_curve, to_points = cKDTree(curve).query(points)[0], cKDTree(points).query(curve)[0]
    return float(np.sqrt(np.mean(np.square(to_curve)))), float(np.mean(to_points))


def _like(labels: IntArray, truth: IntArray) -> IntArray:
    """Rename labels to those of the truth that they overlap most, so that panels share their colours."""
    from scipy.optimize import linear_sum_assignment

    overlap = np.zeros((int(labels.max()) + 1, int(truth.max()) + 1))
    np.add.at(overlap, (labels, truth), 1)
    renamed: IntArray = linear_sum_assignment(-overlap)[1][labels]
    return renamed


def _timed(function: Callable[[FloatArray], Any], points: FloatArray) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = function(points)
    return time.perf_counter() - begin, result


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 0.01 else f"{1000 * seconds:.0f} ms"


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
