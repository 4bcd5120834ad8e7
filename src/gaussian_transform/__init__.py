"""Finding the structure in noisy data by its local shape: the Gaussian transform, mean shift, Bures distances."""

from gaussian_transform import datasets
from gaussian_transform._version import __version__
from gaussian_transform.bures import bures_distance, bures_distances, gaussian_wasserstein
from gaussian_transform.estimators import GaussianTransform, GaussianTransformClustering, MeanShiftTransform

__all__ = [
    "GaussianTransform",
    "GaussianTransformClustering",
    "MeanShiftTransform",
    "__version__",
    "bures_distance",
    "bures_distances",
    "datasets",
    "gaussian_wasserstein",
]
