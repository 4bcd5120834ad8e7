"""Array types and the small named tuples that the layers hand to each other."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
KeyArray: TypeAlias = npt.NDArray[np.uint64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]


class Gaussians(NamedTuple):
    """One Gaussian N(x_i, Σ_i) for each point: what one iteration of the transform produces.

    Attributes
    ----------
    points : array of shape (n, m)
        Where the points are.
    covariances : array of shape (n, m, m)
        Covariance of the neighbourhood of each point; symmetric, positive semi-definite, often singular.
    """

    points: FloatArray
    covariances: FloatArray
