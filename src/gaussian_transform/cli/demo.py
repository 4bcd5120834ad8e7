"""`gtransform demo`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from gaussian_transform.cli import options

PAGE = "index.html"


@click.command(
    "demo",
    epilog=options.examples(
        "gtransform demo --open                      and look at it",
        "gtransform demo --out pictures --overwrite  once more, elsewhere",
    ),
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("gtransform-demo"),
    show_default=True,
    help="Folder to write to.",
)
@options.overwrite
@click.option("--open", "show", is_flag=True, help="Open the page in the browser.")
def command(out: Path, overwrite: bool, show: bool) -> None:
    """Denoise and cluster built-in data, with pictures and a page.

    Takes seconds; the first time a little more, while the kernels are compiled.
    """
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise click.UsageError(f"The folder {out} is not empty: say --overwrite, or another --out.")
    begin = time.perf_counter()
    files = _render()
    out.mkdir(parents=True, exist_ok=True)

    from gaussian_transform.io import atomic_output

    for name, content in files.items():
        with atomic_output(out / name, overwrite) as temporary:
            temporary.write_bytes(content)
    page = (out / PAGE).resolve()
    click.echo(f"{len(files) - 1} pictures and a page, made in {time.perf_counter() - begin:.1f} s:\n{page}")
    if show:
        click.launch(page.as_uri())


def _render() -> dict[str, bytes]:
    """Return the content of every file, the page last; nothing is written before all of it is there."""
    from gaussian_transform import plotting
    from gaussian_transform.cli.demo_page import render
    from gaussian_transform.cli.demo_sections import SECTIONS, compile_kernels

    plotting.subplots()  # where matplotlib is missing, say so now and not after a minute of compiling
    _say("loading the compiled kernels (the first time, compiling them) ...")
    compile_kernels()
    begin = time.perf_counter()
    sections = []
    for make in SECTIONS:
        _say(f"{make.__name__.replace('_', ' ')} ...")
        sections.append(make())
    files = {f"{section.name}.png": section.picture for section in sections}
    files[PAGE] = render(sections, time.perf_counter() - begin).encode()
    return files


def _say(what: str) -> None:
    if sys.stderr.isatty():
        click.echo(what, err=True)
