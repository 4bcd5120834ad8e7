"""Principal factors: covariances as their principal axes, each as long as its standard deviation.

Whatever covariances come as, dense matrices or factors, comparisons beyond three dimensions and truncated ones start
from the rows √λ_k·v_k of the eigenvalues λ_k > 0 and eigenvectors v_k: Σ = FᵀF with orthogonal rows, the longest
first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.linalg import eigh

from gaussian_transform._blas import one_blas_thread
from gaussian_transform._parallel import run_ranges
from gaussian_transform._typing import Factors, FloatArray, IntArray

# Bytes of the stacks of small matrices that one thread works on at a time.
STACK_BYTES = 1 << 22
# So many deviations of a covariance bound distances one by one; the norm of the others stands for them.
_N_DEVIATIONS = 32
# Rows shorter than this share of the longest are turned once more.
_SHORT = 1e-3
_EPS = float(np.finfo(np.float64).eps)


class PrincipalFactors(NamedTuple):
    """Covariances Σ_i = F_iᵀF_i with ``F_i = rows[begin[i]:begin[i] + rank[i]]``, orthogonal rows, longest first.

    Attributes
    ----------
    rows : array of shape (n_rows, m)
        The rows of all factors, and others that nothing refers to.
    lengths : array of shape (n_rows,)
        Their norms, which are the roots of the eigenvalues.
    begin, rank : arrays of shape (n,)
        Where the rows of each covariance begin, and how many there are.
    traces : array of shape (n,)
        The traces of the covariances.
    """

    rows: FloatArray
    lengths: FloatArray
    begin: IntArray
    rank: IntArray
    traces: FloatArray

    def take(self, index: IntArray) -> PrincipalFactors:
        """Return some of the covariances, which share the rows."""
        return self._replace(begin=self.begin[index], rank=self.rank[index], traces=self.traces[index])

    def factor(self, i: int) -> FloatArray:
        """Return the factor of one covariance."""
        return self.rows[self.begin[i] : self.begin[i] + self.rank[i]]

    def deviations(self) -> FloatArray:
        """Return the roots of the largest eigenvalues, shape (n, at most 32), the norm of those left out as the last.

        For the sorted eigenvalues a, b of two covariances ‖√a − √b‖ ≤ dcov, and so is the distance of these rows.
        """
        deviations = np.append(self.lengths, 0.0)[self._places(_N_DEVIATIONS)]
        has_more = self.rank > _N_DEVIATIONS
        if np.any(has_more):
            rest = self.traces[has_more] - np.sum(deviations[has_more, :-1] ** 2, axis=1)
            deviations[has_more, -1] = np.sqrt(np.maximum(rest, 0.0))
        return deviations

    def padded(self) -> FloatArray:
        """Return the factors as an array of shape (n, largest rank, m), rows of zeros last."""
        return np.vstack([self.rows, np.zeros((1, self.rows.shape[1]))])[self._places()]

    def roots(self) -> FloatArray:
        """Return the symmetric roots Σ^½ (n, m, m)."""
        halves = self.padded() / np.sqrt(np.append(self.lengths, 1.0)[self._places()])[:, :, None]
        roots = np.swapaxes(halves, 1, 2) @ halves
        symmetric: FloatArray = 0.5 * (roots + np.swapaxes(roots, 1, 2))
        return symmetric

    def _places(self, most: int | None = None) -> IntArray:
        """Return which row is the first, second, … of each covariance, shape (n, largest rank); -1 after the last."""
        number = np.arange(min(int(np.max(self.rank, initial=0)), most or 2**62))
        return np.where(number < self.rank[:, None], self.begin[:, None] + number, -1)


def principal_of_covariances(covs: FloatArray, exponent: int, n_threads: int) -> PrincipalFactors:
    """Return the principal factors of covariances of shape (n, m, m), times ``2**exponent``.

    Eigenvalues that the rounding of the largest could have made count as 0.
    """
    n, m, _ = covs.shape
    rows, lengths = np.empty((n, m, m)), np.empty((n, m))

    def work(start: int, stop: int) -> None:
        scaled = np.ldexp(covs[start:stop], 2 * exponent)
        values, vectors = eigh(0.5 * (scaled + np.swapaxes(scaled, 1, 2)))
        noise = m * _EPS * values[:, -1:]
        lengths[start:stop] = np.sqrt(np.where(values > noise, values, 0.0))[:, ::-1]
        np.multiply(np.swapaxes(vectors, 1, 2)[:, ::-1], lengths[start:stop, :, None], out=rows[start:stop])

    with one_blas_thread:
        run_ranges(work, n, n_threads=n_threads, grain=max(1, STACK_BYTES // (32 * m * m)))
    begin, rank = m * np.arange(n), np.count_nonzero(lengths, axis=1)
    traces = np.sum(lengths**2, axis=1)
    return PrincipalFactors(rows.reshape(-1, m), lengths.reshape(-1), begin, rank, traces)


def principal_of_factors(factors: Factors, exponent: int, n_threads: int) -> PrincipalFactors:
    """Return the principal factors of covariances given by any factors, times ``2**exponent``.

    What covariances share, they share afterwards. Rows that the rounding of the longest could have made count as 0.
    """
    m = factors.rows.shape[1]
    _, first, inverse = np.unique(np.where(factors.rank > 0, factors.begin, -1), return_index=True, return_inverse=True)
    given, size = factors.begin[first], factors.rank[first]
    begin = np.cumsum(size) - size
    rows, lengths = np.empty((int(size.sum()), m)), np.zeros(int(size.sum()))
    rank, traces = np.zeros_like(size), np.zeros(first.size)

    def turn(chosen: IntArray) -> None:
        number = np.arange(size[chosen[0]])
        turned, norms = _turned(np.ldexp(factors.rows[given[chosen, None] + number], exponent))
        # Among rows as short as rounding the longest may not come first, and zeros must come last.
        order = np.argsort(-norms, axis=1, kind="stable")
        turned, norms = np.take_along_axis(turned, order[:, :, None], axis=1), np.take_along_axis(norms, order, axis=1)
        norms[norms <= number.size * _EPS * norms[:, :1]] = 0.0
        place = begin[chosen, None] + number
        rows[place], lengths[place] = turned, norms
        rank[chosen], traces[chosen] = np.count_nonzero(norms, axis=1), np.sum(norms**2, axis=1)

    stacks = [stack for r in np.unique(size[size > 0]) for stack in _stacks(np.flatnonzero(size == r), 8 * int(r) * m)]
    with one_blas_thread:
        run_ranges(lambda start, _: turn(stacks[start]), len(stacks), n_threads=n_threads, grain=1)
    return PrincipalFactors(rows, lengths, begin[inverse], rank[inverse], traces[inverse])


def _turned(stack: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return matrices (p, r, m) turned from the left so that their rows are orthogonal, longest first, and their norms.

    The eigenvectors of F Fᵀ do so, but of rows much shorter than the longest only to the rounding of that; these are
    turned once more among themselves. (Singular values would do it at once, at ten times the cost.)
    """
    _, vectors = eigh(stack @ np.swapaxes(stack, 1, 2))
    turned = np.swapaxes(vectors, 1, 2)[:, ::-1] @ stack
    norms = np.sqrt(np.sum(np.square(turned), axis=2))
    r = stack.shape[1]
    for p in np.flatnonzero(norms[:, -1] < _SHORT * norms[:, 0]):
        n_long = int(np.count_nonzero(norms[p] >= _SHORT * norms[p, 0]))
        if r * _EPS * norms[p, 0] < norms[p, n_long] and norms[p, n_long] > 0.0:
            turned[p : p + 1, n_long:], norms[p : p + 1, n_long:] = _turned(turned[p : p + 1, n_long:])
    return turned, norms


def _stacks(chosen: IntArray, n_bytes: int) -> list[IntArray]:
    """Split indices so that matrices of `n_bytes` each, a few copies of them, stay within a stack."""
    step = max(1, STACK_BYTES // (4 * n_bytes))
    return [chosen[start : start + step] for start in range(0, chosen.size, step)]
