"""Shared fixtures, and a cache of compiled kernels that can never be stale."""

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _fingerprint() -> str:
    """Hash every source file: numba's cache does not see a change in a function that a kernel of another file calls."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba" / _fingerprint()))
