"""The paper's algorithms written down a second time: slow, obvious, and sharing no code with the package.

Every test that asks "is this number right?" asks it here. Arrays are dense, loops run over single points, and the only
care taken is numerical: differences before squares, and Bures distances from factors of the covariances (see
`bures_squared_of_factors`), so that a distance which is zero on paper is zero to about 1e-16 here.
"""

from collections.abc import Callable
from typing import NamedTuple

import mpmath
import numpy as np
import ot
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

TIE = 1e-9  # a point is inside a ball iff d² ≤ eps²·(1 + TIE)
EQUAL = 1e-12  # a truncated distance is 0 iff the exact dcov² is at most this share of the larger trace

Profile = Callable[[np.ndarray], np.ndarray]


class State(NamedTuple):
    """X^k of shape (n, m), Σ^k of shape (n, m, m) and D^k of shape (n, n)."""

    points: np.ndarray
    covariances: np.ndarray
    distances: np.ndarray


# --- Bures distance ---------------------------------------------------------------------------------------------------


def psd_sqrt(A: np.ndarray) -> np.ndarray:
    """A^½ by the eigendecomposition, eigenvalues that rounding made negative taken as zero."""
    values, vectors = np.linalg.eigh(A)
    return (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T


def bures_squared(A: np.ndarray, B: np.ndarray, n_eig: int | None = None) -> float:
    """tr A + tr B − 2 tr((A^½ B A^½)^½); with `n_eig`, that last trace over the n_eig largest eigenvalues only.

    As exact as the definition allows in float64: about 1e-8 of the traces, absolutely, where a matrix is singular.
    """
    root = psd_sqrt(A)
    if n_eig is not None and bures_squared_of_factors(root, psd_sqrt(B)) <= EQUAL * max(np.trace(A), np.trace(B)):
        return 0.0
    roots = np.sqrt(np.clip(np.linalg.eigvalsh(root @ B @ root), 0, None))  # ascending
    return float(np.trace(A) + np.trace(B) - 2 * roots[::-1][:n_eig].sum())


def _mp_roots(A: mpmath.matrix, scale: mpmath.mpf) -> tuple[list, mpmath.matrix]:
    values, vectors = mpmath.eigsy(A)
    if min(values) < -1e-14 * scale:
        raise ValueError(f"the matrix has the eigenvalue {min(values)} and is not positive semi-definite")
    return [mpmath.sqrt(max(value, 0)) for value in values], vectors


def bures_squared_mp(A: np.ndarray, B: np.ndarray, digits: int = 50) -> float:
    """The same definition in `digits` decimal digits: what the two float64 matrices, taken literally, are apart."""
    with mpmath.workdps(digits):
        A_mp, B_mp = mpmath.matrix(np.asarray(A).tolist()), mpmath.matrix(np.asarray(B).tolist())
        trace_a, trace_b = (sum(M[i, i] for i in range(M.rows)) for M in (A_mp, B_mp))
        _mp_roots(B_mp, trace_b)  # refuses an indefinite B, which the product below might not show
        roots, vectors = _mp_roots(A_mp, trace_a)
        root = vectors * mpmath.diag(roots) * vectors.T
        product = root * B_mp * root
        product_roots, _ = _mp_roots((product + product.T) / 2, trace_a * trace_b)
        return float(trace_a + trace_b - 2 * sum(product_roots))


def bures_squared_of_factors(F: np.ndarray, G: np.ndarray) -> np.ndarray:
    """dcov²(F Fᵀ, G Gᵀ) = min over orthogonal U of ‖F − G U‖_F², U from the SVD of Gᵀ F; broadcasts over stacks.

    Expanding the square and using max_U tr(Uᵀ Gᵀ F) = ‖Gᵀ F‖_* gives the definition back. Read as a distance between
    matrices it needs no difference of traces: equal covariances come out 0 to rounding, near ones keep their digits.
    """
    left, _, right = np.linalg.svd(np.swapaxes(G, -1, -2) @ F)
    return ((F - G @ (left @ right)) ** 2).sum(axis=(-2, -1))


def truncated_bures_squared_of_factors(F: np.ndarray, G: np.ndarray, n_eig: int) -> np.ndarray:
    """tr A + tr B − 2·(sum of the n_eig largest singular values of Gᵀ F), before the rule for equal matrices."""
    values = np.linalg.svd(np.swapaxes(G, -1, -2) @ F, compute_uv=False)
    return (F**2).sum(axis=(-2, -1)) + (G**2).sum(axis=(-2, -1)) - 2 * values[..., :n_eig].sum(axis=-1)


# --- the pieces of Algorithm 1 ----------------------------------------------------------------------------------------


def euclidean_squared(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)


def local_weights(squared: np.ndarray, eps: float, alpha: np.ndarray, profile: Profile | None) -> np.ndarray:
    """Row i is the unnormalised local measure of i: α restricted to the closed ball, or α times the smooth kernel."""
    kernel = squared <= eps**2 * (1 + TIE) if profile is None else profile(squared / eps**2)
    return kernel * alpha


def local_mean(weights: np.ndarray, points: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The weighted mean; a measure without mass leaves the point where it is."""
    mass = weights.sum()
    return at if mass == 0 else at + (weights / mass) @ (points - at)


def local_factor(weights: np.ndarray, points: np.ndarray) -> np.ndarray:
    """F of shape (m, m) with F Fᵀ the weighted covariance; zero for a measure without mass."""
    m = points.shape[1]
    factor = np.zeros((m, m))
    mass = weights.sum()
    if mass > 0:
        inside = weights > 0
        share, members = weights[inside] / mass, points[inside]
        mean = local_mean(share, members, members[0])
        upper = np.linalg.qr(np.sqrt(share)[:, None] * (members - mean), mode="r")
        factor[:, : len(upper)] = upper.T
    return factor


def gt_squared(X: np.ndarray, FX: np.ndarray, Y: np.ndarray, FY: np.ndarray, lam: float) -> np.ndarray:
    """‖x − y‖² + λ·dcov² for all pairs (definition of the GT distance)."""
    squared = euclidean_squared(X, Y)
    for i in range(len(X)):
        squared[i] += lam * bures_squared_of_factors(FX[i], FY)
    return squared


def _all_pairs(base: np.ndarray, factors: np.ndarray, lam: float, n_eig: int | None) -> np.ndarray:
    traces = (factors**2).sum(axis=(1, 2))
    squared = base.copy()
    for i in range(len(base)):
        bures = bures_squared_of_factors(factors[i], factors)
        if n_eig is not None:
            is_equal = bures <= EQUAL * np.maximum(traces, traces[i])
            bures = truncated_bures_squared_of_factors(factors[i], factors, n_eig)
            bures[is_equal] = 0
        squared[i] += lam * bures
    squared = np.triu(squared, 1)  # one value a pair, and 0 on the diagonal
    return squared + squared.T


def _normalised(weights: np.ndarray | None, n: int) -> np.ndarray:
    alpha = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    return alpha / alpha.sum()


# --- the algorithms ---------------------------------------------------------------------------------------------------


def _factored_states(X, eps, lam, n_iter, weights, profile, n_eig, metric_distances, base):
    """Yield (X^k, factors of Σ^k, squared D^k) for k = 0 … n_iter (Algorithm 1)."""
    alpha = _normalised(weights, len(X))

    def metric_squared(points):
        if metric_distances is None:
            return euclidean_squared(points, points)
        return np.asarray(metric_distances(points) if callable(metric_distances) else metric_distances) ** 2.0

    local = local_weights(metric_squared(X), eps, alpha, profile)
    points = X
    for k in range(n_iter + 1):
        if k > 0:
            points = np.array([local_mean(row, points, at) for row, at in zip(local, points, strict=True)])
        factors = np.array([local_factor(row, points) for row in local])
        first_term = metric_squared(points) if base == "metric" else euclidean_squared(points, points)
        gt = _all_pairs(first_term, factors, lam, n_eig)
        yield points, factors, gt
        local = local_weights(gt, eps, alpha, profile)


def gaussian_transform(
    X: np.ndarray,
    eps: float,
    lam: float,
    n_iter: int,
    *,
    weights: np.ndarray | None = None,
    profile: Profile | None = None,
    n_eig: int | None = None,
    metric_distances: np.ndarray | Callable[[np.ndarray], np.ndarray] | None = None,
    base: str = "euclidean",
) -> list[State]:
    """Algorithm 1: the states 0 … n_iter, state 0 being the input with Σ⁰ and D⁰.

    `profile` is None for closed balls, otherwise f(d²/eps²). `metric_distances` give the d_X of the first balls: a
    matrix, or a function from points to their matrix. With base="metric" they are also the first term of every D^k; a
    matrix stays what it is while the points move.
    """
    X = np.asarray(X, dtype=float)
    origin = X[0]
    metric = metric_distances
    if callable(metric_distances):
        metric = lambda points: metric_distances(points + origin)  # noqa: E731
    run = _factored_states(X - origin, eps, lam, n_iter, weights, profile, n_eig, metric, base)
    return [State(x + origin, F @ np.swapaxes(F, -1, -2), np.sqrt(np.clip(d2, 0, None))) for x, F, d2 in run]


def travel(
    X_new: np.ndarray,
    X: np.ndarray,
    eps: float,
    lam: float,
    n_iter: int,
    *,
    weights: np.ndarray | None = None,
    profile: Profile | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Unseen points carried along as points of no mass: [(points, covariances)] for the states 0 … n_iter."""
    X, X_new = np.asarray(X, dtype=float), np.asarray(X_new, dtype=float)
    alpha = _normalised(weights, len(X))
    origin = X[0]
    training = list(_factored_states(X - origin, eps, lam, n_iter, weights, profile, None, None, "euclidean"))
    points = X_new - origin
    local = local_weights(euclidean_squared(points, training[0][0]), eps, alpha, profile)
    states = []
    for k, (x, F, _) in enumerate(training):
        if k > 0:
            before = training[k - 1][0]
            points = np.array([local_mean(row, before, at) for row, at in zip(local, points, strict=True)])
        factors = np.array([local_factor(row, x) for row in local])
        states.append((points + origin, factors @ np.swapaxes(factors, -1, -2)))
        local = local_weights(gt_squared(points, factors, x, F, lam), eps, alpha, profile)
    return states


def mean_shift(X: np.ndarray, eps: float, n_iter: int, weights: np.ndarray | None = None) -> list[np.ndarray]:
    """Blurring mean shift with the truncation kernel: all points move at once to the mean of their Euclidean ball."""
    alpha = _normalised(weights, len(X))
    X = np.asarray(X, dtype=float)
    positions = [X]
    for _ in range(n_iter):
        X = positions[-1]
        moved = X.copy()
        for i in range(len(X)):
            offsets = X - X[i]
            ball = (offsets**2).sum(axis=1) <= eps**2 * (1 + TIE)
            if alpha[ball].sum() > 0:
                moved[i] = X[i] + np.average(offsets[ball], axis=0, weights=alpha[ball])
        positions.append(moved)
    return positions


def wasserstein_transform(
    D: np.ndarray, eps: float, p: float, n_iter: int, weights: np.ndarray | None = None
) -> list[np.ndarray]:
    """D^0 = D, and D^{k+1}(i, j) = W_p of α restricted to the two eps-balls of D^k, with ground metric D^k."""
    D = np.asarray(D, dtype=float)
    alpha = _normalised(weights, len(D))
    distances = [D]
    for _ in range(n_iter):
        ground = distances[-1]
        balls = [np.flatnonzero(row**2 <= eps**2 * (1 + TIE)) for row in ground]
        moved = np.zeros_like(ground)
        for i in range(len(ground)):
            for j in range(i):
                a, b = (alpha[ball] / alpha[ball].sum() for ball in (balls[i], balls[j]))
                cost = ot.emd2(a, b, np.ascontiguousarray(ground[np.ix_(balls[i], balls[j])] ** p))
                moved[i, j] = moved[j, i] = max(cost, 0.0) ** (1 / p)
        distances.append(moved)
    return distances


def single_linkage_heights(D: np.ndarray) -> np.ndarray:
    return linkage(squareform(D, checks=False), "single")[:, 2]


def is_decided(distances: np.ndarray, radius: float, band: float = 1e-8) -> bool:
    """True if no pair is so near the radius that two correct programs could disagree; exact ties are decided by TIE."""
    gap = np.abs((distances / radius) ** 2 - 1)
    return not np.any((gap > 1e-12) & (gap < band))
