"""Threads, processes, caches and interrupts: results never depend on them, and nothing hangs or aborts."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gaussian_transform as gt
from gaussian_transform import _parallel
from gaussian_transform._parallel import effective_n_jobs, elementwise, run_ranges

PATIENCE = 240  # seconds after which a process that should have ended is taken to hang


# --- ranges on threads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize(("n", "grain"), [(0, 5), (1, 5), (5, 5), (6, 5), (1000, 1), (1000, 7), (3, 10**9)])
def test_ranges_cover_everything_once(n, grain, n_threads):
    seen = []
    run_ranges(lambda start, stop: seen.append((start, stop)), n, n_threads=n_threads, grain=grain)
    assert sorted(seen) == [(start, min(start + grain, n)) for start in range(0, n, grain)]


def test_ranges_run_on_as_many_threads_as_asked():
    """Each range waits for all others: that ends only if all run at once."""
    meeting = threading.Barrier(5, timeout=PATIENCE)
    run_ranges(lambda start, stop: meeting.wait() and None, 5, n_threads=5, grain=1)
    meeting.reset()
    with pytest.raises(threading.BrokenBarrierError):
        run_ranges(lambda start, stop: meeting.wait(0.2) and None, 5, n_threads=4, grain=1)


def test_one_thread_is_the_callers():
    threads = set()
    run_ranges(lambda start, stop: threads.add(threading.get_ident()), 50, n_threads=1, grain=1)
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("error", [ValueError("bad"), IndexError("pop from an empty deque"), KeyboardInterrupt()])
@pytest.mark.parametrize(("n_threads", "in_helper"), [(1, False), (3, False), (3, True)])
def test_an_exception_stops_the_rest_and_is_raised(n_threads, in_helper, error):
    caller = threading.get_ident()
    failed = threading.Event()
    n_started = []

    def work(start, stop):
        n_started.append(start)
        if (threading.get_ident() != caller) == in_helper and not failed.is_set():
            failed.set()
            raise error
        assert failed.wait(PATIENCE)
        time.sleep(0.01)  # until the others have been told

    with pytest.raises(type(error)) as caught:
        run_ranges(work, 1000, n_threads=n_threads, grain=1)
    assert caught.value is error
    assert len(n_started) < 100
    seen = []
    run_ranges(lambda start, stop: seen.append(start), 100, n_threads=n_threads, grain=1)
    assert sorted(seen) == list(range(100))


def test_the_first_of_two_exceptions_is_raised():
    caller = threading.get_ident()
    failed = threading.Event()

    def work(start, stop):
        if threading.get_ident() != caller:
            failed.set()
            raise ValueError("first")
        assert failed.wait(PATIENCE)
        time.sleep(0.05)
        raise ValueError("second")

    with pytest.raises(ValueError, match="first"):
        run_ranges(work, 2, n_threads=2, grain=1)


def test_an_interrupt_between_two_ranges_stops_the_helpers(monkeypatch):
    """Ctrl-C takes effect anywhere in the caller, not only within a range."""
    caller = threading.get_ident()
    helping = threading.Event()

    class InterruptedDeque(deque):
        def popleft(self):
            if threading.get_ident() == caller:
                assert helping.wait(PATIENCE)
                raise KeyboardInterrupt
            return super().popleft()

    n_started = []

    def work(start, stop):
        n_started.append(start)
        helping.set()
        time.sleep(0.005)

    monkeypatch.setattr(_parallel, "deque", InterruptedDeque)
    with pytest.raises(KeyboardInterrupt):
        run_ranges(work, 400, n_threads=2, grain=1)
    assert len(n_started) < 100


def test_nothing_of_a_call_runs_after_it_has_raised():
    caller = threading.get_ident()
    running = []

    def work(start, stop):
        if threading.get_ident() == caller:
            raise ValueError("at once")
        running.append(start)
        time.sleep(0.1)
        running.remove(start)

    with pytest.raises(ValueError, match="at once"):
        run_ranges(work, 50, n_threads=4, grain=1)
    assert running == []


def test_ranges_within_ranges():
    """Every caller works itself, so that no number of callers can wait for each other's helpers."""
    seen = []

    def outer(start, stop):
        run_ranges(lambda a, b: seen.append((start, a)), 20, n_threads=3, grain=1)

    run_ranges(outer, 10, n_threads=3, grain=1)
    assert sorted(seen) == [(i, j) for i in range(10) for j in range(20)]


