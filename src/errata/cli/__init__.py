"""The command line: parse, call, print. Every module here adds its commands to the one app."""

from errata.cli import (  # noqa: F401  # each registers its commands
    apply,
    bench,
    bench_show,
    data,
    demo,
    export,
    find,
    scoring,
    training,
)
from errata.cli.app import main

__all__ = ["main"]
