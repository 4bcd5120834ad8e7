"""Run the benchmarks named on the command line, or all of them."""

from __future__ import annotations

import importlib
import sys
import time

from benchmarks.report import print_machine

BENCHMARKS = {
    "grid": "the paper's acceleration table",
    "reference": "against a hand-written C++/OpenMP loop",
    "growth": "time and memory as the cloud grows",
    "startup": "import and first fit",
    "linkage": "single linkage of 40,000 points",
    "bures": "Bures distances against POT",
    "neighbors": "k nearest neighbours in 784 dimensions",
    "transport": "the Wasserstein transform against a loop over POT",
    "complexity": "the paper's complexity table",
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        listing = "\n".join(f"  {name:10} {text}" for name, text in BENCHMARKS.items())
        print(f"There is no benchmark {', '.join(unknown)}; choose from:\n{listing}", file=sys.stderr)
        return 2
    print_machine()
    begin = time.perf_counter()
    for name in names or BENCHMARKS:
        importlib.import_module(f"benchmarks.{name}").main()
    print(f"\nall of it took {time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
