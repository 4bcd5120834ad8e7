"""Multidimensional scaling: points in the plane or in space whose distances resemble those of a matrix."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from scipy.linalg import eigh
from sklearn.manifold import smacof

from gaussian_transform._typing import FloatArray

MdsMethod: TypeAlias = Literal["classical", "smacof"]


def multidimensional_scaling(
    distances: FloatArray, n_components: int = 2, method: MdsMethod = "classical"
) -> FloatArray:
    """Return points of shape (n, n_components) whose Euclidean distances resemble the given ones.

    Parameters
    ----------
    distances : array of shape (n, n)
        Symmetric distances with a zero diagonal.
    n_components : int, default 2
        Dimension of the picture.
    method : {"classical", "smacof"}, default "classical"
        "classical" projects on the leading eigenvectors of the doubly centred squared distances; exact for Euclidean
        distances; each axis is turned so that the first point off its origin is positive. "smacof" goes on from there
        to lower the stress Σ(d_ij − ‖x_i − x_j‖)² by majorisation (scikit-learn). Neither draws random numbers.

    Examples
    --------
    >>> line = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    >>> multidimensional_scaling(line, 1).ravel().round(3) + 0.0
    array([ 1.,  0., -1.])
    """
    n = len(distances)
    if not n_components >= 1:
        raise ValueError(f"n_components={n_components!r} must be at least 1; 2 and 3 make pictures.")
    if method not in ("classical", "smacof"):
        raise ValueError(f"method={method!r} must be 'classical' or 'smacof'.")
    points = np.zeros((n, n_components))
    size = float(np.max(distances, initial=0.0))
    if size == 0.0:
        return points
    scaled = distances / size
    k = min(n_components, n)
    values, vectors = eigh(_centred_products(scaled), subset_by_index=(n - k, n - 1))
    points[:, :k] = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    is_off = np.abs(points) > 1e-6 * np.max(np.abs(points), axis=0)
    first = np.take_along_axis(points, np.argmax(is_off, axis=0)[None], axis=0)
    points *= np.where(first < 0.0, -1.0, 1.0)
    if method == "smacof":
        points, _ = smacof(scaled, n_components=n_components, init=points, n_init=1, normalized_stress=False)
    return points * size


def _centred_products(distances: FloatArray) -> FloatArray:
    """Return −½ J D² J with J = I − 1/n: the inner products of centred points with these distances."""
    squared = distances**2
    rows = squared.mean(axis=1, keepdims=True)
    products: FloatArray = -0.5 * (squared - rows - rows.T + rows.mean())
    return products
