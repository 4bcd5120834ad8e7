"""How long until the first result: importing, and fitting with compiled kernels already in the cache."""

from __future__ import annotations

import subprocess
import sys
import tempfile

from benchmarks.report import best_of, in_fresh_process, print_table, verdict

FIRST_FIT = """
import time
import numpy as np
import gaussian_transform as gt
points = np.random.default_rng(0).normal(size=(1000, {m}))
begin = time.perf_counter()
gt.GaussianTransform(eps=0.5, lam=1.0, n_iter=2).fit(points)
result = time.perf_counter() - begin
"""


def main() -> None:
    def run(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)

    nothing, theirs, ours, whole, command = best_of(
        5,
        lambda: run("pass"),
        lambda: run("import sklearn, numba"),
        lambda: run("import gaussian_transform"),
        lambda: run("import gaussian_transform as gt; gt.GaussianTransform, gt.bures_distances"),
        lambda: run("from gaussian_transform.cli import main; main(['--help'])"),
    )
    ratio = ours / theirs
    print_table(
        "Start-up: a whole process, best of 5",
        ["process", "seconds", "ratio to sklearn + numba"],
        [
            ["python -c pass", f"{nothing:.2f}", f"{nothing / theirs:.2f}"],
            ["import sklearn, numba", f"{theirs:.2f}", "1.00"],
            ["import gaussian_transform", f"{ours:.2f}", f"{ratio:.2f}"],
            ["... and touch its estimators and functions", f"{whole:.2f}", f"{whole / theirs:.2f}"],
            ["gtransform --help", f"{command:.2f}", f"{command / theirs:.2f}"],
        ],
        f"import gaussian_transform, ratio: {verdict(ratio, 1.5)}; with its estimators: {verdict(whole / theirs, 1.5)}",
    )
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for m in (2, 3, 6):
            cold, _ = in_fresh_process(FIRST_FIT.format(m=m), NUMBA_CACHE_DIR=cache)
            warm, _ = in_fresh_process(FIRST_FIT.format(m=m), NUMBA_CACHE_DIR=cache)
            rows.append([f"{m}-D", f"{cold:.2f}", f"{warm:.3f}", verdict(warm, 1.0)])
    print_table(
        "First fit of a process (1,000 points, 2 iterations), in seconds",
        ["cloud", "first process (compiles)", "second process (cache)", ""],
        rows,
    )
