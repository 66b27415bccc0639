"""The `errata` command: its name, its version, and how errors are printed."""

import atexit
import gc
import io
import re
import sys
import warnings
from typing import Annotated, Any

import typer

from errata.errors import ErrataError

PARAMETER = re.compile(r"`(\w+)=([^`]*)`")  # messages name a parameter of a Python function like this
# In the order of a user's work. A command that is not listed follows.
COMMANDS = (
    "demo",
    "find",
    "review",
    "certify",
    "apply",
    "export",
    "rank",
    "score",
    "methods",
    "choose",
    "data",
    "bench",
)

ALLOCATIONS_PER_COLLECTION = 10_000
"""More than Python's 700. Looking for garbage among the objects of the imports takes 0.3 s otherwise."""

LabelColumn = Annotated[
    str | None, typer.Option("--label", help="The label column of a table; for a .npy file, the .npy file of labels.")
]
TextColumn = Annotated[str | None, typer.Option("--text", help="A column to read as text.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="The column with the sample ids.")]
IgnoredColumns = Annotated[
    list[str] | None, typer.Option("--ignore", help="A column that the model must not use. May be repeated.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")]
Device = Annotated[str, typer.Option("--device", help="`auto`, `cpu` or `cuda`.")]
ExcelSafe = Annotated[
    bool,
    typer.Option(
        "--excel-safe", help="In .csv files, put an apostrophe before text that spreadsheets would run as a formula."
    ),
]


class OrderedCommands(typer.core.TyperGroup):
    """Lists the commands in the order of COMMANDS."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: D102 - the base class describes it
        known = [name for name in COMMANDS if name in self.commands]
        return [*known, *(name for name in self.commands if name not in known)]


app = typer.Typer(
    name="errata",
    cls=OrderedCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run a command. Errors of errata and of the operating system are one line on stderr, with exit code 2."""
    gc.set_threshold(ALLOCATIONS_PER_COLLECTION)
    atexit.register(gc.freeze)  # a process that ends need not look for garbage
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack characters of class names
            stream.reconfigure(errors="replace")
    warnings.showwarning = lambda message, *_: print(f"errata: warning: {message}", file=sys.stderr)
    try:
        _with_plain_flags(typer.main.get_command(app))()
    except ErrataError as error:
        _exit_with(str(error))
    except OSError as error:
        _exit_with(f"{error.filename}: {error.strerror}" if error.strerror else str(error))


def _with_plain_flags(command: Any) -> Any:
    """The command, whose help shows flags without a type: `--overwrite`, not `--overwrite <bool>`."""
    for subcommand in getattr(command, "commands", {}).values():
        _with_plain_flags(subcommand)
    for option in (*command.params, command.get_help_option(typer.Context(command))):
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return command


def as_options(message: str) -> str:
    """The message with Python parameters as options: `data=` becomes --data, `text='title'` becomes --text title."""

    def option(parameter: re.Match[str]) -> str:
        name, value = f"--{parameter[1].replace('_', '-')}", parameter[2].strip("'\"")
        return name if value in ("", "True") else f"{name} {value}"

    return PARAMETER.sub(option, message)


def _exit_with(message: str) -> None:
    print(f"errata: {as_options(message)}", file=sys.stderr)
    sys.exit(2)


def _print_version(requested: bool) -> None:
    if requested:
        from errata.version import installed_version

        print(f"errata {installed_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find the wrong labels in a dataset from the way an ordinary model learned it."""
