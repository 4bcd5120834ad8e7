"""Estimators in scikit-learn's manner: they validate, delegate and store."""

from gaussian_transform.estimators._clustering import GaussianTransformClustering
from gaussian_transform.estimators._transform import GaussianTransform, MeanShiftTransform
from gaussian_transform.estimators._wasserstein import WassersteinTransform

__all__ = ["GaussianTransform", "GaussianTransformClustering", "MeanShiftTransform", "WassersteinTransform"]
