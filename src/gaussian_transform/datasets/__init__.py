"""The synthetic data sets of the paper, each with the truth beside it."""

from gaussian_transform.datasets._curves import make_concentric_circles, make_noisy_circle, make_spiral
from gaussian_transform.datasets._dataset import Dataset
from gaussian_transform.datasets._registry import load, names, options
from gaussian_transform.datasets._shapes import (
    DUMBBELL_SCALES,
    make_anisotropy_grid,
    make_dumbbell,
    make_grid,
    make_t_junction,
    make_two_segments,
)

__all__ = [
    "DUMBBELL_SCALES",
    "Dataset",
    "load",
    "make_anisotropy_grid",
    "make_concentric_circles",
    "make_dumbbell",
    "make_grid",
    "make_noisy_circle",
    "make_spiral",
    "make_t_junction",
    "make_two_segments",
    "names",
    "options",
]
