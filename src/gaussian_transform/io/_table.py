"""The table that every file format is read into and written from."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from gaussian_transform._typing import AnyArray

# Which columns are the coordinates: names, numbers counted from 1, or both in one text with commas between them.
ColumnChoice = str | Sequence[str | int] | None
AnyPath = str | PathLike[str]

# Untouched cells of text files: 16 bytes each when short, where Python's strings take 60.
TEXT = np.dtypes.StringDType()

_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)
_NOT_FINITE = re.compile(r"\s*[+-]?(?:nan|inf|infinity)\s*", re.ASCII | re.IGNORECASE)
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
_LEADING_ZERO = re.compile(r"\s*[+-]?0\d", re.ASCII)


class DataFileError(ValueError):
    """A file cannot be read as points, or a result cannot be written; the message says where and what to do."""


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file: some are coordinates, the others are kept as they were read.

    Attributes
    ----------
    values : array of shape (n, k)
        The coordinates, float64 or float32 when read from a file.
    columns : tuple of str
        Names of all columns in the order of the file; x1, x2, ... where the file has none.
    positions : tuple of int
        Where in `columns` each column of `values` stands, counted from 0.
    others : mapping of int to array
        The columns that are not coordinates, by their place in `columns`: text exactly as in a text file, the Arrow
        columns of a Parquet file, arrays of an npz file.
    is_named : bool
        Whether the file names its columns; a text file is written with a header line if so.
    """

    values: AnyArray
    columns: tuple[str, ...]
    positions: tuple[int, ...]
    others: Mapping[int, Any] = field(default_factory=dict)
    is_named: bool = True

    @classmethod
    def of(cls, values: AnyArray, columns: Sequence[str] | None = None) -> Table:
        """Make a table that has only the columns of the array `values`, named if `columns` are given.

        Examples
        --------
        >>> import numpy as np
        >>> Table.of(np.zeros((5, 2))).columns
        ('x1', 'x2')
        """
        if values.ndim != 2:
            raise ValueError(f"values of shape {values.shape} must have two dimensions, points and coordinates.")
        names = default_names(values.shape[1]) if columns is None else tuple(columns)
        if len(names) != values.shape[1]:
            raise ValueError(f"columns has {len(names)} names but values has {values.shape[1]} columns.")
        return cls(values, names, tuple(range(len(names))), {}, columns is not None)

    def with_values(self, values: AnyArray) -> Table:
        """Return the table with other coordinates in the same columns.

        Examples
        --------
        >>> import numpy as np
        >>> Table.of(np.zeros((2, 2)), ["x", "y"]).with_values(np.ones((2, 2))).column(1).tolist()
        [1.0, 1.0]
        """
        if values.shape != self.values.shape:
            raise ValueError(f"values has shape {values.shape} where the table needs {self.values.shape}.")
        return replace(self, values=values)

    def with_column(self, name: str, column: AnyArray) -> Table:
        """Return the table with one more column, after the others.

        Examples
        --------
        >>> import numpy as np
        >>> Table.of(np.zeros((2, 1)), ["x"]).with_column("label", np.array([0, 1])).columns
        ('x', 'label')
        """
        if column.shape != self.values.shape[:1]:
            raise ValueError(
                f"The column {name!r} has shape {column.shape} where the table has {len(self.values)} rows."
            )
        if name in self.columns:
            raise ValueError(f"The table has a column {name!r} already; choose another name.")
        place = len(self.columns)
        return replace(self, columns=(*self.columns, name), others={**self.others, place: column})

    def column(self, place: int) -> Any:
        """Return one column by its place in `columns`, whether it is a coordinate or not."""
        return self.others[place] if place in self.others else self.values[:, self.positions.index(place)]

    def all_columns(self) -> list[Any]:
        """Return all columns in the order of the file."""
        return [self.column(place) for place in range(len(self.columns))]


def default_names(n_columns: int) -> tuple[str, ...]:
    """Return the names of columns that have none: x1, x2, ..."""
    return tuple(f"x{number}" for number in range(1, n_columns + 1))


def choose_columns(path: Path, choice: ColumnChoice, names: Sequence[str], default: Iterable[int]) -> tuple[int, ...]:
    """Return the places of the chosen columns, or `default` where nothing is chosen."""
    if choice is None:
        return tuple(default)
    items = next(csv.reader([choice], skipinitialspace=True), []) if isinstance(choice, str) else choice
    places = tuple(_place(path, item, names) for item in items)
    if not places:
        raise DataFileError(f"{path}: no column is chosen; the columns are {_listed(names)}.")
    for place in places:
        if places.count(place) > 1:
            raise DataFileError(f"{path}: the column {names[place]!r} is chosen twice.")
    return places


def remaining(positions: Iterable[int], n_columns: int) -> tuple[int, ...]:
    """Return the places of the columns that are not chosen."""
    chosen = set(positions)
    return tuple(place for place in range(n_columns) if place not in chosen)


def _place(path: Path, item: str | int, names: Sequence[str]) -> int:
    if isinstance(item, str):
        item = item if item in names else item.strip()
        n_named = list(names).count(item)
        if n_named > 1:
            raise DataFileError(f"{path}: {n_named} columns have the name {item!r}; choose by number, counted from 1.")
        if n_named == 1:
            return list(names).index(item)
        if not (item.isascii() and item.isdecimal()):
            raise DataFileError(f"{path}: there is no column {item!r}; the columns are {_listed(names)}.")
    if not 1 <= int(item) <= len(names):
        raise DataFileError(f"{path}: there is no column number {int(item)}; they are counted from 1 to {len(names)}.")
    return int(item) - 1


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown}, ... ({len(names)} columns)"


def is_number(cell: str) -> bool:
    """Say whether a cell of a text file is a number, infinities and NaN included."""
    return _NUMBER.fullmatch(cell) is not None or _NOT_FINITE.fullmatch(cell) is not None


def place_in_words(name: str, place: int) -> str:
    """Return how an error message names a column."""
    return f"column {place + 1} ({name})"


def as_array(column: Any) -> AnyArray:
    """Return a column as an array; text that is numbers throughout as numbers, unless leading zeros would be lost."""
    array: AnyArray = column.to_numpy() if hasattr(column, "to_numpy") else column
    if array.dtype != TEXT:
        return array
    cells = array.tolist()
    if all(_INTEGER.fullmatch(cell) for cell in cells):
        return array.astype(np.int64)
    if all(is_number(cell) and not _LEADING_ZERO.match(cell) for cell in cells):
        return array.astype(np.float64)
    return array


def check_points(path: Path, values: AnyArray, names: Sequence[str], positions: Sequence[int]) -> AnyArray:
    """Return coordinates read from a binary file as finite float32 or float64 points, or raise."""
    if values.dtype.kind not in "fiu":
        raise DataFileError(f"{path} holds values of type {values.dtype}; points need real numbers.")
    if 0 in values.shape:
        raise DataFileError(f"{path} holds no points: its shape is {values.shape}.")
    points = np.ascontiguousarray(values, dtype=np.float32 if values.dtype.char == "f" else np.float64)
    is_finite = np.isfinite(points)
    if not is_finite.all():
        row, k = np.argwhere(~is_finite)[0]
        where = place_in_words(names[positions[k]], positions[k])
        raise DataFileError(f"{path}, row {row + 1}, {where} is {points[row, k]}; every coordinate must be finite.")
    return points
