"""The command line: each module parses the options of its commands, calls the package and prints the result.

app: the `errata` command, and how errors are printed. Every other module adds commands.
May import every package; nothing imports errata.cli.
"""

from errata.cli import (  # noqa: F401  # each registers its commands
    bench,
    bench_show,
    certify_command,
    data,
    demo,
    find_command,
    review_commands,
    review_server,
    score_commands,
    training,
)
from errata.cli.app import main

__all__ = ["main"]
