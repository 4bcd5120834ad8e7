"""Time and memory as the cloud grows at a constant number of neighbours."""

from __future__ import annotations

import numpy as np

from benchmarks.report import in_fresh_process, print_table, verdict

SIZES = (10_000, 100_000, 1_000_000)
N_NEIGHBORS = 30
# The radius at which a ball inside the unit cube holds N_NEIGHBORS of n points.
CODE = """
import resource, sys, time
import numpy as np
import gaussian_transform as gt
n, m = {n}, {m}
points = np.random.default_rng(0).random((n, m))
eps = ({neighbors} / n / {{2: np.pi, 3: 4 * np.pi / 3}}[m]) ** (1 / m)
gt.GaussianTransform(eps=0.1, lam=1.0).fit(points[:1000])
transform = gt.GaussianTransform(eps=eps, lam=1.0)
result = []
for _ in range({repeat}):
    begin = time.perf_counter()
    transform.fit(points)
    result.append(time.perf_counter() - begin)
result = min(result)
"""


def main() -> None:
    rows, notes = [], []
    for m in (2, 3):
        times = []
        for n in SIZES:
            repeat = max(2, min(5, 1_000_000 // n))
            seconds, peak = in_fresh_process(CODE.format(n=n, m=m, neighbors=N_NEIGHBORS, repeat=repeat))
            times.append(seconds)
            rows.append([f"{m}-D, {n:,} points", f"{seconds:.3f}", f"{seconds / n * 1e6:.2f}", f"{peak:,.0f}"])
        exponent = float(np.polyfit(np.log(SIZES), np.log(times), 1)[0])
        notes.append(f"{m}-D: time grows as n^{exponent:.2f}, {verdict(exponent, 1.1)}")
    notes.append(f"10^6 points in 3-D, peak MiB: {verdict(peak, 2048)}")
    print_table(
        f"One fit with one iteration, about {N_NEIGHBORS} neighbours a point, best of several",
        ["cloud", "seconds", "microseconds a point", "peak MiB of the process"],
        rows,
        *notes,
    )
