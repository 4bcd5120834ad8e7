"""`gtransform cluster`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaussian_transform.cli import options

if TYPE_CHECKING:
    from gaussian_transform.linkage import Method


@click.command(
    "cluster",
    epilog=options.examples(
        "gtransform cluster points.csv labelled.csv --eps 0.2 --lam 5 --clusters 3",
        "gtransform cluster points.parquet labelled.parquet --eps 0.2 --threshold 0.15",
        "gtransform cluster points.npz labelled.npz --clusters 4 --linkage average --label part",
    ),
)
@options.files
@click.option("--clusters", type=click.IntRange(min=1), help="Number of clusters.")
@click.option("--threshold", type=options.NOT_NEGATIVE, help="Merge up to this GT distance instead.  [default: eps]")
@click.option(
    "--linkage", type=click.Choice(options.LINKAGES), default="single", show_default=True, help="How to merge."
)
@click.option("--label", default="label", show_default=True, metavar="NAME", help="Name of the new column.")
@options.transform
@options.table
@options.overwrite
def command(
    input_path: Path,
    output_path: Path,
    clusters: int | None,
    threshold: float | None,
    linkage: Method,
    label: str,
    columns: str | None,
    weights: str | None,
    header: bool | None,
    overwrite: bool,
    **parameters: Any,
) -> None:
    """Label the points of a table by their clusters.

    Points are moved by the transform and then merged by their GT distances. OUTPUT is INPUT with one more column,
    the number of each point's cluster, 0 for the heaviest. Merging goes on down to --clusters or up to --threshold.
    """
    from gaussian_transform.cli.progress import progress
    from gaussian_transform.cli.tables import check_table_output, read_input, writing
    from gaussian_transform.io import DataFileError, write_table

    if clusters is not None and threshold is not None:
        raise click.UsageError("Give only one of --clusters and --threshold.", ctx=click.get_current_context())
    chosen = options.transform_parameters(**parameters)
    check_table_output(output_path, overwrite)
    table, weight = read_input(input_path, columns, weights, header)
    if label in table.columns:
        raise DataFileError(f"{input_path} has a column {label!r} already: choose another name with --label.")

    from gaussian_transform import GaussianTransformClustering

    with progress("clustering") as callback:
        model = GaussianTransformClustering(
            **chosen, n_clusters=clusters, distance_threshold=threshold, linkage=linkage, callback=callback
        ).fit(table.values, sample_weight=weight)
    with writing():
        write_table(output_path, table.with_column(label, model.labels_), overwrite)
    found = f"{options.counted(len(table.values), 'point')} in {options.counted(model.n_clusters_, 'cluster')}"
    click.echo(f"{found} ({options.describe(model.transform_)}): {output_path}")
