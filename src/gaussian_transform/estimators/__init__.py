"""Estimators in scikit-learn's manner: they validate, delegate and store."""

from gaussian_transform.estimators._clustering import GaussianTransformClustering
from gaussian_transform.estimators._transform import GaussianTransform, MeanShiftTransform

__all__ = ["GaussianTransform", "GaussianTransformClustering", "MeanShiftTransform"]
