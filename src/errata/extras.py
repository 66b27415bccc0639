"""Packages that are installed only where they are asked for."""

from importlib.util import find_spec

from errata.errors import InputError


def require(module: str, package: str, extra: str, what: str) -> None:
    """Refuse, in one sentence with the way out of it, what needs a package that is not installed."""
    if find_spec(module) is None:
        raise InputError(f"{what} needs {package}: pip install 'errata[{extra}]'")


def require_pillow(what: str) -> None:
    """Refuse to read images where Pillow is not installed."""
    require("PIL", "pillow", "data", what)
