"""Options that several commands share, and what they turn into."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from gaussian_transform.estimators import GaussianTransform

F = TypeVar("F", bound=Callable[..., Any])

KERNELS = ("truncated", "gaussian", "cauchy")
LINKAGES = ("single", "complete", "average")


class FiniteRange(click.FloatRange):
    """A float within bounds; unlike click's own, neither NaN nor infinite."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or refuse it."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


POSITIVE = FiniteRange(min=0.0, min_open=True)
NOT_NEGATIVE = FiniteRange(min=0.0)


def examples(*lines: str) -> str:
    """Return the end of a command's help: its examples, line by line as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _stack(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def _option(name: str, help_text: str, **options: Any) -> Callable[[F], F]:
    return click.option(name, help=help_text, show_default=options.get("default") is not None, **options)


files = _stack(
    click.argument("input_path", metavar="INPUT", type=click.Path(path_type=Path)),
    click.argument("output_path", metavar="OUTPUT", type=click.Path(path_type=Path)),
)
"""INPUT and OUTPUT."""

overwrite = click.option("--overwrite", is_flag=True, help="Replace what is there.")

table = _stack(
    _option("--columns", "Columns of the coordinates, by name or number.  [default: all]", metavar="X,Y,..."),
    _option("--weights", "Column of the points' weights; it is no coordinate.", metavar="COLUMN"),
    _option(
        "--header/--no-header", "Whether a text file's first line has names.  [default: see for itself]", default=None
    ),
)
"""Which columns of the table are what; see `tables.read_input`."""

transform = _stack(
    _option("--eps", "Radius of the neighbourhoods.  [default: chosen from the data]", type=POSITIVE),
    _option("--lam", "How much the local shape counts; 0 is mean shift.  [default: 1]", type=NOT_NEGATIVE),
    _option("--iterations", "How often the points move.", type=click.IntRange(min=0), default=1),
    _option("--kernel", "Weight of a neighbour by its distance.", type=click.Choice(KERNELS), default=KERNELS[0]),
    _option("--method", "The Gaussian transform, or mean shift.", type=click.Choice(["gt", "ms"]), default="gt"),
    _option("--jobs", "Number of threads; -1 is one a core.  [default: one a core]", type=int),
)
"""The parameters of the transform; see `transform_parameters`."""


def transform_parameters(
    *, eps: float | None, lam: float | None, iterations: int, kernel: str, method: str, jobs: int | None
) -> dict[str, Any]:
    """Return the estimators' parameters for the options of `transform`; mean shift is the transform with λ = 0."""
    if method == "ms" and lam:
        raise click.UsageError(
            f"--lam {lam:g} has no meaning with --method ms, which is lam = 0: leave one of the two out.",
            ctx=click.get_current_context(),
        )
    shape = 0.0 if method == "ms" else 1.0 if lam is None else lam
    return {"eps": eps, "lam": shape, "n_iter": iterations, "kernel": kernel, "n_jobs": jobs}


def describe(transform: GaussianTransform) -> str:
    """Return a fitted transform's parameters in words, the radius as it was chosen."""
    return f"eps={transform.eps_:.6g}, lam={transform.lam:g}, {counted(transform.n_iter, 'iteration')}"


def counted(n: int, noun: str) -> str:
    """Return a number of things in words: 1 point, 2,000 points."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
