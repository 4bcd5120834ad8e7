"""Binary files: npy, npz and Parquet."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from gaussian_transform._typing import AnyArray
from gaussian_transform.io._table import (
    ColumnChoice,
    DataFileError,
    Table,
    as_array,
    check_points,
    choose_columns,
    default_names,
    place_in_words,
    remaining,
)

# The members of an npz file that are the points and the names of their columns.
_POINTS = "points"
_NAMES = "columns"


def read_npy(path: Path, columns: ColumnChoice) -> Table:
    """Read an npy file with one two-dimensional array."""
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise DataFileError(f"{path} is not an npy file: it does not begin as one.")
    try:
        # Mapped first: a damaged header that promises more than the file holds is refused before memory is taken.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header raises nearly anything, errors of Python's tokenizer included
        raise DataFileError(f"{path} is damaged, cut short or not of numbers: {_first_line(error)}") from error
    return _table_of_matrix(path, array, columns)


def _table_of_matrix(path: Path, array: AnyArray, columns: ColumnChoice) -> Table:
    if array.ndim != 2:
        raise DataFileError(f"{path} has shape {array.shape}; points need two dimensions, points and coordinates.")
    names = default_names(array.shape[1])
    positions = choose_columns(path, columns, names, range(len(names)))
    values = check_points(path, array[:, positions], names, positions)
    others = {place: np.array(array[:, place]) for place in remaining(positions, len(names))}
    return Table(values, names, positions, others, is_named=False)


def write_npy(path: Path, table: Table) -> None:
    """Write all columns as one array, without their names."""
    columns = [as_array(column) for column in table.all_columns()]
    for place, column in enumerate(columns):
        if column.dtype.kind not in "fiub":
            where = place_in_words(table.columns[place], place)
            raise DataFileError(f"{where} is text, which an npy file cannot hold; write csv, npz or parquet.")
    save_array(path, np.column_stack(columns))


def save_array(path: Path, array: AnyArray) -> None:
    """Write an array as an npy file under exactly this name, to which `numpy.save` may add an extension."""
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def read_npz(path: Path, columns: ColumnChoice) -> Table:
    """Read an npz file: the array `points` or else its only matrix, and vectors of the same length as other columns."""
    arrays = _npz_arrays(path)
    matrices = [key for key, array in arrays.items() if array.ndim == 2]
    if _POINTS not in arrays and len(matrices) != 1:
        found = ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "nothing"
        raise DataFileError(f"{path} needs one matrix or an array named 'points', but holds {found}.")
    key = _POINTS if _POINTS in arrays else matrices[0]
    matrix = arrays.pop(key)
    if matrix.ndim != 2:
        raise DataFileError(f"{path}: the array {key!r} has shape {matrix.shape}; points need two dimensions.")
    stored = arrays.pop(_NAMES, None)
    has_names = stored is not None and stored.dtype.kind == "U" and stored.shape == matrix.shape[1:]
    names = tuple(stored.tolist()) if stored is not None and has_names else default_names(matrix.shape[1])
    beside = {name: array for name, array in arrays.items() if array.shape == matrix.shape[:1]}
    all_names = (*names, *beside)
    sources = [*matrix.T, *beside.values()]
    positions = choose_columns(path, columns, all_names, range(len(names)))
    if positions != tuple(range(len(names))):
        matrix = np.column_stack([sources[place] for place in positions])
    values = check_points(path, matrix, all_names, positions)
    others = {place: np.array(sources[place]) for place in remaining(positions, len(sources))}
    return Table(values, all_names, positions, others, is_named=has_names or bool(beside))


def _npz_arrays(path: Path) -> dict[str, AnyArray]:
    if not zipfile.is_zipfile(path):
        raise DataFileError(f"{path} is not an npz file, or it was cut short.")
    try:
        # Opened here: given a path, numpy leaves a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: np.asarray(archive[key]) for key in archive.files}
    except Exception as error:  # as for npy, and what zipfile and its decompressors raise
        raise DataFileError(f"{path} is damaged or not of numbers: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def write_npz(path: Path, table: Table) -> None:
    """Write the coordinates as `points`, their names as `columns`, and every other column under its own name."""
    arrays: dict[str, AnyArray] = {_POINTS: table.values}
    if table.is_named:
        arrays[_NAMES] = np.array([table.columns[place] for place in table.positions])
    for place, column in table.others.items():
        name = table.columns[place]
        if name in arrays:
            raise DataFileError(f"An npz file cannot hold a second array named {name!r}; rename the column.")
        array = as_array(column)
        arrays[name] = np.array([_text(cell) for cell in array.tolist()]) if array.dtype.kind in "OT" else array
    save_arrays(path, arrays)


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)


def save_arrays(path: Path, arrays: dict[str, AnyArray]) -> None:
    """Write named arrays as an npz file.

    `numpy.savez` takes the names as arguments and so cannot store arrays called "file" or "allow_pickle".
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read_parquet(path: Path, columns: ColumnChoice) -> Table:
    """Read a Parquet file, the coordinates as numbers and the other columns as they are."""
    arrow, parquet = require_pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read()
        names = tuple(table.column_names)
    except Exception as error:  # also names that are not UTF-8
        raise DataFileError(f"{path} is damaged, cut short or not a Parquet file: {_first_line(error)}") from error
    if not names:
        raise DataFileError(f"{path} has no columns.")
    positions = choose_columns(path, columns, names, range(len(names)))
    values = np.column_stack([_coordinates(path, arrow, table.column(i), names[i], i) for i in positions])
    others = {place: table.column(place) for place in remaining(positions, len(names))}
    return Table(check_points(path, values, names, positions), names, positions, others)


def _coordinates(path: Path, arrow: Any, column: Any, name: str, place: int) -> AnyArray:
    where = place_in_words(name, place)
    if not (arrow.types.is_floating(column.type) or arrow.types.is_integer(column.type)):
        hint = "choose the coordinate columns with --columns"
        raise DataFileError(f"{path}, {where} holds {column.type}, not numbers; {hint}.")
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy())) + 1
        raise DataFileError(f"{path}, row {row}, {where} is empty; every point needs all its coordinates.")
    array: AnyArray = column.to_numpy()
    return array


def write_parquet(path: Path, table: Table) -> None:
    """Write all columns under their names."""
    arrow, parquet = require_pyarrow()
    columns = [_as_arrow(arrow, column) for column in table.all_columns()]
    parquet.write_table(arrow.Table.from_arrays(columns, names=list(table.columns)), path)


def _as_arrow(arrow: Any, column: Any) -> Any:
    if isinstance(column, arrow.ChunkedArray | arrow.Array):
        return column
    array = as_array(column)
    return arrow.array(array if array.dtype.kind in "fiub" else array.tolist())


def require_pyarrow() -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`, which are imported only where Parquet files are."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        message = 'Parquet files need pyarrow: install it with `pip install "gaussian-transform[parquet]"`.'
        raise DataFileError(message) from error
    return pyarrow, parquet
