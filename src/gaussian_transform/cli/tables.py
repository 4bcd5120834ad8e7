"""Tables in and results out: coordinates, weights, and the other columns kept as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gaussian_transform._typing import AnyArray
from gaussian_transform.io import DataFileError, Table, check_output, file_format, read_table


def read_input(
    path: Path, columns: str | None, weights: str | None, header: bool | None
) -> tuple[Table, AnyArray | None]:
    """Read a table, and the column of weights if there is one.

    Without a choice of columns, all that a table would otherwise have for coordinates are, except the weights.
    """
    chosen = read_table(path, columns, header=header)
    if weights is None:
        return chosen, None
    beside = read_table(path, [weights], header=header)
    (place,) = beside.positions
    if place in chosen.positions:
        if columns is not None:
            raise DataFileError(f"{path}: the column {weights!r} cannot be both a coordinate and the weights.")
        rest = [position + 1 for position in chosen.positions if position != place]
        if not rest:
            raise DataFileError(f"{path}: {weights!r} is the only column, so that there are no coordinates beside it.")
        # Read once more, so that the weights are kept just as they stand in the file.
        chosen = read_table(path, rest, header=header)
    return chosen, beside.values[:, 0]


def check_table_output(path: Path, overwrite: bool) -> None:
    """Raise before the work if the result could not be written."""
    file_format(path)
    check_output(path, overwrite)


@contextmanager
def writing() -> Iterator[None]:
    """Tell what goes wrong inside as a failure: by now the input is known to be good."""
    try:
        yield
    except DataFileError as error:
        raise click.ClickException(str(error)) from error
