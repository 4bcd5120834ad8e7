"""The progress bar on stderr, drawn only for somebody who watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress(title: str) -> Iterator[Callable[[Any], None] | None]:
    """Yield what a transform calls after each of its passes, or None where stderr is no terminal.

    The bar is removed at the end: what remains on the screen is the result's own line.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=1.0)

        def update(event: Any) -> None:
            state = f"{title} {event.iteration}/{event.n_iter}, {event.n_points:,} distinct points"
            bar.update(task, completed=event.fraction, description=state)

        yield update
