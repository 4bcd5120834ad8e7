"""The paper's acceleration table: five variants on the 200 x 200 grid."""

from __future__ import annotations

from benchmarks.report import print_table, verdict
from gaussian_transform.cli.bench import PAPER_SECONDS, PAPER_SIDE, grid_rows, measure_grid


def main() -> None:
    results = measure_grid(side=PAPER_SIDE, iterations=5, repeat=3)
    header, rows = grid_rows(results, side=PAPER_SIDE)
    covariances, first = results["GT-v4"].seconds[:2]
    paper = PAPER_SECONDS["GT-v4"][0]
    print_table(
        "The paper's table: one iteration on the 200 x 200 grid, eps=0.1, lam=1, best of 3, in seconds",
        header,
        rows,
        f"GT-v4, τ=1: {first:.3f} s, {verdict(first, 0.3)} s; the paper's {paper} s is {paper / first:.0f} times that",
        f"... counting the initial covariances too: {covariances + first:.3f} s, {verdict(covariances + first, 0.3)} s",
    )
