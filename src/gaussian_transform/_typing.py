"""Array types and the small records that the layers hand to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias, overload

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
KeyArray: TypeAlias = npt.NDArray[np.uint64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Factors:
    """Covariances of any rank in few rows: Σ_i = F_iᵀF_i with ``F_i = rows[begin[i]:begin[i] + rank[i]]``.

    A neighbourhood of N points in m dimensions takes at most N − 1 rows instead of a matrix of m². An index gives F_i,
    an array shaped (rank, m); slices, masks and lists of indices give the Factors of those covariances, which share
    the rows.

    Attributes
    ----------
    rows : array of shape (n_rows, m)
        The rows of all factors.
    begin, rank : arrays of shape (n,)
        Where the rows of each covariance begin, and how many there are; equal covariances may share theirs.

    Examples
    --------
    >>> factors = Factors(np.array([[3.0, 4.0], [1.0, 0.0]]), begin=np.array([0, 1, 2]), rank=np.array([1, 1, 0]))
    >>> factors[0]
    array([[3., 4.]])
    >>> factors[1:].dense()
    array([[[1., 0.],
            [0., 0.]],
    <BLANKLINE>
           [[0., 0.],
            [0., 0.]]])
    """

    rows: AnyArray
    begin: IntArray
    rank: IntArray

    @classmethod
    def zeros(cls, n: int, m: int) -> Self:
        """Return `n` covariances that are 0."""
        return cls(np.empty((0, m)), np.zeros(n, np.int64), np.zeros(n, np.int64))

    @classmethod
    def concatenate(cls, parts: Sequence[Factors]) -> Self:
        """Return the covariances of several sets as one."""
        offsets = np.cumsum([0, *(len(part.rows) for part in parts)])
        begin = [part.begin + offset for part, offset in zip(parts, offsets, strict=False)]
        rows = np.concatenate([part.rows for part in parts])
        return cls(rows, np.concatenate(begin), np.concatenate([part.rank for part in parts]))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the covariances as an array: (n, m, m)."""
        return len(self.rank), self.rows.shape[1], self.rows.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        return self.rows.dtype

    def __len__(self) -> int:
        return len(self.rank)

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> AnyArray: ...
    @overload
    def __getitem__(self, index: slice | AnyArray | Sequence[int]) -> Factors: ...
    def __getitem__(self, index: int | np.integer[Any] | slice | AnyArray | Sequence[int]) -> AnyArray | Factors:
        if isinstance(index, (int, np.integer)):
            return self.rows[self.begin[index] : self.begin[index] + self.rank[index]]
        return Factors(self.rows, self.begin[index], self.rank[index])

    def dense(self) -> AnyArray:
        """Return the covariances as an array of shape (n, m, m)."""
        covariances = np.zeros(self.shape, dtype=self.dtype)
        for i in np.flatnonzero(self.rank):
            np.matmul(self[i].T, self[i], out=covariances[i])
        return covariances


class Gaussians(NamedTuple):
    """One Gaussian N(x_i, Σ_i) for each point: what one iteration of the transform produces.

    Attributes
    ----------
    points : array of shape (n, m)
        Where the points are.
    covariances : array of shape (n, m, m), or Factors
        Covariance of the neighbourhood of each point; symmetric, positive semi-definite, often singular. In many
        dimensions factors stand for them where these are smaller.
    """

    points: FloatArray
    covariances: FloatArray | Factors

    def take(self, index: slice | AnyArray) -> Gaussians:
        """Return the Gaussians of some points, by a slice, a mask or indices."""
        return Gaussians(self.points[index], self.covariances[index])