# --- how many threads -------------------------------------------------------------------------------------------------


@pytest.fixture
def eight_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_n_jobs_as_in_joblib(eight_cores):
    asked = [None, 1, 3, 100, -1, -2, -8, -9, -100]
    assert [effective_n_jobs(n_jobs) for n_jobs in asked] == [8, 1, 3, 100, 8, 7, 1, 1, 1]


@pytest.mark.parametrize(
    ("omp", "own", "expected"),
    [
        *[("3", None, 3), (None, "5", 5), ("3", "5", 3), ("6", "2", 2), ("100", None, 8)],
        *[("", "", 8), ("0", None, 8), ("many", None, 8), ("-2", None, 8), ("1.5", None, 8)],
    ],
)
def test_the_environment_limits_the_default(omp, own, expected, eight_cores):
    for name, value in (("OMP_NUM_THREADS", omp), ("NUMBA_NUM_THREADS", own)):
        if value is not None:
            eight_cores.setenv(name, value)
    assert effective_n_jobs(None) == expected
    assert effective_n_jobs(4) == 4
    assert effective_n_jobs(-1) == 8


def test_without_affinity_all_cores_count(eight_cores):
    eight_cores.delattr(os, "sched_getaffinity")
    assert effective_n_jobs(None) == 64
    eight_cores.setattr(os, "cpu_count", lambda: None)
    assert effective_n_jobs(None) == 1


def test_numba_functions_of_a_number_become_functions_of_arrays():
    @numba.njit
    def step(r):
        return 1.0 if r <= 1.0 else 0.0

    assert_array_equal(elementwise(step)(np.array([[0.5, 1.0], [1.5, 2.0]])), [[1, 1], [0, 0]])
    assert elementwise(np.exp) is np.exp


# --- fits from several threads at once --------------------------------------------------------------------------------


def fit_something(seed, n_jobs=3):
    """Every engine there is: the plane, space, lists, a smooth kernel; returns everything that was computed."""
    rng = np.random.default_rng(seed)
    told = []
    for m, kernel in ((2, "truncated"), (3, "truncated"), (5, "truncated"), (2, "gaussian")):
        X = rng.normal(size=(300, m))
        model = gt.GaussianTransform(0.3 * m, n_iter=2, kernel=kernel, n_jobs=n_jobs).fit(X)
        told += [model.points_, model.covariances_, model.distances(), model.linkage(), model.transform(X[:9] + 0.1)]
        told.append(gt.GaussianTransformClustering(0.3 * m, kernel=kernel, n_jobs=n_jobs).fit_predict(X))
    return told


def assert_same_bits(told, expected):
    for one, other in zip(told, expected, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.fixture(scope="module")
def serial():
    return {seed: fit_something(seed, n_jobs=1) for seed in range(4)}


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 7, None])
def test_results_do_not_depend_on_the_number_of_threads(n_jobs, serial):
    assert_same_bits(fit_something(0, n_jobs), serial[0])


