"""Speed and memory, each figure beside what it is measured against in the same run: ``python -m benchmarks``."""
