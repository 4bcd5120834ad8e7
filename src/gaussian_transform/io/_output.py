"""Output files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gaussian_transform.io._table import AnyPath, DataFileError


def check_output(path: AnyPath, overwrite: bool = False) -> Path:
    """Raise if a file cannot be written at `path`, before the work that would then be lost.

    Parameters
    ----------
    path
        Where the file shall be.
    overwrite
        Whether it may replace a file.

    Returns
    -------
    Path
        The path with symbolic links followed, so that the file behind a link is replaced and not the link.

    Examples
    --------
    >>> check_output("no-such-folder/points.csv")
    Traceback (most recent call last):
    ...
    gaussian_transform.io._table.DataFileError: no-such-folder/points.csv cannot be written: there is no folder ...
    """
    with _plain_errors(path):
        return _checked(path, Path(os.path.realpath(path)), overwrite)


def _checked(path: AnyPath, target: Path, overwrite: bool) -> Path:
    if target.is_dir():
        raise DataFileError(f"{path} is a folder; give the name of a file in it.")
    if target.exists():
        if not target.is_file():
            raise DataFileError(f"{path} is not a regular file and is left alone; give another name.")
        if not overwrite:
            raise _exists(path)
    folder = target.parent
    if not folder.is_dir():
        raise DataFileError(f"{path} cannot be written: there is no folder {folder}; make it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataFileError(f"{path} cannot be written: the folder {folder} is not writable.")
    return target


@contextmanager
def atomic_output(path: AnyPath, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary file to write to, which becomes `path` when the block ends and vanishes when it fails.

    The temporary file is in the folder of `path` and has its suffix. On success it is flushed to the disk and renamed,
    so that `path` never holds half a file; on any exception, KeyboardInterrupt included, it is removed and what was at
    `path` is untouched. Without `overwrite` a file that appears at `path` meanwhile is not replaced either.

    Parameters
    ----------
    path
        Where the file shall be.
    overwrite
        Whether it may replace a file.

    Yields
    ------
    Path
        An empty file, readable by whom the umask says.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_output(folder + "/note.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     print(Path(folder, "note.txt").read_text(), len(list(Path(folder).iterdir())))
    whole 1
    """
    target = check_output(path, overwrite)
    temporary = target.with_name(f".gtransform-{secrets.token_hex(8)}{target.suffix}")
    try:
        with _plain_errors(path):
            _take_name(temporary)
        yield temporary
        with _plain_errors(path):
            _flush(temporary)
            _publish(temporary, target, overwrite)
            _flush(target.parent)
    finally:
        # Already gone where it was renamed.
        temporary.unlink(missing_ok=True)


def _publish(temporary: Path, target: Path, overwrite: bool) -> None:
    """Give the finished file its name; raise FileExistsError rather than replace a file unasked."""
    if not overwrite:
        try:
            # A second name for the same file: unlike a rename, it fails if the name is taken.
            os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:
            # The file system has no hard links: take the name with an empty file, which is then ours to replace.
            _take_name(target)
        else:
            return
    os.replace(temporary, target)


def _flush(path: Path) -> None:
    """Have the disk hold what was written; folders cannot be opened everywhere, and need not."""
    is_folder = path.is_dir()
    with contextlib.suppress(OSError) if is_folder else contextlib.nullcontext():
        descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _take_name(path: Path) -> None:
    """Make an empty file with the permissions of the umask; raise FileExistsError if there is one."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))


@contextmanager
def _plain_errors(path: AnyPath) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise DataFileError(f"{path} cannot be written: {error.strerror}.") from error


def _exists(path: AnyPath) -> DataFileError:
    return DataFileError(
        f"{path} exists already; say --overwrite (overwrite=True) to replace it, or give another name."
    )
