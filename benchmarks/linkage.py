"""Single linkage in the GT distance: an exact minimum spanning tree without the matrix of all distances."""

from __future__ import annotations

from benchmarks.report import in_fresh_process, print_table

CODE = """
import time
import numpy as np
import gaussian_transform as gt
points = np.random.default_rng(0).normal(size=({n}, 2))
warm = gt.GaussianTransform(eps=0.5, lam=1.0).fit(points[:500])
warm.linkage("single")
transform = gt.GaussianTransform(eps={eps}, lam=1.0).fit(points)
begin = time.perf_counter()
transform.linkage("single")
result = time.perf_counter() - begin
"""
DENSE = """
import time
import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
import gaussian_transform as gt
points = np.random.default_rng(0).normal(size=({n}, 2))
gt.GaussianTransform(eps=0.5, lam=1.0).fit(points[:100]).distances()
transform = gt.GaussianTransform(eps={eps}, lam=1.0).fit(points)
begin = time.perf_counter()
linkage(squareform(transform.distances(), checks=False), "single")
result = time.perf_counter() - begin
"""


def main() -> None:
    rows = []
    for name, code, n in (
        ("ours", CODE, 5_000),
        ("dense matrix and SciPy", DENSE, 5_000),
        ("ours", CODE, 10_000),
        ("ours", CODE, 20_000),
        ("ours", CODE, 40_000),
    ):
        eps = 0.2 * (5_000 / n) ** 0.5  # about fifty neighbours in the middle, whatever n
        seconds, peak = in_fresh_process(code.format(n=n, eps=eps))
        rows.append([f"{n:,} points, {name}", f"{seconds:.2f}", f"{peak:,.0f}", f"{n * n * 8 / 2**20:,.0f}"])
    print_table(
        "Single linkage of a normal cloud in 2-D after one iteration",
        ["", "seconds", "peak MiB of the process", "n² matrix would be MiB"],
        rows,
    )
