"""What every generator returns, and the checks they share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gaussian_transform._typing import FloatArray, IntArray

OUTLIER = -1


@dataclass(frozen=True, eq=False)
class Dataset:
    """Points of a synthetic set and the truth about them.

    Attributes
    ----------
    name : str
        The name that `load` knows it by.
    points : array of shape (n, m)
        The points to give to a transform.
    labels : array of shape (n,)
        The true cluster of each point, counted from 0; -1 for outliers, which belong to none.
    truth : array of shape (n, m)
        Where each point was before noise moved it; rows of NaN for outliers, which have no such place.
    eps, lam : float or None
        The values that the paper uses on this set; None where it gives none.
    description : str
        One sentence for people.
    """

    name: str
    points: FloatArray = field(repr=False)
    labels: IntArray = field(repr=False)
    truth: FloatArray = field(repr=False)
    eps: float | None
    lam: float | None
    description: str = field(repr=False)


def labels_of_sizes(*sizes: int) -> IntArray:
    """Return labels 0, 1, ... repeated as often as `sizes` say."""
    return np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)


def generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """Return the random generator meant by `random_state`: a seed, a generator, or None for a fresh one."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        message = f"random_state={random_state!r} must be a non-negative integer, a numpy.random.Generator or None."
        raise ValueError(message) from error


def check_count(name: str, value: int, minimum: int) -> None:
    """Raise unless the parameter `name` is an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(f"{name}={value!r} must be an integer of at least {minimum}.")


def check_number(name: str, value: float, *, above: float = -math.inf, least: float = -math.inf) -> None:
    """Raise unless the parameter `name` is a finite number above `above` and not below `least`."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and value > above and value >= least:
        return
    bound = f" above {above:g}" if above > -math.inf else f" of at least {least:g}" if least > -math.inf else ""
    raise ValueError(f"{name}={value!r} must be a finite number{bound}.")


def check_pair(name: str, values: tuple[float, float], *, above: float = -math.inf) -> None:
    """Raise unless the parameter `name` is two finite numbers above `above`."""
    if not isinstance(values, list | tuple | np.ndarray) or len(values) != 2:
        raise ValueError(f"{name}={values!r} must be two numbers.")
    for value in values:
        check_number(name, value, above=above)
