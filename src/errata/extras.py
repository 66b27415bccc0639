"""Optional packages."""

from importlib.util import find_spec

from errata.errors import InputError

CPU_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"  # the default build fills gigabytes


def require(module: str, package: str, extra: str, what: str) -> None:
    """Raise an error with the install command if `module` is not installed. what: the feature that needs it."""
    if find_spec(module) is None:
        cpu = f" (without a GPU, first: {CPU_TORCH})" if _brings_torch(extra) and find_spec("torch") is None else ""
        raise InputError(f"{what} needs {package}: pip install 'errata[{extra}]'{cpu}")


def _brings_torch(extra: str) -> bool:
    """Whether an extra, or one of several, installs torch."""
    return not {"torch", "find", "images", "text", "frameworks"}.isdisjoint(extra.split(","))


def require_pillow(what: str, extra: str = "data") -> None:
    """Raise an error if Pillow is not installed."""
    require("PIL", "pillow", extra, what)
