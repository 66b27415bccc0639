"""The command itself: its name, its version, and how it says no."""

import sys
import warnings
from typing import Annotated

import typer

from errata.errors import ErrataError

app = typer.Typer(
    name="errata",
    help="Find the wrong labels in a dataset from the way an ordinary model learned it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run a command; what errata refuses, or the disk does, is one line on stderr and exit code 2."""
    warnings.showwarning = lambda message, *_: print(f"errata: warning: {message}", file=sys.stderr)
    try:
        app()
    except ErrataError as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(f"{error.filename}: {error.strerror}" if error.strerror else str(error))


def _refuse(sentence: str) -> None:
    print(f"errata: {sentence}", file=sys.stderr)
    sys.exit(2)


def _show_version(asked: bool) -> None:
    if asked:
        from errata.version import installed_version

        print(f"errata {installed_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find the wrong labels in a dataset from the way an ordinary model learned it."""
