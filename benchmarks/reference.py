"""The two passes of an iteration against the same two passes written by hand in C++ with OpenMP (`reference.cpp`)."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.report import best_of, print_table, verdict
from gaussian_transform._kernels.rows import n_candidates
from gaussian_transform._parallel import effective_n_jobs
from gaussian_transform._typing import FloatArray, Gaussians
from gaussian_transform.row_sweep import RowSweep

SOURCE = Path(__file__).with_suffix(".cpp")
FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-std=c++17", "-shared", "-fPIC")

Step = Callable[[Gaussians], Gaussians]


def ours(eps: float, lam: float) -> Step:
    """Return one iteration by the package's kernels."""

    def step(state: Gaussians) -> Gaussians:
        weights = np.ones(len(state.points))
        sweep = RowSweep(state, weights, eps=eps, lam=lam, n_threads=effective_n_jobs(None))
        moved = state.points + sweep.means().shift
        return Gaussians(moved, sweep.covariances(moved))

    return step


@contextmanager
def by_hand(eps: float, lam: float) -> Iterator[Step]:
    """Compile `reference.cpp` and yield one iteration by it."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "reference.so"
        subprocess.run(["g++", *FLAGS, str(SOURCE), "-o", str(library)], check=True)
        functions = ctypes.CDLL(str(library))

        def step(state: Gaussians) -> Gaussians:
            n, m = state.points.shape
            upper = np.triu_indices(m)
            points = np.ascontiguousarray(state.points)
            entries = np.ascontiguousarray(state.covariances[:, upper[0], upper[1]])
            moved, moved_entries = np.empty_like(points), np.empty_like(entries)
            arrays = [ctypes.c_void_p(array.ctypes.data) for array in (points, entries, moved, moved_entries)]
            numbers = ctypes.c_int64(n), ctypes.c_double(eps), ctypes.c_double(lam)
            getattr(functions, f"iterate_{m}d")(*arrays[:2], *numbers, *arrays[2:])
            covariances = np.empty((n, m, m))
            covariances[:, upper[0], upper[1]] = covariances[:, upper[1], upper[0]] = moved_entries
            return Gaussians(moved, covariances)

        yield step


def grid(m: int) -> tuple[FloatArray, float]:
    """Return a grid of about 40,000 points in m dimensions and the radius of 0.1 in the unit of its plane's."""
    side = {2: 200, 3: 34}[m]
    axes = np.meshgrid(*[np.arange(side) / (side - 1)] * m, indexing="ij")
    return np.stack(axes, axis=-1).reshape(-1, m), {2: 0.1, 3: 0.2}[m]


def initial_state(points: FloatArray, eps: float) -> Gaussians:
    """Return the points with the covariances of their Euclidean balls."""
    nothing = Gaussians(points, np.zeros((*points.shape, points.shape[1])))
    sweep = RowSweep(nothing, np.ones(len(points)), eps=eps, lam=0.0, n_threads=effective_n_jobs(None))
    return Gaussians(points, sweep.covariances(points))


def n_tested(state: Gaussians) -> int:
    """Return how many pairs one pass of ours looks at."""
    cloud = RowSweep(state, np.ones(len(state.points)), eps=1.0, lam=1.0)._sources
    return int(n_candidates(cloud.rows, cloud.coordinates, np.arange(len(state.points)), 1.0))


def main() -> None:
    # Everything is in the unit in which the radius is 1, as in the package's own loop.
    states = {m: initial_state(points / eps, 1.0) for m, (points, eps) in ((m, grid(m)) for m in (2, 3))}
    step = ours(1.0, 1.0)
    with by_hand(1.0, 1.0) if shutil.which("g++") else nullcontext() as their_step:
        steps = [step] if their_step is None else [step, their_step]
        results = [[step(state) for step in steps] for state in states.values()]
        # All in one round after another: the ratios below are then of runs that had the same load.
        seconds = iter(best_of(5, *(partial(step, state) for state in states.values() for step in steps)))
    rows, notes, per_pair = [], [], {}
    for (m, state), answers in zip(states.items(), results, strict=True):
        mine, n, tested = next(seconds), len(state.points), n_tested(state)
        per_pair[m] = mine / tested * 1e9
        row = [f"{m}-D, {n:,} points, {tested / n:,.0f} candidates each", f"{mine:.3f}", f"{per_pair[m]:.2f}"]
        if len(steps) == 1:
            rows.append([*row, "-", "-", "-"])
            continue
        theirs = next(seconds)
        difference = max(np.abs(a - b).max() for a, b in zip(*answers, strict=True))
        rows.append([*row, f"{theirs:.3f}", f"{mine / theirs:.2f}", f"{difference:.0e}"])
        notes.append(f"{m}-D, ours against C++: {verdict(mine / theirs, 1.3)}")
    if len(steps) == 1:
        notes.append("There is no g++ here, so nothing to compare with: install one to see C++ beside it.")
    ratio = per_pair[3] / per_pair[2]
    print_table(
        "Two passes of an iteration on a grid against hand-written C++/OpenMP, lam=1, best of 5",
        ["cloud", "ours, s", "ours, ns a candidate pair", "C++, s", "ours / C++", "greatest difference"],
        rows,
        *notes,
        f"3-D against 2-D, a candidate pair: {ratio:.2f}, {verdict(ratio, 3.0)}",
        "A candidate pair is one whose distance ours tests (twice, once a pass); differences are in units of eps.",
    )
