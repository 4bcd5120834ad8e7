"""k nearest neighbours in the GT distance in 784 dimensions: exact, and how few pairs need singular values."""

from __future__ import annotations

import time

import numpy as np

import gaussian_transform as gt
from benchmarks.report import print_table
from gaussian_transform._pairs import Tally
from gaussian_transform.distances import gt_distances, nearest

N, M, N_NEIGHBORS, N_CHECKED = 2_000, 784, 10, 100


def digits_like(n: int, m: int) -> np.ndarray:
    """Return points near ten curved sheets of six dimensions, as images of digits are."""
    rng = np.random.default_rng(0)
    kind = rng.integers(10, size=n)
    hidden = rng.normal(size=(n, 6))
    maps = rng.normal(size=(10, 12, m)) / np.sqrt(m)
    features = np.hstack([hidden, 0.5 * np.sin(2.0 * hidden)])
    centers = 2.0 * rng.normal(size=(10, m)) / np.sqrt(m)
    return centers[kind] + np.einsum("nk,nkm->nm", features, maps[kind]) + 0.003 * rng.normal(size=(n, m))


def main() -> None:
    points = digits_like(N, M)
    rows = []
    for lam in (0.3, 1.0, 5.0):
        begin = time.perf_counter()
        model = gt.GaussianTransform(lam=lam, n_iter=0).fit(points)
        fitted = time.perf_counter()
        gaussians, tally = model._gaussians(), Tally()
        distances, indices = nearest(gaussians, lam, gaussians, N_NEIGHBORS + 1, tally=tally)
        seconds = time.perf_counter() - fitted
        checked = np.arange(0, N, N // N_CHECKED)
        full = gt_distances(gaussians.take(checked), lam, gaussians)
        best = np.sort(full, axis=1)[:, : N_NEIGHBORS + 1]
        difference = np.abs(np.take_along_axis(full, indices[checked], axis=1) - best).max()
        difference = max(difference, np.abs(distances[checked] - best).max()) * model._frame.unit
        rows.append(
            [
                f"lam={lam:g}, eps={model.eps_:.3g}",
                f"{fitted - begin:.1f}",
                f"{seconds:.1f}",
                f"{100 * tally.n_pairs / N**2:.2f}%",
                f"{100 * tally.n_measured / N**2:.2f}%",
                f"{difference:.0e}",
            ]
        )
    print_table(
        f"{N_NEIGHBORS} nearest neighbours of {N:,} points in {M} dimensions in the GT distance",
        ["", "fit, s", "neighbours, s", "pairs compared", "by singular values", "greatest difference"],
        rows,
        f"Differences to the full rows of {N_CHECKED} points; 0 but for rounding means exact.",
    )
