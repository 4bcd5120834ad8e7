"""What every transform offers once it has a distance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import get_args

import numpy as np
from scipy.cluster import hierarchy
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

from gaussian_transform import _validation
from gaussian_transform._typing import AnyArray, FloatArray
from gaussian_transform.linkage import Method
from gaussian_transform.local_gaussians import TIE_TOLERANCE
from gaussian_transform.mds import MdsMethod, multidimensional_scaling


class DistanceSurface(ABC):
    """Neighbours, dendrogram and picture of the points, from the matrix of a transform's distances.

    A transform that can do without the matrix has its own `neighbors_graph` and `linkage`.
    """

    eps_: float

    @abstractmethod
    def distances(self) -> AnyArray:
        """Return the matrix of distances after the iterations, shape (n, n)."""

    def neighbors_graph(self, radius: float | None = None) -> csr_array:
        """Return the distances up to `radius` (``eps_`` by default) as a sparse matrix.

        Zeros, the diagonal among them, are stored; pairs with d² ≤ radius²·(1 + 1e-9) are inside.
        """
        distances = self.distances()
        radius = self.eps_ if radius is None else _validation.check_radius(radius, "radius")
        is_inside = distances <= radius * np.sqrt(1.0 + TIE_TOLERANCE)
        begin = np.concatenate([[0], np.cumsum(is_inside.sum(axis=1))])
        return csr_array((distances[is_inside], np.nonzero(is_inside)[1], begin), shape=distances.shape)

    def linkage(self, method: Method = "single") -> FloatArray:
        """Return the dendrogram as a SciPy linkage matrix, shape (n - 1, 4).

        `method` is "single", "complete", "average", "weighted" or "ward".
        """
        if method not in get_args(Method):
            raise ValueError(f"method={method!r} must be one of {', '.join(map(repr, get_args(Method)))}.")
        distances = self.distances()
        if len(distances) == 1:
            return np.empty((0, 4))
        merges: FloatArray = hierarchy.linkage(squareform(distances, checks=False), method)
        return merges

    def mds(self, n_components: int = 2, method: MdsMethod = "classical") -> FloatArray:
        """Return points whose Euclidean distances resemble the transform's, shape (n, n_components).

        "classical" scaling, or "smacof", which goes on from it to lower the stress.
        """
        return multidimensional_scaling(self.distances(), n_components, method)
