"""Pictures: what is drawn is where the numbers say it is; and the demonstration, which is made of them."""

import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import linkage

from gaussian_transform import cli, plotting
from gaussian_transform.cli import demo_sections


@pytest.fixture
def ax():
    return Figure().subplots()


def test_label_colors_give_each_cluster_its_own_and_noise_grey():
    colors = plotting.label_colors([1, -1, 0, 1])
    assert list(colors) == [plotting.PALETTE[1], plotting.MUTED, plotting.PALETTE[0], plotting.PALETTE[1]]


def test_label_colors_wrap_around_after_the_palette():
    colors = plotting.label_colors(np.arange(len(plotting.PALETTE) + 1))
    assert colors[-1] == colors[0]
    assert len(set(colors)) == len(plotting.PALETTE)


@pytest.mark.parametrize("labels", [[0.5, 1.0], ["a", "b"], [[0, 1]]])
def test_label_colors_refuse_what_is_no_label(labels):
    with pytest.raises(ValueError, match="one integer for each point"):
        plotting.label_colors(labels)


def test_scatter_draws_the_points_at_equal_scales_and_returns_the_axes(ax):
    points = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, -1.0]])
    assert plotting.scatter(ax, points, [0, 1, 1], title="three") is ax
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), points)
    assert len(np.unique(ax.collections[0].get_facecolors(), axis=0)) == 2
    assert ax.get_aspect() == 1.0
    assert ax.get_title(loc="left") == "three"


def test_scatter_draws_noise_first_so_that_it_lies_under_the_clusters(ax):
    plotting.scatter(ax, [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], [0, -1, 1])
    assert ax.collections[0].get_offsets()[:, 0].tolist() == [1.0, 0.0, 2.0]


@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3)])
def test_scatter_refuses_what_is_not_planar(ax, shape):
    with pytest.raises(ValueError, match=r"needs \(n, 2\)"):
        plotting.scatter(ax, np.zeros(shape))


def test_ellipses_have_the_axes_of_the_covariance(ax):
    angle = 0.3
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    covariance = rotation @ np.diag([9.0, 4.0]) @ rotation.T
    assert plotting.ellipses(ax, [[1.0, 2.0]], [covariance], scale=0.5) is ax
    (drawn,) = ax.collections
    sides = {float(drawn.get_widths()[0]): 0.0, float(drawn.get_heights()[0]): 90.0}
    assert sorted(sides) == pytest.approx([2.0, 3.0])  # a standard deviation across: 2 · 0.5 · (2, 3)
    long_axis = float(drawn.get_angles()[0]) + sides[max(sides)]
    assert (long_axis - np.degrees(angle)) % 180.0 == pytest.approx(0.0, abs=1e-9) or (
        long_axis - np.degrees(angle)
    ) % 180.0 == pytest.approx(180.0)


def test_ellipses_of_singular_and_slightly_negative_covariances_are_lines_and_dots(ax):
    covariances = np.array([np.zeros((2, 2)), np.diag([1.0, 0.0]), np.diag([1.0, -1e-17])])
    plotting.ellipses(ax, np.zeros((3, 2)), covariances)
    (drawn,) = ax.collections
    thin = np.minimum(drawn.get_widths(), drawn.get_heights())
    np.testing.assert_array_equal(thin, 0.0)
    ax.figure.canvas.draw()


def test_ellipses_widen_the_limits_and_can_be_thinned_out(ax):
    points = np.stack([np.arange(10.0), np.zeros(10)], axis=1)
    plotting.ellipses(ax, points, np.tile(np.eye(2), (10, 1, 1)), every=3)
    assert len(ax.collections[0].get_offsets()) == 4
    assert ax.get_xlim()[0] <= -1.0
    assert ax.get_xlim()[1] >= 10.0


def test_ellipses_need_one_covariance_for_each_point(ax):
    with pytest.raises(ValueError, match="covariances has the shape"):
        plotting.ellipses(ax, np.zeros((3, 2)), np.zeros((2, 2, 2)))


def test_before_after_share_their_limits():
    axes = Figure().subplots(1, 2)
    rng = np.random.default_rng(0)
    before = rng.normal(size=(20, 2))
    left, right = plotting.before_after(axes, before, 0.1 * before, titles=("raw", "clean"))
    assert left.get_xlim() == right.get_xlim()
    assert left.get_ylim() == right.get_ylim()
    assert [panel.get_title(loc="left") for panel in axes] == ["raw", "clean"]


