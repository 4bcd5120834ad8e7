"""`gtransform denoise`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gaussian_transform.cli import options


@click.command(
    "denoise",
    epilog=options.examples(
        "gtransform denoise scan.csv clean.csv --eps 0.05 --lam 5 --iterations 2",
        "gtransform denoise events.parquet clean.parquet --columns x,y,z --weights energy --eps 2",
        "gtransform denoise points.npy shifted.npy --method ms --eps 0.3",
    ),
)
@options.files
@options.transform
@options.table
@options.overwrite
def command(
    input_path: Path,
    output_path: Path,
    columns: str | None,
    weights: str | None,
    header: bool | None,
    overwrite: bool,
    **parameters: Any,
) -> None:
    """Move the points of a table to where their neighbourhoods agree.

    Each point goes to the mean of what is near in the GT distance, so that noise around curves, surfaces and blobs
    shrinks and their shape stays. OUTPUT is INPUT with moved coordinates; other columns stay as they are.
    """
    from gaussian_transform.cli.progress import progress
    from gaussian_transform.cli.tables import check_table_output, read_input, writing

    chosen = options.transform_parameters(**parameters)
    check_table_output(output_path, overwrite)
    table, weight = read_input(input_path, columns, weights, header)

    from gaussian_transform import GaussianTransform
    from gaussian_transform.io import write_table

    with progress("denoising") as callback:
        transform = GaussianTransform(**chosen, callback=callback).fit(table.values, sample_weight=weight)
    with writing():
        write_table(output_path, table.with_values(transform.points_), overwrite)
    click.echo(f"{options.counted(len(table.values), 'point')} denoised ({options.describe(transform)}): {output_path}")
