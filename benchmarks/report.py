"""What every benchmark shares: the machine, the table, the clock, the fresh process."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIBRARIES = ("gaussian-transform", "numpy", "scipy", "scikit-learn", "numba", "POT")

# Printed as JSON on the last line by a measured process: its result and its peak memory in bytes.
_EPILOGUE = """
import json, resource, sys
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"result": result, "peak": peak}))
"""


def print_machine() -> None:
    """Print what the figures depend on."""
    print(f"machine: {_processor()}, {available_cores()} cores for this process, {platform.system()}")
    versions = ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)
    print(f"Python {platform.python_version()}, {versions}")
    if hasattr(os, "getloadavg"):
        load = os.getloadavg()[0]
        note = "; others are at work, so the figures are too high" if load > 0.5 else ""
        print(f"load before: {load:.1f}{note}")


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]], *notes: str) -> None:
    """Print a table: the first column on the left, figures on the right."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    print(f"\n{title}\n{'=' * len(title)}")
    for k, row in enumerate(cells):
        line = "  ".join(
            cell.rjust(width) if j else cell.ljust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print(line.rstrip())
        if k == 0:
            print("  ".join("-" * width for width in widths))
    for note in notes:
        print(note)


def verdict(value: float, limit: float) -> str:
    """Return how a figure compares with its limit."""
    return f"{'within' if value <= limit else 'ABOVE'} the limit of {limit:g}"


def best_of(repeat: int, *functions: Callable[[], object]) -> list[float]:
    """Return the seconds of the fastest of `repeat` calls of each function; they take turns, to share busy spells."""
    rounds = [[_seconds(function) for function in functions] for _ in range(repeat)]
    return [min(seconds) for seconds in zip(*rounds, strict=True)]


def _seconds(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def in_fresh_process(code: str, **environment: str) -> tuple[Any, float]:
    """Run `code` in a new interpreter; return the value it left in ``result``, and its peak memory in MiB."""
    run = subprocess.run(
        [sys.executable, "-c", code + _EPILOGUE],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    )
    if run.returncode != 0:
        raise RuntimeError(f"a measured process failed:\n{run.stderr.strip()}")
    answer = json.loads(run.stdout.splitlines()[-1])
    return answer["result"], answer["peak"] / 2**20
