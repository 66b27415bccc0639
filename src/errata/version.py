"""The version of errata."""

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """The installed version, or "source" if errata runs from a source tree."""
    try:
        return version("errata")
    except PackageNotFoundError:
        return "source"
