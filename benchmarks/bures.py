"""All pairs of Bures distances: the package against POT, on definite and on semi-definite covariances."""

from __future__ import annotations

import warnings

import numpy as np

import gaussian_transform as gt
from benchmarks.report import best_of, print_table


def covariances(n: int, m: int, n_points: int) -> np.ndarray:
    """Return covariances of random neighbourhoods: of rank min(m, n_points - 1)."""
    points = np.random.default_rng(0).normal(size=(n, n_points, m))
    points -= points.mean(axis=1, keepdims=True)
    return np.einsum("nki,nkj->nij", points, points) / n_points


def _pot_answer(covs: np.ndarray) -> np.ndarray | str:
    """Return POT's distances, or why there are none."""
    try:
        import ot
    except ImportError:
        return "not installed"
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return ot.gaussian.bures_distance(covs, covs)
    except (ValueError, np.linalg.LinAlgError) as error:
        return f"raises {type(error).__name__}"


def _row(m: int, n_points: int, n: int) -> list[str]:
    covs = covariances(n, m, n_points)
    ours, theirs = gt.bures_distances(covs), _pot_answer(covs)
    start = [f"{m} x {m}, rank {min(m, n_points - 1)}, {n} x {n} pairs"]
    finite = "all" if np.isfinite(ours).all() else "NOT ALL"
    if isinstance(theirs, str):
        (seconds,) = best_of(3, lambda: gt.bures_distances(covs))
        return [*start, f"{seconds:.4f}", theirs, "-", finite, "-", "-"]
    seconds, pot_seconds = best_of(3, lambda: gt.bures_distances(covs), lambda: _pot_answer(covs))
    usable = np.isfinite(theirs)
    difference = np.abs(theirs - ours)[usable].max(initial=0.0) / np.sqrt(np.trace(covs, axis1=1, axis2=2).max())
    gain = f"{pot_seconds / seconds:,.0f}x"
    return [
        *start,
        f"{seconds:.4f}",
        f"{pot_seconds:.4f}",
        gain,
        finite,
        f"{np.mean(~usable):.0%}",
        f"{difference:.0e}",
    ]


def main() -> None:
    sizes = ((2, 20, 400), (2, 2, 400), (3, 20, 400), (3, 3, 400), (10, 40, 100), (10, 5, 100), (50, 200, 10))
    print_table(
        "Bures distances of all pairs, best of 3, in seconds",
        ["covariances", "gaussian-transform", "POT", "faster", "ours finite", "POT not finite", "greatest difference"],
        [_row(*size) for size in sizes],
        "Differences are relative to the root of the largest trace. Low rank is what small neighbourhoods give.",
    )