def test_eight_threads_fit_at_once(serial):
    start = threading.Barrier(8)
    told = [None] * 8

    def fit(i):
        start.wait()
        told[i] = fit_something(i % 4)

    threads = [threading.Thread(target=fit, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(8):
        assert_same_bits(told[i], serial[i % 4])


def test_one_fitted_model_serves_eight_threads():
    X = np.random.default_rng(0).normal(size=(400, 2))
    model = gt.GaussianTransform(0.5, n_iter=3, n_jobs=2).fit(X)
    new = X + 0.05
    expected = model.transform(new)
    with ThreadPoolExecutor(8) as pool:
        for told in pool.map(model.transform, [new] * 16):
            assert_array_equal(told, expected)


def test_fits_within_a_pool_of_futures(serial):
    with ThreadPoolExecutor(3) as pool:
        for seed, told in enumerate(pool.map(fit_something, range(4))):
            assert_same_bits(told, serial[seed])


def test_fits_within_joblib_threads(serial):
    told = joblib.Parallel(n_jobs=3, backend="threading")(joblib.delayed(fit_something)(seed) for seed in range(4))
    for seed in range(4):
        assert_same_bits(told[seed], serial[seed])


# --- processes --------------------------------------------------------------------------------------------------------

PROCESSES = """
import multiprocessing
import sys

import joblib
import numpy as np

import gaussian_transform as gt


def fit(seed):
    X = np.random.default_rng(seed).normal(size=(2000, 2))
    return gt.GaussianTransform(0.2, n_iter=2, n_jobs=3).fit(X).points_.tobytes()


if __name__ == "__main__":
    expected = [fit(seed) for seed in range(2)]  # on threads, whose locks a forked child would inherit
    if sys.argv[1] == "loky":
        told = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(fit)(seed) for seed in range(2))
    else:
        with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
            told = pool.map(fit, range(2))
    assert told == expected
    assert [fit(seed) for seed in range(2)] == expected
    print("the same")
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "loky"])
def test_fits_within_processes(method, tmp_path):
    if method == "fork" and not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    script = tmp_path / "processes.py"
    script.write_text(PROCESSES)
    done = subprocess.run(
        [sys.executable, str(script), method], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the same\n"


# --- the cache of compiled kernels ------------------------------------------------------------------------------------

SMALL_FIT = """
import numpy as np
import gaussian_transform as gt
from gaussian_transform._kernels.lists import list_means
X = np.arange(30.0).reshape(6, 5) % 7
model = gt.MeanShiftTransform(6.5, n_iter=1).fit(X)
assert list_means.signatures
print(type(list_means._cache).__name__, sum(list_means.stats.cache_hits.values()), model.points_.tolist())
"""


def start_small_fit(tmp_path, **environment):
    """Start a process that compiles the few kernels of a fit in five dimensions; plainly, for that is quicker."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    environment = {**kept, "NUMBA_OPT": "0", "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.Popen(
        [sys.executable, "-c", SMALL_FIT], env=environment, cwd=tmp_path, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def finish_small_fit(process):
    """Return the kind of cache and the number of hits of a process that found the right points."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, err
    cache, n_hits, points = out.split(maxsplit=2)
    X = np.arange(30.0).reshape(6, 5) % 7
    inside = ((X[:, None] - X[None]) ** 2).sum(axis=2) <= 6.5**2
    assert inside.any(axis=1).all()
    assert not inside.all()
    assert_allclose(json.loads(points), inside @ X / inside.sum(axis=1, keepdims=True), rtol=1e-12)
    return cache, int(n_hits)


def test_install_that_cannot_be_written_to(tmp_path):
    """Neither beside the sources nor in the home folder: a file is where the folder would be, which binds root too."""
    package = tmp_path / "install" / "gaussian_transform"
    shutil.copytree(Path(gt.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("")
    files = sorted(package.rglob("*"))
    process = start_small_fit(tmp_path, PYTHONPATH=str(package.parent), HOME="/dev/null", XDG_CACHE_HOME="/dev/null/x")
    assert finish_small_fit(process) == ("NullCache", 0)
    assert sorted(package.rglob("*")) == files


def test_two_processes_fill_one_cache(tmp_path):
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(Path(gt.__file__).parents[1])}
    both = [start_small_fit(tmp_path, **environment) for _ in range(2)]
    assert [finish_small_fit(process)[0] for process in both] == ["FunctionCache", "FunctionCache"]
    cache, n_hits = finish_small_fit(start_small_fit(tmp_path, **environment))
    assert cache == "FunctionCache"
    assert n_hits > 0


# --- interrupts -------------------------------------------------------------------------------------------------------

LONG_FIT = """
import signal
import numpy as np
import gaussian_transform as gt
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us without
X = np.random.default_rng(0).normal(size=(20_000, 2))
once = []

def tell(progress):
    if progress.iteration == 1 and not once:
        once.append(print("running", flush=True))

try:
    gt.GaussianTransform(30.0, n_iter=100_000, merge=False, callback=tell).fit(X)
except KeyboardInterrupt:
    print("interrupted", flush=True)
small = gt.GaussianTransform(0.5, n_jobs=4).fit(X[:3000])
print("usable" if np.isfinite(small.points_).all() else "broken")
"""


def test_interrupt_ends_a_long_fit():
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_FIT], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout.readline() == "running\n", process.stderr.read()
        time.sleep(0.3)  # into the middle of a pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert out == "interrupted\nusable\n", err
    assert process.returncode == 0


def test_interrupt_leaves_the_pool_of_this_process_usable():
    before = _parallel._helpers

    def callback(progress):
        raise KeyboardInterrupt

    X = np.random.default_rng(0).normal(size=(3000, 2))
    with pytest.raises(KeyboardInterrupt):
        gt.GaussianTransform(0.5, callback=callback, n_jobs=4).fit(X)
    assert _parallel._helpers is before
    assert_same_bits(fit_something(0, n_jobs=4), fit_something(0, n_jobs=1))
