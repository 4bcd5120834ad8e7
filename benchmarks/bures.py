"""All pairs of Bures distances: the package against POT, on definite and on semi-definite covariances."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

import gaussian_transform as gt
from benchmarks.report import best_of, print_table


class Case(NamedTuple):
    """Covariances of `n` random neighbourhoods of `n_points` points in R^m; POT gets the first `n_pot` of them."""

    m: int
    n_points: int
    n: int
    n_pot: int
    goal: int

    def factors(self) -> np.ndarray:
        """Return centred factors F of shape (n, m, n_points) with Σ = F Fᵀ."""
        points = np.random.default_rng(0).normal(size=(self.n, self.m, self.n_points))
        points -= points.mean(axis=2, keepdims=True)
        return points / np.sqrt(self.n_points)


CASES = (
    Case(2, 20, 5000, 60, 100),
    Case(2, 2, 5000, 60, 100),
    Case(3, 20, 5000, 60, 100),
    Case(3, 3, 5000, 60, 100),
    Case(20, 60, 500, 30, 30),
    Case(20, 6, 500, 30, 30),
    Case(784, 10, 500, 3, 30),
)


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


def _row(case: Case) -> list[str]:
    factors = case.factors()
    if case.m > 50:  # matrices of this size would not fit: factors are the form to keep them in
        given, options = factors, {"factors": True}
    else:
        given, options = factors @ np.swapaxes(factors, 1, 2), {}
    covs = factors[: case.n_pot] @ np.swapaxes(factors[: case.n_pot], 1, 2)
    ours, theirs = gt.bures_distances(given, **options), _pot_answer(covs)
    (seconds,) = best_of(3, lambda: gt.bures_distances(given, **options))
    per_pair = 1e6 * seconds / case.n**2
    start = [f"m={case.m}, rank {min(case.m, case.n_points - 1)}, n={case.n}", f"{seconds:.3f}", f"{per_pair:.3f}"]
    finite = "all" if np.isfinite(ours).all() else "NOT ALL"
    if isinstance(theirs, str):
        return [*start, theirs, "-", f"{case.goal}x", finite, "-", "-"]
    (pot_seconds,) = best_of(3 if case.m < 50 else 1, lambda: _pot_answer(covs))
    pot_per_pair = 1e6 * pot_seconds / case.n_pot**2
    usable = np.isfinite(theirs)
    difference = np.abs(theirs - ours[: case.n_pot, : case.n_pot])[usable].max(initial=0.0)
    return [
        *start,
        f"{pot_per_pair:,.0f}",
        f"{pot_per_pair / per_pair:,.0f}x",
        f"{case.goal}x",
        finite,
        f"{np.mean(~usable):.0%}",
        f"{difference / np.sqrt(np.trace(covs, axis1=1, axis2=2).max()):.0e}",
    ]


def main() -> None:
    print_table(
        "Bures distances of all pairs, best of 3",
        ["", "seconds", "µs a pair", "POT, µs a pair", "faster", "goal", "ours finite", "POT not finite", "difference"],
        [_row(case) for case in CASES],
        "POT gets a part of the pairs and is compared by the pair. Differences are relative",
        "to the root of the largest trace. Low rank is what small neighbourhoods give.",
    )
