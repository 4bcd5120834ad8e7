"""The paper's complexity table, measured: one iteration of MS, GT by neighbourhoods, GT by the full matrix, and WT2.

The paper's order for N > m is MS < GT-Neighborhood < GT < WT, with costs (its table has two columns exchanged)
n²m + nNm, n²m + nN(Nm² + m³), n²(Nm² + m³) and n²N³ log N.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

import gaussian_transform as gt
from benchmarks.report import best_of, print_table
from gaussian_transform._parallel import effective_n_jobs
from gaussian_transform.iteration import VARIANTS, GaussianIteration

SIZES = ((250, 8), (500, 8), (1000, 8), (500, 16), (500, 32))


def _methods(points: np.ndarray, eps: float) -> dict[str, Callable[[], object]]:
    weights = np.full(len(points), 1 / len(points))

    def iterate(lam: float, variant: str) -> None:
        engine = GaussianIteration(eps, lam, variant=VARIANTS[variant], n_threads=effective_n_jobs(None))
        engine.run(points, weights, 1)

    return {
        "MS": lambda: iterate(0.0, "GT-v1"),
        "GT-Neighborhood": lambda: iterate(1.0, "GT-v1"),
        "GT": lambda: (iterate(1.0, "GT"), gt.GaussianTransform(eps).fit(points).distances()),
        "WT2": lambda: gt.WassersteinTransform(eps).fit(points),
    }


def _row(n: int, n_neighbors: int) -> list[str]:
    points = np.random.default_rng(0).random((n, 2))
    eps = (n_neighbors / (np.pi * n)) ** 0.5
    # One method after the other, so that none starts with the caches that the last has filled.
    seconds = [best_of(3 if name != "WT2" else 1, method)[0] for name, method in _methods(points, eps).items()]
    is_ordered = all(a < b for a, b in pairwise(seconds))
    return [f"n={n}, N={n_neighbors}", *(f"{1e3 * s:.2f}" for s in seconds), "yes" if is_ordered else "NO"]


def main() -> None:
    for method in _methods(np.random.default_rng(0).random((50, 2)), 0.3).values():
        method()
    print_table(
        "One iteration in the plane as n and the size of the balls grow, best of 3 (WT2: once), in milliseconds",
        ["", "MS", "GT-Neighborhood", "GT", "WT2", "the paper's order holds"],
        [_row(*size) for size in SIZES],
    )
