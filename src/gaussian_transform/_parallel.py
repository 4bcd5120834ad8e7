"""Compilation and threads: the one place that touches numba and thread pools.

Kernels are compiled to release the GIL and are run over ranges of their rows by plain Python threads. numba's own
``parallel=True`` is not used: its default layers abort the process when two Python threads (Dask's, joblib's) enter at
once or when a forked child enters after its parent did, and they cannot be interrupted. Here every caller works itself
and is helped by a shared pool, so any number of callers may enter at once, a fork starts afresh, Ctrl-C takes effect
after the range at hand, and since each row is written by one call the result does not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered and multiplications fused, so that loops vectorise; NaN and infinities keep their meaning.
_REORDERING = {"reassoc", "contract", "nsz", "arcp"}


def njit(function: F) -> F:
    """Compile a kernel: no GIL, cached on disk, sums may be reordered.

    Where neither the package's folder nor the user's cache folder can be written, the kernel is compiled anew in each
    process instead.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": _REORDERING}
    try:
        compiled: F = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder it may write its cache to
        compiled = numba.njit(**options)(function)
    return compiled


def elementwise(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a function of arrays: numba functions of a number become a compiled loop, others stay as they are."""
    if not isinstance(function, numba.core.dispatcher.Dispatcher):
        return function
    return numba.vectorize(function.py_func)  # type: ignore[no-any-return]


def effective_n_jobs(n_jobs: int | None) -> int:
    """Return the number of threads meant by `n_jobs`.

    None means every core this process may use, within ``OMP_NUM_THREADS`` and ``NUMBA_NUM_THREADS``; negative numbers
    count from all cores as in joblib (-1: all, -2: all but one).
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if n_jobs is None:
        limits = (os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"))
        return max(1, min([cores, *(int(limit) for limit in limits if limit.isdigit() and int(limit) > 0)]))
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


class _Helpers:
    """The shared pool of helping threads, made on first use and again in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._size = 0

    def submit(self, work: Callable[[], None], n: int) -> list[Future[None]]:
        with self._lock:
            if self._pool is None or self._size < n:
                # An outgrown pool finishes what it has and is then collected.
                self._pool = ThreadPoolExecutor(max_workers=n, thread_name_prefix="gtransform")
                self._size = n
            return [self._pool.submit(work) for _ in range(n)]


_helpers = _Helpers()


def _forget_helpers() -> None:
    global _helpers
    _helpers = _Helpers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)


def run_ranges(work: Callable[[int, int], None], n: int, *, n_threads: int, grain: int) -> None:
    """Call ``work(start, stop)`` for ranges of `grain` items that cover ``range(n)``, on up to `n_threads` threads.

    `work` must release the GIL (a kernel of ours does) and write only what belongs to its range. The first exception,
    KeyboardInterrupt included, stops the handing out of ranges and is raised here after the running ones have ended.
    """
    ranges = deque((start, min(start + grain, n)) for start in range(0, n, grain))
    errors: list[BaseException] = []

    def drain() -> None:
        while True:
            try:
                start, stop = ranges.popleft()
            except IndexError:
                return
            try:
                work(start, stop)
            except BaseException as error:
                errors.append(error)
                ranges.clear()
                return

    n_helpers = min(n_threads, len(ranges)) - 1
    futures = _helpers.submit(drain, n_helpers) if n_helpers > 0 else []
    try:
        drain()
    finally:
        # On an interrupt between two ranges nothing more is handed out. A helper still waiting for a thread has nothing
        # left to do; the running ones end with their range.
        ranges.clear()
        wait([future for future in futures if not future.cancel()])
    if errors:
        raise errors[0]
