"""Reading and writing tables of points: csv, tsv, txt, xyz, npy, npz and Parquet.

Whatever is wrong with a file is a `DataFileError` that names the file, the line or row, the column and the cell.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from gaussian_transform._typing import AnyArray
from gaussian_transform.io._binary import (
    read_npy,
    read_npz,
    read_parquet,
    require_pyarrow,
    save_array,
    save_arrays,
    write_npy,
    write_npz,
    write_parquet,
)
from gaussian_transform.io._output import atomic_output, check_output
from gaussian_transform.io._table import AnyPath, ColumnChoice, DataFileError, Table
from gaussian_transform.io._text import DELIMITERS, read_text, write_text

__all__ = [
    "DataFileError",
    "Table",
    "atomic_output",
    "check_output",
    "file_format",
    "read_points",
    "read_table",
    "write_array",
    "write_table",
]

_READERS: dict[str, Callable[[Path, ColumnChoice], Table]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".parquet": read_parquet,
}
_WRITERS: dict[str, Callable[[Path, Table], None]] = {
    **dict.fromkeys(DELIMITERS, write_text),
    ".npy": write_npy,
    ".npz": write_npz,
    ".parquet": write_parquet,
}


def file_format(path: AnyPath) -> str:
    """Return the extension of a table file in lower case, or raise if such files cannot be read and written here.

    Examples
    --------
    >>> file_format("scan.CSV")
    '.csv'
    """
    extension = Path(path).suffix.lower()
    if extension not in _WRITERS:
        known = ", ".join(_WRITERS)
        raise DataFileError(f"{path} has the extension {extension!r}, which is not known; the known ones are {known}.")
    if extension == ".parquet":
        require_pyarrow()
    return extension


def read_table(path: AnyPath, columns: ColumnChoice = None, *, header: bool | None = None) -> Table:
    r"""Read a file with one point a row.

    Parameters
    ----------
    path
        The file; its extension tells the format. Text files may be separated by commas, semicolons, tabs or white
        space, may have a header line, and lines that start with # are comments. An npz file holds its points in the
        array `points` or in its only matrix.
    columns
        The columns that are the coordinates, by name or by number counted from 1: ``"x,y,z"``, ``"1,2"`` or a list. All
        columns by default (for npz: those of the matrix). The others are kept as they are.
    header
        Whether the first line of a text file names the columns. By default it does if none of its cells is a number.

    Returns
    -------
    Table
        The coordinates, finite and at least one row of them, with the other columns beside them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "scan.csv")
    ...     _ = path.write_text("id,x,y\n007,0.5,1\n008,2.50,3\n")
    ...     table = read_table(path, "x,y")
    >>> table.values.tolist(), table.column(0).tolist()
    ([[0.5, 1.0], [2.5, 3.0]], ['007', '008'])
    """
    path = Path(path)
    extension = file_format(path)
    if extension in _READERS and header is not None:
        raise DataFileError(f"{path}: only text files have a header line; leave --header out.")
    try:
        _check_input(path)
        return _READERS[extension](path, columns) if extension in _READERS else read_text(path, columns, header)
    except FileNotFoundError as error:
        raise DataFileError(f"{path} does not exist.") from error
    except OSError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror or error}.") from error


def _check_input(path: Path) -> None:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise DataFileError(f"{path} is a folder; give a file.")
    # Pipes can be read only once, by the reader itself.
    if stat.S_ISREG(mode):
        with path.open("rb") as file:
            if not file.read(1):
                raise DataFileError(f"{path} is empty.")


def read_points(path: AnyPath, columns: ColumnChoice = None, *, header: bool | None = None) -> AnyArray:
    r"""Read the coordinates of a file; the parameters are those of `read_table`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "scan.xyz")
    ...     _ = path.write_text("# a scan\n1 2 3\n4 5 6\n")
    ...     read_points(path, "1,3")
    array([[1., 3.],
           [4., 6.]])
    """
    return read_table(path, columns, header=header).values


def write_table(path: AnyPath, table: Table, overwrite: bool = False) -> None:
    r"""Write a table to a file, which appears whole or not at all.

    Parameters
    ----------
    path
        The file; its extension tells the format. Text files are separated by what the extension stands for: commas
        (csv), tabs (tsv) or spaces (txt, xyz); their numbers have the fewest digits that read back as the same bits.
    table
        What to write. An npy file holds numbers only, and no names.
    overwrite
        Whether a file at `path` may be replaced.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(folder + "/points.tsv", Table.of(np.array([[0.1, 2.0]]), ["x", "y"]))
    ...     Path(folder, "points.tsv").read_text()
    'x\ty\n0.1\t2.0\n'
    """
    writer = _WRITERS[file_format(path)]
    _write(path, lambda temporary: writer(temporary, table), overwrite)


def write_array(path: AnyPath, array: AnyArray, *, name: str, overwrite: bool = False) -> None:
    r"""Write a vector (labels, weights) or a matrix (distances) to a file, which appears whole or not at all.

    Parameters
    ----------
    path
        The file; its extension tells the format.
    array
        Numbers of shape (n,) or (n, k).
    name
        What they are. It names the array of an npz file, the column of a vector in a text or Parquet file, and, with
        numbers counted from 1, the columns of a matrix in a Parquet file.
    overwrite
        Whether a file at `path` may be replaced.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_array(folder + "/labels.csv", np.array([0, 0, 1]), name="label")
    ...     Path(folder, "labels.csv").read_text()
    'label\n0\n0\n1\n'
    """
    extension = file_format(path)
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
        raise ValueError(f"array of shape {array.shape} and type {array.dtype} must be a vector or matrix of numbers.")
    if extension == ".npy":
        return _write(path, lambda temporary: save_array(temporary, array), overwrite)
    if extension == ".npz":
        return _write(path, lambda temporary: save_arrays(temporary, {name: array}), overwrite)
    names = [name] if array.ndim == 1 else [f"{name}{number}" for number in range(1, array.shape[1] + 1)]
    table = Table(array.reshape(len(array), -1), tuple(names), tuple(range(len(names))), is_named=array.ndim == 1)
    return _write(path, lambda temporary: _WRITERS[extension](temporary, table), overwrite)


def _write(path: AnyPath, write: Callable[[Path], None], overwrite: bool) -> None:
    try:
        with atomic_output(path, overwrite) as temporary:
            write(temporary)
    except OSError as error:
        raise DataFileError(f"{path} cannot be written: {error.strerror or error}.") from error
