"""Text files: csv, tsv, txt and xyz.

Blocks of lines go through NumPy's compiled parser. Only a block that it refuses is read again cell by cell, which finds
what is wrong and where, or reads what that parser was too strict for.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO

import numpy as np

from gaussian_transform._typing import AnyArray, FloatArray
from gaussian_transform.io._table import (
    TEXT,
    ColumnChoice,
    DataFileError,
    Table,
    choose_columns,
    default_names,
    is_number,
    place_in_words,
    remaining,
)

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": " ", ".xyz": " "}

_BLOCK_CHARACTERS = 1 << 22
_BLOCK_CELLS = 1 << 18
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_QUOTED_OR_BARE = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
# What a cell must not hold unquoted, where cells are separated by white space and where they are not.
_UNSAFE_BY_SPACE = re.compile(r'[\s,;"]|^[#\ufeff]')
_UNSAFE = re.compile(r'[,;"\t\r\n]|^[\s#\ufeff]|\s$')


class _Block(NamedTuple):
    """Records of a file, comments and blank lines left out, with the number of the line that each starts on."""

    numbers: Sequence[int]
    records: list[str]


class _Layout(NamedTuple):
    """What the first record tells about all of them; `delimiter` None means any white space."""

    path: Path
    delimiter: str | None
    names: tuple[str, ...]
    positions: tuple[int, ...]
    kept: tuple[int, ...]
    first_line: int


def read_text(path: Path, columns: ColumnChoice, header: bool | None) -> Table:
    """Read a text file; `header` says whether the first line names the columns, None to see from the line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read(path, file, columns, header)
    except UnicodeDecodeError:
        _raise_not_utf8(path)
    except csv.Error as error:
        raise DataFileError(f"{path}, the first line: {error}.") from error


def _read(path: Path, file: TextIO, columns: ColumnChoice, header: bool | None) -> Table:
    blocks = _blocks(path, file)
    first = next(blocks, None)
    if first is None:
        raise DataFileError(f"{path} holds no points, only comments or blank lines.")
    delimiter = _sniff_delimiter(first.records[0])
    cells = _cells(first.records[0], delimiter)
    is_named = _looks_like_header(first.records[0], delimiter) if header is None else header
    names = tuple(cells) if is_named else default_names(len(cells))
    positions = choose_columns(path, columns, names, range(len(names)))
    kept = remaining(positions, len(names))
    layout = _Layout(path, delimiter, names, positions, kept, first.numbers[0])
    if is_named:
        first = _Block(first.numbers[1:], first.records[1:])
    parsed = [_parse(block, layout) for block in chain([first], blocks) if block.records]
    if not parsed:
        raise DataFileError(f"{path} holds no points, only a header line ({', '.join(names[:12])}).")
    values = np.concatenate([coordinates for coordinates, _ in parsed])
    others = {place: np.concatenate([texts[i] for _, texts in parsed]) for i, place in enumerate(kept)}
    return Table(values, names, positions, others, is_named)


def _blocks(path: Path, file: TextIO) -> Iterator[_Block]:
    n_read = 0
    while lines := file.readlines(_BLOCK_CHARACTERS):
        numbers: Sequence[int] = range(n_read + 1, n_read + len(lines) + 1)
        n_read += len(lines)
        if any('"' in line for line in lines):
            numbers, lines, n_read = _join_quoted(path, file, numbers[0], lines)
        records = [line for line in lines if _holds_data(line)]
        if len(records) < len(lines):
            numbers = [number for number, line in zip(numbers, lines, strict=True) if _holds_data(line)]
        if records:
            yield _Block(numbers, records)


def _holds_data(line: str) -> bool:
    start = line.lstrip()
    return start != "" and start[0] != "#"


def _join_quoted(path: Path, file: TextIO, first: int, lines: list[str]) -> tuple[list[int], list[str], int]:
    """Join the lines of each record whose quoted cell has line breaks; the last record may need more of the file.

    Returns the numbers of the lines that records start on, the records, and the number of the last line read.
    """
    numbers: list[int] = []
    records: list[str] = []
    parts: list[str] = []
    is_open = False
    number = first - 1
    waiting = iter(lines)
    while (line := next(waiting, "")) or is_open:
        line = line or file.readline()
        if not line:
            raise DataFileError(f'{path}, line {number + 1 - len(parts)}: a quote (") is opened and never closed.')
        number += 1
        parts.append(line)
        if is_open or _holds_data(line):
            is_open ^= line.count('"') % 2 == 1
        if not is_open:
            numbers.append(number + 1 - len(parts))
            records.append("".join(parts))
            parts = []
    return numbers, records, number


def _sniff_delimiter(record: str) -> str | None:
    bare = _QUOTED.sub('"', record).strip()
    # A semicolon comes first: files that use it may have commas as decimal points, which the error will then show.
    return next((delimiter for delimiter in ";,\t" if delimiter in bare), None)


def _looks_like_header(record: str, delimiter: str | None) -> bool:
    """Say whether no cell is a number; quotes make a name of anything, and a line of empty cells names nothing."""
    cells = _cells(_QUOTED.sub("'", record), delimiter)
    return any(cells) and not any(is_number(cell) for cell in cells)


