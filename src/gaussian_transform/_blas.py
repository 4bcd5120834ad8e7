"""One thread for linear algebra inside our own threads.

BLAS libraries start threads of their own for products that are hardly worth it. Beside ours they compete for the same
cores, and where the machine is busy they wait for each other a hundred times longer than they work.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


class _OneThread:
    """A context in which BLAS uses one thread: the first to come sets it, the last to go restores what was before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._controller: Any = None
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._controller = self._controller or ThreadpoolController()
                self._limiter = self._controller.limit(limits=1, user_api="blas")
            self._n_inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._limiter.restore_original_limits()


one_blas_thread = _OneThread()
"""Use as ``with one_blas_thread:`` around `run_ranges` of work that calls BLAS or LAPACK."""
