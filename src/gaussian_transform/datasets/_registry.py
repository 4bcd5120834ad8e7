"""The data sets by name, for the command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from gaussian_transform.datasets._curves import make_concentric_circles, make_noisy_circle, make_spiral
from gaussian_transform.datasets._dataset import Dataset
from gaussian_transform.datasets._shapes import (
    make_anisotropy_grid,
    make_dumbbell,
    make_grid,
    make_t_junction,
    make_two_segments,
)

_MAKERS: dict[str, Callable[..., Dataset]] = {
    "t-junction": make_t_junction,
    "dumbbell": make_dumbbell,
    "spiral": make_spiral,
    "concentric-circles": make_concentric_circles,
    "noisy-circle": make_noisy_circle,
    "anisotropy-grid": make_anisotropy_grid,
    "two-segments": make_two_segments,
    "grid": make_grid,
}


def names() -> list[str]:
    """Return the names that `load` knows, in the order of the paper.

    Examples
    --------
    >>> names()[:3]
    ['t-junction', 'dumbbell', 'spiral']
    """
    return list(_MAKERS)


def options(name: str) -> dict[str, Any]:
    """Return the options of the data set `name` with their defaults.

    Examples
    --------
    >>> options("noisy-circle")
    {'n': 200, 'n_noise': 500, 'random_state': 0}
    """
    return {key: parameter.default for key, parameter in inspect.signature(_maker(name)).parameters.items()}


def load(name: str, **chosen: Any) -> Dataset:
    """Make the data set `name`.

    Parameters
    ----------
    name
        One of `names()`; an underscore may stand for a hyphen.
    **chosen
        Options of its generator, see `options`.

    Returns
    -------
    Dataset
        The points and the truth about them.

    Examples
    --------
    >>> load("spiral", n=100, n_outliers=0).points.shape
    (100, 2)
    """
    known = options(name)
    for option in chosen:
        if option not in known:
            raise ValueError(f"The data set {name!r} has no option {option!r}; its options are {', '.join(known)}.")
    return _maker(name)(**chosen)


def _maker(name: str) -> Callable[..., Dataset]:
    try:
        return _MAKERS[name.replace("_", "-")]
    except KeyError:
        message = f"There is no data set {name!r}; the names are {', '.join(_MAKERS)}."
        raise ValueError(message) from None
