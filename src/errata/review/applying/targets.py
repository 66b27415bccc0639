"""Where a corrected copy and its log go: beside the original, never over it."""

import re
from dataclasses import dataclass
from pathlib import Path

from errata.errors import InputError, StoreError
from errata.readers.opening import known_ending

CORRECTED, LOG = ".corrected", ".log.csv"


@dataclass(frozen=True)
class Target:
    """The copy and the log of every change that was made in it."""

    copy: Path
    log: Path


def target_for(original: Path, out: str | Path | None, overwrite: bool) -> Target:
    """Where the copy goes; what is in the way is refused, and only a copy with its log may be overwritten."""
    ending = "" if original.is_dir() else known_ending(original)
    given = None if out is None else Path(out).expanduser()
    if given is None:
        copy = original.with_name(_corrected_name(original.name, ending))
    elif given.is_dir() and ending:
        copy = given / _corrected_name(original.name, ending)
    else:
        copy = given
    target = Target(copy, copy.with_name(copy.name + LOG))  # data.csv and data.parquet each have their own
    _check(original, target, ending)
    _refuse_taken(target, overwrite)
    return target


def _base(name: str, ending: str) -> str:
    return name[: len(name) - len(ending)]


def _corrected_name(name: str, ending: str) -> str:
    """`data.csv` becomes `data.corrected.csv`, and that `data.corrected-2.csv`."""
    base, kept = _base(name, ending), name[len(name) - len(ending) :]
    again = re.fullmatch(rf"(.*){re.escape(CORRECTED)}(?:-(\d+))?", base)
    return f"{again[1]}{CORRECTED}-{int(again[2] or 1) + 1}{kept}" if again else f"{base}{CORRECTED}{kept}"


def _check(original: Path, target: Target, ending: str) -> None:
    copy = target.copy
    for path in (copy, target.log):
        if path.exists() and path.samefile(original):
            raise InputError(f"{path} is the data itself: nothing is ever written over it")
    if ending and not copy.name.lower().endswith(ending):
        raise InputError(f"{copy} must end in {ending}: the copy has the format of {original.name}")
    if not copy.parent.is_dir():
        raise InputError(f"the folder {copy.parent} does not exist")
    if not ending and original.resolve() in copy.resolve().parents:
        raise InputError(f"{copy} lies inside {original}: the copy has to lie beside it")


def _refuse_taken(target: Target, overwrite: bool) -> None:
    there = next((path for path in (target.copy, target.log) if path.exists()), None)
    if there is None:
        return
    if not overwrite:
        raise StoreError(
            f"{there} is there already; name another with --out, or replace an earlier copy by --overwrite"
        )
    if target.copy.is_dir():
        raise StoreError(f"{target.copy} is a folder, and folders are not overwritten: remove it, or name another")
    if not target.log.is_file():
        raise StoreError(f"{target.copy} is no copy that errata has made (it has no {target.log.name}); name another")
