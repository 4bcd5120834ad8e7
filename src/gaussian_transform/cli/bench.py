"""`gtransform bench`: the speed of this machine beside published figures."""

from __future__ import annotations

import itertools
import os
import platform
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from gaussian_transform.cli.options import examples

# Seconds of each iteration in the paper's table "Validation of acceleration methods": C++ with OpenMP on 48 cores.
PAPER_SECONDS: dict[str, tuple[float, ...]] = {
    "GT": (48.7,),
    "GT-v1": (20.2, 11.3, 9.0, 7.1, 6.7),
    "GT-v2": (14.8, 10.0, 7.4, 6.2, 6.3),
    "GT-v3": (20.9, 9.4, 5.3, 2.8, 1.5),
    "GT-v4": (14.7, 8.2, 4.1, 2.6, 1.4),
}
PAPER_SIDE = 200
WHAT_IT_DOES = {
    "GT": "all pairs",
    "GT-v1": "pairs within eps",
    "GT-v2": "v1, each pair once",
    "GT-v3": "v1, collocated points merged",
    "GT-v4": "v2, collocated points merged",
}


class Timing(NamedTuple):
    """What was measured of one variant: the initial covariances first, then each iteration."""

    seconds: list[float]
    n_points: list[int]


def time_iterations(variant: str, *, side: int, iterations: int, repeat: int) -> Timing:
    """Return the seconds of the fastest of `repeat` runs of one variant, and how many distinct points were left.

    The kernels are compiled before, on a small grid. The variant that computes all pairs is run for one iteration, as
    in the paper, and only once.
    """
    import numpy as np

    from gaussian_transform._parallel import effective_n_jobs
    from gaussian_transform.datasets import make_grid
    from gaussian_transform.iteration import VARIANTS, GaussianIteration, Progress

    if variant == "GT":
        iterations, repeat = min(iterations, 1), 1
    engine = GaussianIteration(eps=0.1, lam=1.0, variant=VARIANTS[variant], n_threads=effective_n_jobs(None))

    def run(side: int) -> Timing:
        points = make_grid(side=side).points
        weights = np.full(len(points), 1.0 / len(points))
        ends, n_points = {-1: time.perf_counter()}, {}

        def note(event: Progress) -> None:  # the last report of an iteration, after the second of its passes, stays
            ends[event.iteration] = time.perf_counter()
            n_points[event.iteration] = event.n_points

        engine.run(points, weights, iterations, callback=note)
        return Timing([end - begin for begin, end in itertools.pairwise(ends.values())], list(n_points.values()))

    run(min(side, 20))
    runs = [run(side) for _ in range(repeat)]
    return Timing([min(seconds) for seconds in zip(*(run.seconds for run in runs), strict=True)], runs[0].n_points)


def measure_grid(
    *, side: int, iterations: int, repeat: int, on_variant: Callable[[str], None] = lambda _: None
) -> dict[str, Timing]:
    """Return what `time_iterations` measures for each of the paper's five variants."""
    results = {}
    for variant in PAPER_SECONDS:
        on_variant(variant)
        results[variant] = time_iterations(variant, side=side, iterations=iterations, repeat=repeat)
    return results


def grid_rows(results: dict[str, Timing], *, side: int) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the table; on the paper's grid its figures stand under ours."""
    n_columns = max(len(timing.seconds) for timing in results.values())
    header = ["", "seconds", "covariances", *(f"τ={k}" for k in range(1, n_columns))]
    rows = []

    def add(name: str, what: str, cells: list[str]) -> None:
        rows.append([name, what, *cells, *["-"] * (n_columns - len(cells))])

    for variant, timing in results.items():
        add(variant, f"here: {WHAT_IT_DOES[variant]}", [f"{value:.3f}" for value in timing.seconds])
        if side == PAPER_SIDE:
            add("", "paper: 48 cores, C++", ["", *(f"{value:g}" for value in PAPER_SECONDS[variant][: n_columns - 1])])
    add("", "distinct points left by GT-v4", [f"{n:,}" for n in results["GT-v4"].n_points])
    return header, rows


@click.group("bench")
def command() -> None:
    """Measure the speed of this machine against published figures."""


@command.command(
    "grid",
    epilog=examples(
        "gtransform bench grid                          the paper's table, a minute or so",
        "gtransform bench grid --side 100 --repeat 1    a quick look",
    ),
)
@click.option("--side", type=click.IntRange(min=2), default=PAPER_SIDE, show_default=True, help="Points along a side.")
@click.option("--iterations", type=click.IntRange(min=1), default=5, show_default=True, help="How many to time.")
@click.option("--repeat", type=click.IntRange(min=1), default=3, show_default=True, help="Runs; the fastest counts.")
def grid(side: int, iterations: int, repeat: int) -> None:
    """Time the paper's five variants on a square grid, eps=0.1 and lam=1.

    All five compute the same thing; compilation is not counted. The variant GT, which computes all pairs, is
    run for one iteration, as in the paper, and once.
    """
    from rich.console import Console

    from gaussian_transform._parallel import effective_n_jobs

    notes = Console(stderr=True)

    def say(variant: str) -> None:
        if notes.is_terminal:
            notes.print(f"measuring {variant} ...", style="dim")

    results = measure_grid(side=side, iterations=iterations, repeat=repeat, on_variant=say)
    console = Console(width=None if os.isatty(1) else 120, highlight=False)
    console.print(_table(results, side))
    console.print(f"{effective_n_jobs(None)} threads on {platform.machine()}, {platform.system()}; best of {repeat}.")


def _table(results: dict[str, Timing], side: int) -> Any:
    from rich.table import Table

    header, rows = grid_rows(results, side=side)
    table = Table(title=f"One iteration on the {side} x {side} grid, in seconds", title_justify="left")
    for k, name in enumerate(header):
        table.add_column(name, justify="left" if k < 2 else "right")
    for row in rows:
        table.add_row(*row, style="dim" if row[0] == "" else None, end_section=row[0] == "")
    return table
