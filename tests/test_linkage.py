"""Spanning trees, dendrograms and flat clusters in the GT distance, against SciPy on dense matrices of distances."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster import hierarchy
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist
from sklearn.metrics import adjusted_rand_score

from gaussian_transform import _shapes
from gaussian_transform._typing import Gaussians
from gaussian_transform.distances import condensed_gt_distances
from gaussian_transform.linkage import cut, linkage, minimum_spanning_tree, single_linkage


def dense_distances(gaussians: Gaussians, lam: float) -> np.ndarray:
    """Condensed distances by the definition: dcov² = min over orthogonal U of ‖A^½ − B^½ U‖²."""
    points, covs = gaussians
    values, vectors = np.linalg.eigh(covs)
    roots = (vectors * np.sqrt(np.clip(values, 0, None))[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    i, j = np.triu_indices(len(points), 1)
    left, _, right = np.linalg.svd(roots[j] @ roots[i])
    bures_squared = ((roots[i] - roots[j] @ (left @ right)) ** 2).sum(axis=(1, 2))
    return np.sqrt(((points[i] - points[j]) ** 2).sum(axis=1) + lam * bures_squared)


def wishart(rng: np.random.Generator, n: int, m: int, scale: float = 0.2, rank: int | None = None) -> np.ndarray:
    factors = scale * rng.standard_normal((n, m, m if rank is None else rank))
    return factors @ np.swapaxes(factors, 1, 2)


def local_gaussians(points: np.ndarray, eps: float) -> Gaussians:
    balls = cKDTree(points).query_ball_point(points, eps * (1 + 1e-9))
    means = np.array([points[ball].mean(axis=0) for ball in balls])
    return Gaussians(means, np.array([np.cov(points[ball].T, bias=True) for ball in balls]))


def grid(side: int, m: int) -> np.ndarray:
    axes = np.meshgrid(*[np.arange(side, dtype=float)] * m, indexing="ij")
    return np.stack(axes, axis=-1).reshape(-1, m)


def assert_same_heights(gaussians: Gaussians, lam: float, *, rtol: float = 1e-12, atol: float = 0.0) -> None:
    Z = single_linkage(gaussians, lam)
    expected = hierarchy.linkage(dense_distances(gaussians, lam), "single")
    assert hierarchy.is_valid_linkage(Z)
    assert hierarchy.is_monotonic(Z)
    np.testing.assert_allclose(Z[:, 2], expected[:, 2], rtol=rtol, atol=atol)


# --- exact heights ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.0, 1.0, 20.0])
@pytest.mark.parametrize(("m", "n"), [(1, 250), (2, 250), (3, 250), (5, 250), (12, 100)])
def test_random_clouds(m, n, lam):
    rng = np.random.default_rng([m, int(lam)])
    assert_same_heights(Gaussians(rng.random((n, m)), wishart(rng, n, m)), lam)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_local_gaussians_of_a_curve(m):
    t = np.linspace(0, 6, 250)
    points = np.stack([np.sin(t * (k + 1) / 2) + k * t for k in range(m)], axis=1)
    points += 0.05 * np.random.default_rng(m).standard_normal(points.shape)
    # Few points in a ball: covariances are singular, and known to about 1e-8 of their size.
    assert_same_heights(local_gaussians(points, 0.5), lam=5.0, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("m", "side", "eps"), [(1, 300, 4.0), (2, 17, 2.0), (3, 7, 1.5)])
def test_grids_full_of_ties(m, side, eps):
    points = grid(side, m)
    balls = cKDTree(points).query_ball_point(points, eps)
    covs = np.array([np.cov(points[ball].T, bias=True).reshape(m, m) for ball in balls])
    for lam in (0.0, 1.0, 8.0):
        assert_same_heights(Gaussians(points, covs), lam, atol=1e-7 * np.sqrt(lam))


@pytest.mark.parametrize("m", [2, 12])
def test_ties_are_broken_by_index(m):
    points = np.pad(np.random.default_rng(0).permutation(grid(9, 2)), ((0, 0), (0, m - 2)))
    gaussians = Gaussians(points, np.zeros((81, m, m)))
    squared = np.rint(pdist(points, "sqeuclidean"))
    i, j = np.triu_indices(81, 1)
    parent = list(range(81))

    def root(k):
        return k if parent[k] == k else root(parent[k])

    expected = []
    for pair in np.lexsort((j, i, squared)):  # Kruskal's algorithm
        a, b = root(i[pair]), root(j[pair])
        if a != b:
            parent[a] = b
            expected.append([i[pair], j[pair]])
    tree = minimum_spanning_tree(gaussians, 1.0)
    assert tree.edges.tolist() == expected
    assert tree.lengths.tolist() == [1.0] * 80


@pytest.mark.parametrize("m", [2, 3, 4, 12])
def test_exact_copies(m):
    rng = np.random.default_rng(m)
    original = Gaussians(rng.random((40, m)), wishart(rng, 40, m))
    which = np.concatenate([np.arange(40), rng.integers(40, size=200)])
    copied = Gaussians(original.points[which], original.covariances[which])
    tree = minimum_spanning_tree(copied, 2.0)
    assert np.count_nonzero(tree.lengths == 0.0) == 200
    np.testing.assert_array_equal(tree.lengths[200:], minimum_spanning_tree(original, 2.0).lengths)
    # Copies hang on the first of them.
    np.testing.assert_array_equal(tree.edges[:200, 0], which[tree.edges[:200, 1]])


def test_copies_differ_by_their_covariance_and_not_by_the_sign_of_zero():
    points = np.zeros((4, 2))
    points[1] = -0.0
    covs = np.array([np.eye(2), np.eye(2), 4 * np.eye(2), np.zeros((2, 2))])
    assert minimum_spanning_tree(Gaussians(points, covs), 2.0).lengths.tolist() == [0.0, 2.0, 2.0]
    assert minimum_spanning_tree(Gaussians(points, covs), 0.0).lengths.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("m", [2, 3])
def test_collinear_points(m):
    rng = np.random.default_rng(m)
    direction = np.arange(1.0, m + 1)
    t, spread = rng.random((200, 1)), rng.random((200, 1, 1))
    assert_same_heights(Gaussians(t * direction, spread * np.outer(direction, direction)), 3.0, rtol=1e-9)


@pytest.mark.parametrize("m", [2, 3, 5, 11])
def test_clusters_of_very_different_scales(m):
    rng = np.random.default_rng(m)
    scale = np.repeat(10.0 ** np.arange(-9, 6, 3), 30)[:, None]
    points = scale * (10 + rng.standard_normal((150, m)))
    assert_same_heights(Gaussians(points, wishart(rng, 150, m) * scale[:, :, None] ** 2), 2.0)


@pytest.mark.parametrize("spread", [1e-3, 1e-9, 1e-15])
@pytest.mark.parametrize("m", [2, 3, 5, 11])
def test_tight_clumps_far_apart(m, spread):
    # All pairs of two clumps are about equally far, and covariances in different directions make the bounds slack.
    rng = np.random.default_rng(m)
    which = rng.integers(6, size=160)
    points = rng.random((6, m))[which] * (1 + spread * rng.standard_normal((160, m)))
    turns = np.eye(m) + spread * rng.standard_normal((160, m, m))
    covs = turns @ wishart(rng, 6, m, scale=1.0)[which] @ np.swapaxes(turns, 1, 2)
    covs = (covs + np.swapaxes(covs, 1, 2)) / 2
    assert_same_heights(Gaussians(points, covs), 1.0, atol=1e-13)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 12])
def test_coordinates_near_the_ends_of_the_range(m, scale):
    rng = np.random.default_rng(m)
    gaussians = Gaussians(rng.random((60, m)), wishart(rng, 60, m))
    Z = single_linkage(gaussians, 2.0)
    scaled = single_linkage(Gaussians(gaussians.points * scale, gaussians.covariances * scale**2), 2.0)
    np.testing.assert_array_equal(scaled[:, [0, 1, 3]], Z[:, [0, 1, 3]])
    np.testing.assert_allclose(scaled[:, 2] / scale, Z[:, 2], rtol=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 12])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_points(n, m):
    rng = np.random.default_rng(n)
    gaussians = Gaussians(rng.random((n, m)), wishart(rng, n, m))
    tree = minimum_spanning_tree(gaussians, 1.0)
    assert tree.edges.shape == (n - 1, 2)
    assert tree.edges.dtype == np.int64
    for method in ("single", "average"):
        Z = linkage(gaussians, 1.0, method)
        assert Z.shape == (n - 1, 4)
    np.testing.assert_allclose(np.sort(tree.lengths), np.sort(dense_distances(gaussians, 1.0))[: n - 1])


@pytest.mark.parametrize("m", [2, 3, 5, 11])
def test_singular_and_zero_covariances(m):
    rng = np.random.default_rng(m)
    covs = np.concatenate([wishart(rng, 40, m, rank=1), wishart(rng, 40, m, rank=m - 1), np.zeros((40, m, m))])
    assert_same_heights(Gaussians(rng.random((120, m)), covs), 4.0, rtol=0, atol=1e-7)


@st.composite
def gaussian_clouds(draw):
    n, m = draw(st.integers(1, 40)), draw(st.sampled_from([1, 2, 3, 4, 5, 11]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    points = rng.standard_normal((n, m))
    if draw(st.booleans()):
        points = np.round(points * draw(st.integers(0, 3)))  # ties and copies
    covs = wishart(rng, n, m, rank=draw(st.integers(1, m)))
    if draw(st.booleans()):
        covs = covs[rng.integers(n, size=n)]
    return Gaussians(points, covs)


@settings(deadline=None, max_examples=60)
@given(gaussian_clouds(), st.floats(0, 20))
def test_heights_of_random_gaussians(gaussians, lam):
    Z = single_linkage(gaussians, lam)
    assert Z.shape == (len(gaussians.points) - 1, 4)
    if len(Z):
        expected = hierarchy.linkage(dense_distances(gaussians, lam), "single")
        np.testing.assert_allclose(Z[:, 2], expected[:, 2], rtol=1e-10, atol=1e-7 * np.sqrt(lam))


# --- how it is found --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(1, 3000), (2, 3000), (3, 2000), (4, 600), (11, 200)])
def test_threads_do_not_change_a_bit(m, n):
    rng = np.random.default_rng(m)
    gaussians = Gaussians(np.round(rng.random((n, m)), 2), wishart(rng, n, m)[rng.integers(20, size=n)])
    one, two, four = (minimum_spanning_tree(gaussians, 1.0, n_jobs=n_jobs) for n_jobs in (1, 2, 4))
    for other in (two, four):
        np.testing.assert_array_equal(other.edges, one.edges)
        np.testing.assert_array_equal(other.lengths, one.lengths)


def test_edges_have_their_distances_and_connect_everything():
    rng = np.random.default_rng(0)
    gaussians = Gaussians(rng.random((500, 3)), wishart(rng, 500, 3))
    tree = minimum_spanning_tree(gaussians, 3.0)
    low, high = tree.edges.T
    assert np.all(low < high)
    assert np.all(np.diff(tree.lengths) >= 0)
    condensed = low * (1000 - low - 3) // 2 + high - 1  # position of (low, high) for n = 500
    np.testing.assert_allclose(condensed_gt_distances(gaussians, 3.0)[condensed], tree.lengths, rtol=1e-14)
    assert single_linkage(gaussians, 3.0)[-1, 3] == 500


def test_representation_of_the_arrays_does_not_matter():
    rng = np.random.default_rng(0)
    single = Gaussians(rng.random((70, 3)).astype(np.float32), wishart(rng, 70, 3).astype(np.float32))
    double = Gaussians(*(array.astype(np.float64) for array in single))
    fortran = Gaussians(*(np.asfortranarray(array) for array in double))
    for array in fortran:
        array.flags.writeable = False
    for method in ("single", "ward"):
        expected = linkage(double, 1.0, method)
        np.testing.assert_array_equal(linkage(single, 1.0, method), expected)
        np.testing.assert_array_equal(linkage(fortran, 1.0, method), expected)


def test_order_of_the_points_does_not_matter():
    rng = np.random.default_rng(0)
    gaussians = Gaussians(rng.random((600, 2)), wishart(rng, 600, 2))
    order = rng.permutation(600)
    tree = minimum_spanning_tree(gaussians, 1.0)
    shuffled = minimum_spanning_tree(Gaussians(gaussians.points[order], gaussians.covariances[order]), 1.0)
    edges = np.sort(order[shuffled.edges], axis=1)
    np.testing.assert_array_equal(edges, tree.edges)


def test_memory_grows_with_the_number_of_points_and_not_its_square():
    rng = np.random.default_rng(0)
    n = 20_000
    gaussians = Gaussians(rng.random((n, 2)), wishart(rng, n, 2, scale=0.001))
    single_linkage(Gaussians(*(array[:100] for array in gaussians)), 1.0)  # compiles
    tracemalloc.start()
    single_linkage(gaussians, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1000 * n  # half a percent of the bytes of the distances


# --- other methods ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["single", "complete", "average", "weighted", "ward"])
@pytest.mark.parametrize("m", [1, 3, 4])
def test_methods_agree_with_scipy(m, method):
    rng = np.random.default_rng(m)
    gaussians = Gaussians(rng.random((80, m)), wishart(rng, 80, m))
    Z = linkage(gaussians, 2.0, method)
    expected = hierarchy.linkage(dense_distances(gaussians, 2.0), method)
    np.testing.assert_array_equal(Z[:, [0, 1, 3]], expected[:, [0, 1, 3]])
    np.testing.assert_allclose(Z[:, 2], expected[:, 2], rtol=1e-11)


def test_truncated_distances():
    rng = np.random.default_rng(0)
    gaussians = Gaussians(rng.random((60, 3)), wishart(rng, 60, 3))
    Z = linkage(gaussians, 2.0, n_eig=1)
    expected = hierarchy.linkage(condensed_gt_distances(gaussians, 2.0, n_eig=1), "single")
    np.testing.assert_array_equal(Z, expected)
    assert np.all(Z[:, 2] >= linkage(gaussians, 2.0)[:, 2])


def test_distances_that_do_not_fit(monkeypatch):
    gaussians = Gaussians(np.arange(200.0).reshape(100, 2), np.zeros((100, 2, 2)))
    monkeypatch.setattr(_shapes, "available_bytes", lambda: 50_000)
    with pytest.raises(MemoryError, match=r'complete linkage .* 100 points needs 79,200 bytes .* method="single"'):
        linkage(gaussians, 1.0, "complete")
    assert linkage(gaussians, 1.0, "single").shape == (99, 4)


# --- flat clusters ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dendrogram():
    rng = np.random.default_rng(5)
    return single_linkage(Gaussians(rng.random((150, 2)), wishart(rng, 150, 2)), 1.0)


@pytest.mark.parametrize("n_clusters", [1, 2, 7, 149, 150])
def test_cut_into_a_number_of_clusters(dendrogram, n_clusters):
    labels = cut(dendrogram, n_clusters=n_clusters)
    assert adjusted_rand_score(labels, hierarchy.fcluster(dendrogram, n_clusters, "maxclust")) == 1.0
    assert labels.max() + 1 == n_clusters


@pytest.mark.parametrize("row", [0, 50, 148])
def test_cut_at_a_height_is_closed(dendrogram, row):
    height = dendrogram[row, 2]
    for threshold, n_clusters in (
        (height, 149 - row),
        (height * (1 - 1e-10), 149 - row),
        (height * (1 - 1e-8), 150 - row),
    ):
        labels = cut(dendrogram, distance_threshold=threshold)
        assert labels.max() + 1 == n_clusters
        np.testing.assert_array_equal(labels, cut(dendrogram, n_clusters=n_clusters))
    assert (
        adjusted_rand_score(
            cut(dendrogram, distance_threshold=height), hierarchy.fcluster(dendrogram, height * (1 + 1e-8), "distance")
        )
        == 1.0
    )


def test_labels_go_from_the_largest_cluster_to_the_smallest():
    points = np.array([[9.0], [0.0], [5.0], [0.1], [9.1], [5.1], [0.2], [20.0]])
    Z = single_linkage(Gaussians(points, np.zeros((8, 1, 1))), 1.0)
    assert cut(Z, distance_threshold=1.0).tolist() == [1, 0, 2, 0, 1, 2, 0, 3]
    assert cut(Z, distance_threshold=0.0).tolist() == list(range(8))
    assert cut(Z, distance_threshold=np.inf).tolist() == [0] * 8


def test_cut_of_one_point():
    Z = np.empty((0, 4))
    assert cut(Z, n_clusters=1).tolist() == [0]
    assert cut(Z, distance_threshold=1.0).tolist() == [0]


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "n_clusters=None and distance_threshold=None .* exactly one"),
        ({"n_clusters": 2, "distance_threshold": 1.0}, ValueError, "exactly one"),
        ({"n_clusters": 0}, ValueError, "n_clusters=0 must be at least 1"),
        ({"n_clusters": 4}, ValueError, "n_clusters=4 must be at most the number of points, 3"),
        ({"n_clusters": 1.5}, TypeError, "n_clusters=1.5 must be a whole number"),
        ({"distance_threshold": -1.0}, ValueError, "distance_threshold=-1.0 must be a number of at least 0"),
        ({"distance_threshold": np.nan}, ValueError, "distance_threshold=nan must be"),
        ({"distance_threshold": "far"}, ValueError, "distance_threshold='far' must be"),
    ],
)
def test_cut_refuses(arguments, error, message):
    Z = np.array([[0.0, 1.0, 1.0, 2.0], [2.0, 3.0, 2.0, 3.0]])
    with pytest.raises(error, match=message):
        cut(Z, **arguments)


@pytest.mark.parametrize(
    ("Z", "message"),
    [
        (np.zeros((3, 3)), r"Z has shape \(3, 3\)"),
        (np.array([[0.0, 1.0, 2.0, 2.0], [2.0, 3.0, 1.0, 3.0]]), "heights that decrease"),
        (np.array([[0.0, 1.0, np.nan, 2.0]]), "heights that decrease"),
        (np.array([[0.0, 5.0, 2.0, 2.0]]), "do not exist yet"),
        (np.array([[0.0, 0.5, 2.0, 2.0]]), "do not exist yet"),
        (np.array([[0.0, 1.0, 1.0, 2.0], [1.0, 2.0, 2.0, 2.0]]), "are merged already"),
    ],
)
def test_cut_refuses_what_is_no_dendrogram(Z, message):
    with pytest.raises(ValueError, match=message):
        cut(Z, n_clusters=1)


@pytest.mark.parametrize(
    ("points", "covs", "lam", "message"),
    [
        (np.zeros((2, 2)), np.zeros((2, 2, 2)), -1.0, "lam=-1.0 must be"),
        (np.zeros((2, 2)), np.zeros((2, 2, 2)), np.nan, "lam=nan must be"),
        (np.zeros((2, 2)), np.zeros((3, 2, 2)), 1.0, r"covariances of shape \(3, 2, 2\)"),
        (np.zeros((0, 2)), np.zeros((0, 2, 2)), 1.0, "at least 1"),
        (np.full((2, 2), np.nan), np.zeros((2, 2, 2)), 1.0, "NaN"),
        (np.zeros((2, 2)), np.full((2, 2, 2), np.inf), 1.0, "infinite"),
    ],
)
@pytest.mark.parametrize("method", ["single", "average"])
def test_linkage_refuses(points, covs, lam, message, method):
    with pytest.raises(ValueError, match=message):
        linkage(Gaussians(points, covs), lam, method)


def test_linkage_refuses_unknown_methods():
    with pytest.raises(ValueError, match=r"method='centroid' is unknown; it must be one of 'single', .*'ward'"):
        linkage(Gaussians(np.zeros((2, 2)), np.zeros((2, 2, 2))), 1.0, "centroid")
