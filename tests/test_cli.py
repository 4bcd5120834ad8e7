"""The command, as people run it: results, refusals, and nothing left behind."""

import csv
import errno
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse

import gaussian_transform as gt
from gaussian_transform import cli, io
from gaussian_transform.cli import bench, options
from gaussian_transform.linkage import Method
from gaussian_transform.profiles import KERNELS

ROOT = Path(__file__).parents[1]
EPS = ("--eps", "1.5")


def run(*arguments):
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def run_for_real(*arguments, **options):
    command = [sys.executable, "-c", "from gaussian_transform.cli import main; main(prog_name='gtransform')"]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=False, **options)


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def fail(code, pattern, *arguments):
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert re.fullmatch(r"Error: .+\n", result.stderr), "an error is one line"
    assert re.search(pattern, result.stderr), result.stderr


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(20, 2)), rng.normal((8.0, 0.0), size=(15, 2))])


@pytest.fixture
def table(tmp_path, points):
    """A csv file whose coordinates stand among other columns."""
    rows = [f"{i:03d},{float(x)!r},a {i % 3},{float(y)!r},{i % 4}.50" for i, (x, y) in enumerate(points)]
    path = tmp_path / "points.csv"
    path.write_text("\n".join(["id,x,name,y,mass", *rows]) + "\n")
    return path


@pytest.fixture
def plain(tmp_path, points):
    path = tmp_path / "points.npy"
    np.save(path, points)
    return path


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "npy", "npz", "parquet"])
def test_denoise_writes_what_the_estimator_gives_in_every_format(tmp_path, points, ending):
    source, target = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    io.write_table(source, io.Table.of(points, ["x", "y"]))
    succeed("denoise", source, target, *EPS, "--lam", 2, "--iterations", 2)
    expected = gt.GaussianTransform(eps=1.5, lam=2.0, n_iter=2).fit_transform(points)
    np.testing.assert_array_equal(io.read_points(target), expected)


def test_denoise_keeps_the_other_columns_as_they_are(tmp_path, points, table):
    target = tmp_path / "out.csv"
    succeed("denoise", table, target, "--columns", "x,y", *EPS)
    before, after = (list(csv.reader(path.read_text().splitlines())) for path in (table, target))
    assert before[0] == after[0]
    for column in (0, 2, 4):
        assert [row[column] for row in before] == [row[column] for row in after]
    moved = np.array([[float(row[1]), float(row[3])] for row in after[1:]])
    np.testing.assert_array_equal(moved, gt.GaussianTransform(eps=1.5).fit_transform(points))


def test_weights_are_read_used_and_kept(tmp_path, points, table):
    target = tmp_path / "out.csv"
    succeed("denoise", table, target, "--columns", "x,y", "--weights", "mass", *EPS)
    weights = np.arange(len(points)) % 4 + 0.5
    expected = gt.GaussianTransform(eps=1.5).fit(points, sample_weight=weights).points_
    np.testing.assert_array_equal(io.read_points(target, "x,y"), expected)
    assert target.read_text().splitlines()[1].endswith(",0.50")


def test_weights_are_no_coordinate_when_no_columns_are_chosen(tmp_path, points):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    weights = np.arange(1.0, len(points) + 1.0)
    io.write_table(source, io.Table.of(np.column_stack([points[:, 0], weights, points[:, 1]]), ["x", "w", "y"]))
    succeed("denoise", source, target, "--weights", "w", *EPS)
    expected = gt.GaussianTransform(eps=1.5).fit(points, sample_weight=weights).points_
    np.testing.assert_array_equal(io.read_points(target, "x,y"), expected)


def test_mean_shift_is_the_transform_without_local_shape(tmp_path, points, plain):
    target = tmp_path / "out.npy"
    succeed("denoise", plain, target, "--method", "ms", *EPS)
    np.testing.assert_array_equal(np.load(target), gt.MeanShiftTransform(eps=1.5).fit_transform(points))


@pytest.mark.parametrize("kernel", ["gaussian", "cauchy"])
def test_the_kernel_is_passed_on(tmp_path, points, plain, kernel):
    target = tmp_path / "out.npy"
    succeed("denoise", plain, target, "--kernel", kernel, *EPS)
    np.testing.assert_array_equal(np.load(target), gt.GaussianTransform(eps=1.5, kernel=kernel).fit_transform(points))


def test_the_radius_chosen_from_the_data_is_printed(tmp_path, points, plain):
    output = succeed("denoise", plain, tmp_path / "out.npy")
    chosen = gt.GaussianTransform().fit(points).eps_
    assert f"eps={chosen:.6g}" in output
    assert "out.npy" in output


