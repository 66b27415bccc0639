"""Optional packages."""

from importlib.util import find_spec

from errata.errors import InputError


def require(module: str, package: str, extra: str, what: str) -> None:
    """Raise an error with the install command if `module` is not installed. what: the feature that needs it."""
    if find_spec(module) is None:
        raise InputError(f"{what} needs {package}: pip install 'errata[{extra}]'")


def require_pillow(what: str) -> None:
    """Raise an error if Pillow is not installed."""
    require("PIL", "pillow", "data", what)
