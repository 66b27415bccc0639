"""The command line: parse, call, print. Every module here adds its commands to the one app."""

from errata.cli import bench, data, demo, scoring, training  # noqa: F401  # each registers its commands
from errata.cli.app import main

__all__ = ["main"]
