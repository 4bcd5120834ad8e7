"""Finding the structure in noisy data by its local shape: the Gaussian transform, mean shift, Bures distances.

Names are imported when they are first used, so that the command line answers ``--help`` without loading numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from gaussian_transform._version import __version__

if TYPE_CHECKING:
    from gaussian_transform import datasets, io, plotting
    from gaussian_transform.bures import bures_distance, bures_distances, gaussian_wasserstein
    from gaussian_transform.estimators import (
        GaussianTransform,
        GaussianTransformClustering,
        MeanShiftTransform,
        WassersteinTransform,
    )
    from gaussian_transform.wasserstein import wasserstein_transform

__all__ = [
    "GaussianTransform",
    "GaussianTransformClustering",
    "MeanShiftTransform",
    "WassersteinTransform",
    "__version__",
    "bures_distance",
    "bures_distances",
    "datasets",
    "gaussian_wasserstein",
    "io",
    "plotting",
    "wasserstein_transform",
]

_HOME_OF = {
    "GaussianTransform": "estimators",
    "GaussianTransformClustering": "estimators",
    "MeanShiftTransform": "estimators",
    "WassersteinTransform": "estimators",
    "bures_distance": "bures",
    "bures_distances": "bures",
    "gaussian_wasserstein": "bures",
    "wasserstein_transform": "wasserstein",
}
_MODULES = ("datasets", "io", "plotting")


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _HOME_OF:
        found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