def _cells(record: str, delimiter: str | None) -> list[str]:
    if '"' not in record:
        return record.split() if delimiter is None else [cell.strip() for cell in record.split(delimiter)]
    if delimiter is not None:
        return next(csv.reader([record], delimiter=delimiter, skipinitialspace=True))
    return [bare or quoted.replace('""', '"') for quoted, bare in _QUOTED_OR_BARE.findall(record)]


def _parse(block: _Block, layout: _Layout) -> tuple[FloatArray, list[AnyArray]]:
    """Return the coordinates of a block and the text of each column that is kept as it is."""
    n_columns = len(layout.names)
    texts: list[AnyArray] = []
    try:
        if layout.kept:
            rows = [_cells(record, layout.delimiter) for record in block.records]
            if any(len(row) != n_columns for row in rows):
                return _parse_slowly(block, layout)
            texts = [np.array([row[place] for row in rows], dtype=TEXT) for place in layout.kept]
        values = np.loadtxt(
            block.records,
            delimiter=layout.delimiter,
            comments=None,
            quotechar='"',
            ndmin=2,
            usecols=layout.positions if layout.kept else None,
        )
    except (ValueError, csv.Error):
        return _parse_slowly(block, layout)
    if not layout.kept and values.shape[1] == n_columns:
        values = values[:, layout.positions]
    if values.shape[1] != len(layout.positions) or not np.isfinite(values).all():
        return _parse_slowly(block, layout)
    return values, texts


def _parse_slowly(block: _Block, layout: _Layout) -> tuple[FloatArray, list[AnyArray]]:
    """Read a block cell by cell; raise at the first record or cell that is wrong."""
    values = np.empty((len(block.records), len(layout.positions)))
    rows = []
    for i, (number, record) in enumerate(zip(block.numbers, block.records, strict=True)):
        try:
            row = _cells(record, layout.delimiter)
        except csv.Error as error:
            raise DataFileError(f"{layout.path}, line {number}: {error}.") from error
        if len(row) != len(layout.names):
            _raise_ragged(layout, number, len(row))
        rows.append(row)
        for k, place in enumerate(layout.positions):
            values[i, k] = _finite(row[place], layout, number, place)
    texts = [np.array([row[place] for row in rows], dtype=TEXT) for place in layout.kept]
    return values, texts


def _finite(cell: str, layout: _Layout, line: int, place: int) -> float:
    where = f"{layout.path}, line {line}, {place_in_words(layout.names[place], place)}"
    if not cell.strip():
        raise DataFileError(f"{where} is empty; every point needs all its coordinates.")
    if not is_number(cell):
        hint = "correct it, or choose the coordinate columns with --columns"
        if line == layout.first_line:
            hint += ", or say --header if this line names the columns"
        raise DataFileError(f"{where}: {_shortened(cell)} is not a number; {hint}.")
    value = float(cell)
    if not np.isfinite(value):
        raise DataFileError(f"{where} is {cell.strip()}; every coordinate must be finite. Remove or repair that line.")
    return value


def _shortened(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


def _raise_ragged(layout: _Layout, number: int, n_cells: int) -> NoReturn:
    delimiter = {None: "white space", "\t": "tabs"}.get(layout.delimiter, f"{layout.delimiter!r}")
    raise DataFileError(
        f"{layout.path}, line {number}: {n_cells} cells where line {layout.first_line} has {len(layout.names)} "
        f"(separated by {delimiter}); every line needs the same number."
    )


def _raise_not_utf8(path: Path) -> NoReturn:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                what = f"byte {error.start + 1} is 0x{line[error.start]:02x}"
                raise DataFileError(f"{path}, line {number} is not UTF-8 text ({what}); save it as UTF-8.") from None
    raise DataFileError(f"{path} is not UTF-8 text; save it as UTF-8.")


def write_text(path: Path, table: Table) -> None:
    """Write a text file: numbers in the shortest form that reads back as the same bits, other columns as they are."""
    delimiter = DELIMITERS[path.suffix.lower()]
    columns = table.all_columns()
    # The reader takes white space for the separator of a file with a single column, too: it finds no other.
    by_space = delimiter == " " or len(columns) == 1
    n_rows = max(1, _BLOCK_CELLS // max(1, len(columns)))
    with path.open("w", encoding="utf-8", newline="") as file:
        if table.is_named:
            file.write(delimiter.join(_name(name, by_space) for name in table.columns) + "\n")
        for start in range(0, len(table.values), n_rows):
            texts = [_texts(column[start : start + n_rows], by_space) for column in columns]
            file.writelines(delimiter.join(row) + "\n" for row in zip(*texts, strict=True))


def _texts(column: Any, by_space: bool) -> Iterator[str]:
    """Return the cells of a column as text."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
        # Python's float has the shortest digits of float64 only; NumPy's own scalars know those of float32.
        return map(repr, column.tolist()) if column.dtype.itemsize == 8 else map(str, column)
    cells = column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()
    return (_quoted("" if cell is None else str(cell), by_space) for cell in cells)


def _name(name: str, by_space: bool) -> str:
    # Names that are numbers or empty would make the header line look like a point.
    return f'"{name}"' if name == "" or is_number(name) else _quoted(name, by_space)


def _quoted(cell: str, by_space: bool) -> str:
    """Quote a cell that would otherwise be read as several, as a comment, or (an empty one) not at all."""
    if cell == "":
        return '""' if by_space else ""
    if (_UNSAFE_BY_SPACE if by_space else _UNSAFE).search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell
