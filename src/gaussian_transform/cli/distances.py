"""`gtransform distances`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gaussian_transform.cli import options


@click.command(
    "distances",
    epilog=options.examples(
        "gtransform distances points.csv distances.npy --eps 0.2 --iterations 0",
        "gtransform distances points.csv neighbours.npz --eps 0.2 --radius 0.1",
        "python -c \"import scipy.sparse; print(scipy.sparse.load_npz('neighbours.npz'))\"",
    ),
)
@options.files
@click.option("--radius", type=options.POSITIVE, help="Only pairs within this GT distance, as a sparse matrix (npz).")
@options.transform
@options.table
@options.overwrite
def command(
    input_path: Path,
    output_path: Path,
    radius: float | None,
    columns: str | None,
    weights: str | None,
    header: bool | None,
    overwrite: bool,
    **parameters: Any,
) -> None:
    """Write the GT distances between the points of a table.

    The points are moved --iterations times first; 0 gives the distances between the points as they are. OUTPUT is
    the matrix of all distances or, with --radius, a sparse matrix of those within it, which takes little memory
    however many points there are.
    """
    from gaussian_transform.cli.progress import progress
    from gaussian_transform.cli.tables import check_table_output, read_input, writing
    from gaussian_transform.io import atomic_output, write_array

    if radius is not None and output_path.suffix.lower() != ".npz":
        raise click.UsageError(
            f"With --radius the output is a sparse matrix and its name must end in .npz, but is {output_path}.",
            ctx=click.get_current_context(),
        )
    chosen = options.transform_parameters(**parameters)
    check_table_output(output_path, overwrite)
    table, weight = read_input(input_path, columns, weights, header)

    from gaussian_transform import GaussianTransform

    with progress("transforming") as callback:
        transform = GaussianTransform(**chosen, callback=callback).fit(table.values, sample_weight=weight)
    if radius is None:
        distances = transform.distances()
        with writing():
            write_array(output_path, distances, name="distances", overwrite=overwrite)
        what = f"{len(table.values):,} x {len(table.values):,} distances"
    else:
        from scipy.sparse import save_npz

        graph = transform.neighbors_graph(radius)
        with writing(), atomic_output(output_path, overwrite) as temporary:
            save_npz(temporary, graph)
        what = f"{options.counted(graph.nnz, 'distance')} within {radius:g}"
    click.echo(f"{what} ({options.describe(transform)}): {output_path}")