def test_cluster_appends_a_column_of_labels(tmp_path, points, table):
    target = tmp_path / "out.csv"
    output = succeed("cluster", table, target, "--columns", "x,y", "--clusters", 2, *EPS)
    before, after = table.read_text().splitlines(), target.read_text().splitlines()
    assert after[0] == before[0] + ",label"
    labels = [int(line.rsplit(",", 1)[1]) for line in after[1:]]
    model = gt.GaussianTransformClustering(eps=1.5, n_clusters=2).fit(points)
    assert labels == model.labels_.tolist()
    assert len(set(labels)) == 2
    assert "35 points in 2 clusters" in output


@pytest.mark.parametrize("linkage", ["single", "complete", "average"])
def test_cluster_by_threshold_and_linkage(tmp_path, points, plain, linkage):
    target = tmp_path / "out.npy"
    succeed("cluster", plain, target, "--threshold", 2.5, "--linkage", linkage, *EPS)
    model = gt.GaussianTransformClustering(eps=1.5, distance_threshold=2.5, linkage=linkage).fit(points)
    np.testing.assert_array_equal(np.load(target)[:, 2], model.labels_)


def test_cluster_merges_up_to_the_radius_when_nothing_is_said(tmp_path, points, plain):
    target = tmp_path / "out.npy"
    succeed("cluster", plain, target, *EPS)
    model = gt.GaussianTransformClustering(eps=1.5, distance_threshold=1.5).fit(points)
    np.testing.assert_array_equal(np.load(target)[:, 2], model.labels_)


def test_distances_writes_the_whole_matrix(tmp_path, points, plain):
    target = tmp_path / "out.npy"
    succeed("distances", plain, target, "--iterations", 0, *EPS)
    np.testing.assert_array_equal(np.load(target), gt.GaussianTransform(eps=1.5, n_iter=0).fit(points).distances())


def test_distances_within_a_radius_are_a_sparse_matrix(tmp_path, points, plain):
    target = tmp_path / "out.npz"
    succeed("distances", plain, target, "--radius", 1.0, *EPS)
    found = sparse.load_npz(target)
    expected = gt.GaussianTransform(eps=1.5).fit(points).neighbors_graph(1.0)
    np.testing.assert_array_equal(found.toarray(), expected.toarray())
    assert 0 < found.nnz < len(points) ** 2


def test_the_number_of_threads_changes_nothing(tmp_path, plain):
    one, two = tmp_path / "one.npy", tmp_path / "two.npy"
    succeed("denoise", plain, one, "--jobs", 1, *EPS)
    succeed("denoise", plain, two, "--jobs", 2, *EPS)
    assert one.read_bytes() == two.read_bytes()


# --- existing outputs -------------------------------------------------------------------------------------------------

COMMANDS = {"denoise": (), "cluster": ("--clusters", "2"), "distances": ()}


@pytest.mark.parametrize("command", COMMANDS)
def test_an_existing_output_is_refused_before_the_input_is_read(tmp_path, command):
    target = tmp_path / "out.npy"
    target.write_text("mine")
    fail(2, "--overwrite", command, tmp_path / "missing.npy", target, *COMMANDS[command], *EPS)
    assert target.read_text() == "mine"


@pytest.mark.parametrize("command", COMMANDS)
def test_overwrite_replaces_the_output(tmp_path, plain, command):
    target, fresh = tmp_path / "out.npy", tmp_path / "fresh.npy"
    target.write_text("old")
    succeed(command, plain, fresh, *COMMANDS[command], *EPS)
    succeed(command, plain, target, *COMMANDS[command], *EPS, "--overwrite")
    assert target.read_bytes() == fresh.read_bytes()


def test_the_input_is_its_own_output_only_when_asked(tmp_path, points, plain):
    fail(2, "--overwrite", "denoise", plain, plain, *EPS)
    np.testing.assert_array_equal(np.load(plain), points)
    succeed("denoise", plain, plain, *EPS, "--overwrite")
    np.testing.assert_array_equal(np.load(plain), gt.GaussianTransform(eps=1.5).fit_transform(points))


# --- bad input --------------------------------------------------------------------------------------------------------

