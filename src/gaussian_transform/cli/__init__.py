"""The command `gtransform`: each command parses its options, calls the package and writes the result."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from gaussian_transform._version import __version__
from gaussian_transform.cli.options import examples

# A command's module is imported when it is run, and what it needs of the package inside it: help stays quick.
_COMMANDS = {
    "denoise": "Move the points of a table to where their neighbourhoods agree.",
    "cluster": "Label the points of a table by their clusters.",
    "distances": "Write the GT distances between the points of a table.",
    "demo": "Denoise and cluster built-in data, with pictures and a page.",
    "bench": "Measure the speed of this machine against published figures.",
}

INTERRUPTED = 130
FAILED = 1
BAD_INPUT = 2


class _Commands(click.Group):
    """The commands, loaded on demand, with every error told in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def main(self, args: Sequence[str] | None = None, *other: Any, **options: Any) -> NoReturn:
        """Run, and end the process with 0, 1 (failure), 2 (usage or bad input) or 130 (interrupted)."""
        options["standalone_mode"] = False
        try:
            # With standalone_mode off, click returns the code of `ctx.exit` and otherwise what the command returned.
            result = super().main(args, *other, **options)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.Abort:
            _end("Interrupted: nothing was written.", INTERRUPTED)
        except Exception as error:
            if os.environ.get("GTRANSFORM_DEBUG"):
                raise
            _end(*_explain(error))
        sys.exit(result if isinstance(result, int) else 0)


def _explain(error: Exception) -> tuple[str, int]:
    """Return the sentence and the exit code for an error."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{error.format_message()} (See '{error.ctx.command_path} --help'.)", error.exit_code
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, (ValueError, FileNotFoundError, FileExistsError, IsADirectoryError)):
        return str(error), BAD_INPUT
    if isinstance(error, (ImportError, OSError)):
        return str(error), FAILED
    if isinstance(error, MemoryError):
        return str(error) or "There is not enough memory for this.", FAILED
    hint = "this is a fault of the program; with GTRANSFORM_DEBUG=1 in the environment it shows where"
    return f"{type(error).__name__}: {error} ({hint})", FAILED


def _end(message: str, code: int) -> NoReturn:
    line = " ".join(message.split())
    click.echo(line if code == INTERRUPTED else f"Error: {line}", err=True)
    sys.exit(code)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "gtransform demo                                          see it at work in seconds",
        "gtransform denoise in.csv out.csv --eps 4 --lam 1        move points to the structure near them",
        "gtransform cluster in.csv out.csv --eps 4 --clusters 2   append a column of labels",
        "gtransform distances in.csv out.npy --eps 4              all distances, as a matrix",
    ),
)
@click.version_option(__version__, prog_name="gtransform", message="%(prog)s %(version)s")
def main() -> None:
    """Find the structure in noisy point clouds by their local shape.

    Tables are csv, npy, npz or parquet, by the ending of the file's name.
    """