def test_dendrogram_draws_each_merge_at_its_height_over_its_branches(ax):
    tree = linkage(np.array([[0.0], [1.0], [5.0], [6.5]]), "single")
    plotting.dendrogram(ax, tree, labels=[0, 0, 1, 1])
    segments = ax.collections[0].get_segments()
    assert [segment[1][1] for segment in segments] == pytest.approx([1.0, 1.5, 4.0])
    spans = [(segment[0][0], segment[-1][0]) for segment in segments]
    assert spans[0] == (0.5, 1.5)
    assert spans[2] == (1.0, 3.0)
    colors = ax.collections[0].get_colors()
    assert not np.array_equal(colors[0], colors[1])
    assert not np.array_equal(colors[0], colors[2])


def test_dendrogram_branches_never_cross(ax):
    rng = np.random.default_rng(1)
    plotting.dendrogram(ax, linkage(rng.normal(size=(60, 2)), "average"))
    merges = np.array(ax.collections[0].get_segments())
    left, right, top = merges[:, 1, 0], merges[:, 2, 0], merges[:, 1, 1]
    for foot in (merges[:, 0], merges[:, 3]):  # each branch rises from its foot to the bar over it
        crosses = (left[:, None] < foot[:, 0]) & (foot[:, 0] < right[:, None])
        crosses &= (foot[:, 1] < top[:, None]) & (top[:, None] < top)
        assert not crosses.any()
    feet = merges[:, [0, 3]].reshape(-1, 2)
    np.testing.assert_array_equal(np.sort(feet[feet[:, 1] == 0.0, 0]), np.arange(60) + 0.5)


def test_dendrogram_takes_a_chain_deeper_than_the_recursion_limit(ax):
    n = 5 * sys.getrecursionlimit()
    chain = np.stack(
        [np.r_[0, np.arange(n, 2 * n - 2)], np.arange(1, n), np.arange(1.0, n), np.arange(2, n + 1)], axis=1
    )
    plotting.dendrogram(ax, chain)
    assert len(ax.collections[0].get_segments()) == n - 1


@pytest.mark.parametrize("tree", [np.zeros((0, 4)), np.zeros((3, 3)), np.zeros(4)])
def test_dendrogram_refuses_what_is_no_tree(ax, tree):
    with pytest.raises(ValueError, match="tree has the shape"):
        plotting.dendrogram(ax, tree)


def test_without_matplotlib_the_module_imports_and_says_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from gaussian_transform import plotting\n"
        "try:\n    plotting.subplots()\n"
        "except ImportError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "gaussian-transform[plot]"' in run.stdout


# --- demonstration ----------------------------------------------------------------------------------------------------


def run_demo(folder, *options):
    return CliRunner().invoke(cli.main, ["demo", "--out", str(folder), *options])


def test_demo_writes_pictures_and_a_page_that_needs_nothing_else(tmp_path):
    folder = tmp_path / "new" / "demo"
    output = run_demo(folder).stdout
    page = folder / "index.html"
    assert str(page) in output
    pictures = sorted(folder.glob("*.png"))
    assert len(pictures) == len(demo_sections.SECTIONS)
    assert {path.suffix for path in folder.iterdir()} == {".png", ".html"}
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r'(?:src|href)="([^";,]*)', text)) == {"data:image/png"}
    assert text.count("<img ") == len(pictures)

    refused = run_demo(folder)
    assert refused.exit_code == 2
    assert "--overwrite" in refused.stderr
    (folder / "notes.txt").write_text("mine")
    page.write_text("old")
    assert run_demo(folder, "--overwrite").exit_code == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("make", [demo_sections.dumbbell, demo_sections.t_junction])
def test_demo_clusters_what_euclidean_linkage_cannot(make):
    _, euclidean, ours = make().measured
    assert float(euclidean[1]) < 0.1
    assert float(ours[1]) > 0.9


@pytest.mark.parametrize("make", [demo_sections.spiral, demo_sections.circles])
def test_demo_denoises(make):
    (_, before, after), _ = make().measured[1:]
    assert float(after) < 0.6 * float(before)


@pytest.mark.parametrize("make", demo_sections.SECTIONS)
def test_the_lines_shown_in_the_demo_run(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(textwrap.dedent(make().code), make.__name__, "exec"), {})


def test_demo_without_matplotlib_says_what_to_install(tmp_path):
    code = "import sys; sys.modules['matplotlib'] = None\nfrom gaussian_transform.cli import main; main(sys.argv[1:])"
    result = subprocess.run(
        [sys.executable, "-c", code, "demo", "--out", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith('Error: Plotting needs matplotlib, which is not installed: run pip install "gauss')
    assert not (tmp_path / "demo").exists()