BAD_FILES = {
    "missing": (None, "does not exist"),
    "empty": ("", "empty"),
    "header alone": ("x,y\n", "no points"),
    "ragged": ("x,y\n1,2\n3\n", "line 3"),
    "not numeric": ("x,y\n1,2\n3,4\n5,six\n", "line 4.*'six'"),
    "nan": ("x,y\n1,2\nnan,4\n", "line 3.*finite"),
    "infinite": ("x,y\n1,2\n3,inf\n", "line 3.*finite"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_told_in_one_line_and_leaves_nothing(tmp_path, command, kind):
    content, pattern = BAD_FILES[kind]
    source = tmp_path / "in.csv"
    if content is not None:
        source.write_text(content)
    before = sorted(tmp_path.iterdir())
    fail(2, pattern, command, source, tmp_path / "out.csv", *COMMANDS[command], *EPS)
    assert sorted(tmp_path.iterdir()) == before


BAD_OPTIONS = {
    "eps zero": (("denoise", "--eps", "0"), "--eps"),
    "eps negative": (("denoise", "--eps", "-1"), "--eps"),
    "eps nan": (("denoise", "--eps", "nan"), "--eps.*finite"),
    "eps infinite": (("denoise", "--eps", "inf"), "--eps.*finite"),
    "eps text": (("denoise", "--eps", "wide"), "--eps"),
    "lam negative": (("denoise", *EPS, "--lam", "-0.1"), "--lam"),
    "lam nan": (("denoise", *EPS, "--lam", "nan"), "--lam.*finite"),
    "iterations negative": (("denoise", *EPS, "--iterations", "-1"), "--iterations"),
    "kernel unknown": (("denoise", *EPS, "--kernel", "square"), "--kernel"),
    "mean shift with lam": (("denoise", *EPS, "--method", "ms", "--lam", "2"), "--lam 2 .* --method ms"),
    "column unknown": (("denoise", *EPS, "--columns", "x,z"), "column 'x'"),
    "weights unknown": (("denoise", *EPS, "--weights", "w"), "column 'w'"),
    "weights a coordinate": (("denoise", *EPS, "--columns", "1,2", "--weights", "2"), "both"),
    "option unknown": (("denoise", "--radius", "2"), "--radius"),
    "clusters and threshold": (("cluster", *EPS, "--clusters", "2", "--threshold", "1"), "--clusters and --threshold"),
    "more clusters than points": (("cluster", *EPS, "--clusters", "36"), "36"),
    "no cluster": (("cluster", *EPS, "--clusters", "0"), "--clusters"),
    "threshold negative": (("cluster", *EPS, "--threshold", "-1"), "--threshold"),
    "linkage unknown": (("cluster", *EPS, "--clusters", "2", "--linkage", "double"), "--linkage"),
    "radius zero": (("distances", *EPS, "--radius", "0"), "--radius"),
    "sparse into npy": (("distances", *EPS, "--radius", "1"), r"\.npz"),
}


@pytest.mark.parametrize("kind", BAD_OPTIONS)
def test_a_bad_option_is_told_in_one_line_and_leaves_nothing(tmp_path, plain, kind):
    (command, *options), pattern = BAD_OPTIONS[kind]
    before = sorted(tmp_path.iterdir())
    fail(2, pattern, command, plain, tmp_path / "out.npy", *options)
    assert sorted(tmp_path.iterdir()) == before


def test_negative_weights_are_refused(tmp_path, points):
    source = tmp_path / "in.csv"
    io.write_table(source, io.Table.of(np.column_stack([points, -np.ones(len(points))]), ["x", "y", "w"]))
    fail(2, "weight", "denoise", source, tmp_path / "out.csv", "--weights", "w", *EPS)


def test_a_column_of_labels_is_not_replaced_but_may_have_another_name(tmp_path, points):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    io.write_table(source, io.Table.of(points, ["x", "y"]).with_column("label", np.zeros(len(points), dtype=int)))
    arguments = ("cluster", source, target, "--columns", "x,y", "--clusters", 2, *EPS)
    fail(2, "'label' already.*--label", *arguments)
    succeed(*arguments, "--label", "part")
    assert target.read_text().splitlines()[0] == "x,y,label,part"


@pytest.mark.parametrize("name", ["out.doc", "out", "no-such-folder/out.csv"])
def test_an_output_that_cannot_be_written_is_refused_before_the_input_is_read(tmp_path, name):
    fail(2, re.escape(name), "denoise", tmp_path / "missing.csv", tmp_path / name, *EPS)


# --- failures ---------------------------------------------------------------------------------------------------------


def raising(error):
    def fit(*_, **__):
        raise error

    return fit


@pytest.mark.parametrize("command", COMMANDS)
def test_an_interrupt_says_so_and_leaves_nothing(tmp_path, plain, monkeypatch, command):
    for estimator in (gt.GaussianTransform, gt.GaussianTransformClustering):
        monkeypatch.setattr(estimator, "fit", raising(KeyboardInterrupt()))
    result = run(command, plain, tmp_path / "out.npy", *COMMANDS[command], *EPS)
    assert result.exit_code == 130
    assert "Interrupted" in result.stderr
    assert list(tmp_path.iterdir()) == [plain]


def test_a_full_disk_is_a_failure_and_leaves_nothing(tmp_path, plain, monkeypatch):
    monkeypatch.setattr(np, "save", raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    fail(1, "No space left", "denoise", plain, tmp_path / "out.npy", *EPS)
    assert list(tmp_path.iterdir()) == [plain]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("two\nlines"), ZeroDivisionError("by zero")])
def test_a_fault_is_one_line_unless_more_is_asked_for(tmp_path, plain, monkeypatch, error):
    monkeypatch.setattr(gt.GaussianTransform, "fit", raising(error))
    monkeypatch.delenv("GTRANSFORM_DEBUG", raising=False)
    arguments = ("denoise", plain, tmp_path / "out.npy", *EPS)
    fail(1, "memory|RuntimeError: two lines|ZeroDivisionError: by zero", *arguments)
    monkeypatch.setenv("GTRANSFORM_DEBUG", "1")
    assert run(*arguments).exception is error


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
def test_ctrl_c_during_a_real_run(tmp_path, plain):
    code = textwrap.dedent("""
        import sys, time
        import gaussian_transform as gt
        from gaussian_transform.cli import main
        def fit(self, X, y=None, sample_weight=None):
            print("fitting", flush=True)
            time.sleep(60)
        gt.GaussianTransform.fit = fit
        main(sys.argv[1:])
    """)
    arguments = ["denoise", str(plain), str(tmp_path / "out.npy"), *EPS]
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "fitting\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.strip() == "Interrupted: nothing was written."
    assert list(tmp_path.iterdir()) == [plain]


# --- the terminal -----------------------------------------------------------------------------------------------------


def test_no_progress_where_nobody_watches(tmp_path, plain):
    result = run_for_real("denoise", plain, tmp_path / "out.npy", *EPS)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_progress_is_drawn_on_a_terminal(tmp_path, plain):
    ours, theirs = os.openpty()
    code = "from gaussian_transform.cli import main; main()"
    arguments = ["denoise", str(plain), str(tmp_path / "out.npy"), *EPS, "--iterations", "3"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            while chunk := os.read(ours, 4096):
                seen += chunk
        except OSError:  # Linux tells the end of a terminal this way
            pass
        output = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    assert b"denoising" in seen
    assert b"denoising" not in output


def test_help_is_quick_because_it_loads_nothing_heavy():
    code = (
        "import sys\nfrom gaussian_transform.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as end:\n    assert not end.code\n"
        "print('loaded', *(name for name in ('numba', 'sklearn', 'scipy', 'rich') if name in sys.modules))"
    )
    for arguments in (["--help"], ["denoise", "--help"], ["--version"]):
        result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert result.stdout.splitlines()[-1] == "loaded"


@pytest.mark.parametrize("command", [(), ("denoise",), ("cluster",), ("distances",), ("demo",), ("bench", "grid")])
def test_every_command_has_help_with_an_example(command):
    output = succeed(*command, "--help")
    assert "Examples:" in output
    assert f"gtransform {' '.join(command)}".rstrip() in output.split("Examples:")[1]


def test_the_choices_offered_are_those_of_the_package():
    assert options.KERNELS == KERNELS
    assert set(options.LINKAGES) <= set(get_args(Method))


def test_version():
    assert succeed("--version") == f"gtransform {gt.__version__}\n"


def test_no_command_shows_the_commands():
    result = run()
    assert result.exit_code == 2
    assert "denoise" in result.stderr


def test_an_unknown_command_is_refused():
    fail(2, "smooth", "smooth")


# --- benchmark and texts ----------------------------------------------------------------------------------------------


def test_bench_grid_times_every_variant():
    output = succeed("bench", "grid", "--side", 12, "--iterations", 2, "--repeat", 1)
    for variant in bench.PAPER_SECONDS:
        assert re.search(rf"{variant} .*\d\.\d\d\d", output)
    assert "paper" not in output, "the paper's figures are for its own grid"


def test_bench_grid_shows_the_papers_figures_beside_ours():
    results = {variant: bench.Timing([0.5, 0.25, 0.125], [4, 4, 1000]) for variant in bench.PAPER_SECONDS}
    header, rows = bench.grid_rows(results, side=bench.PAPER_SIDE)
    assert header[2:] == ["covariances", "τ=1", "τ=2"]
    assert rows[0][2:] == ["0.500", "0.250", "0.125"]
    assert rows[1][2:] == ["", "48.7", "-"]
    assert rows[-2][2:] == ["", "14.7", "8.2"]
    assert rows[-1][2:] == ["4", "4", "1,000"]


def readme_blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_python_lines_of_the_readme_run(capsys):
    (code,) = readme_blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 4


def test_the_commands_of_the_readme_are_understood():
    lines = [
        line.split() for block in readme_blocks("sh") for line in block.splitlines() if line.startswith("gtransform")
    ]
    assert len(lines) >= 5
    for _, name, *arguments in lines:
        command = cli.main.get_command(None, name)
        if name == "bench":
            command, arguments = command.commands[arguments[0]], arguments[1:]
        command.make_context(name, arguments)
