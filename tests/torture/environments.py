"""Valid commands in a hostile environment: ASCII terminals, strange variables, folders without rights."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from torture.cases import Case, Expected
from torture.hostile import with_labels, write
from torture.malformed_decisions import GOOD
from torture.scenarios import own_cache, write_arrays, write_logits
from torture.victims import command
from torture.written_folders import template


def prepare(folder: Path) -> None:
    """Valid input for every command, a folder and a file."""
    for part in ("errata-out", "results"):
        shutil.copytree(template() / part, folder / part)
    shutil.copy(template() / "data.csv", folder)
    write("decisions.csv", GOOD)(folder)
    write_logits(folder)
    write_arrays(folder)
    write("named.csv", with_labels(["schön", "häßlich"]))(folder)
    (folder / "folder").mkdir()
    (folder / "file").write_text("text")


def run(*words: str) -> Callable[[], object]:
    """Work that runs a command; exit code 1 after a message of its own counts as a refusal."""

    def work() -> None:
        try:
            own_cache(command(*words))()
        except SystemExit as end:
            if end.code == 1:
                sys.exit(2)
            raise

    return work


def cases() -> Iterator[Case]:
    """All hostile environments."""
    named = {
        "data inspect": ("data", "inspect", "named.csv", "--label", "label"),
        "find": ("find", "named.csv", "--label", "label", "--model", "mlp", "--device", "cpu", "--out", "new"),
        "methods": ("methods",),
        "data list": ("data", "list"),
        "a refusal": ("data", "inspect", "named.csv", "--label", "größe"),
        "--help": ("find", "--help"),
    }
    for name, words in named.items():
        expected: Expected = "refused" if name == "a refusal" else "read"
        yield Case(f"errata {name} on an ASCII terminal", prepare, partial(_ascii, words), expected, time_limit=60)
    plain = ("rank", "logits.npz")
    for name, variables in {
        "COLUMNS=1": {"COLUMNS": "1"},
        "COLUMNS=x": {"COLUMNS": "x"},
        "TERM=dumb": {"TERM": "dumb"},
        "LC_ALL=C": {"LC_ALL": "C", "LANG": "C"},
        "TMPDIR that is not there": {"TMPDIR": "/nowhere"},
        "HOME that is not there": {"HOME": "/nowhere"},
    }.items():
        yield Case(f"errata rank, {name}", prepare, partial(_environment, plain, variables), "read")
    for name, variables in {
        "ERRATA_DATA that is a file": {"ERRATA_DATA": "file"},
        "a cache that is a file": {"XDG_CACHE_HOME": "file"},
        "a cache that cannot be written": {"XDG_CACHE_HOME": "/proc/nowhere"},
    }.items():
        yield Case(f"errata data list, {name}", prepare, partial(_environment, ("data", "list"), variables), "either")
        fetch = partial(_environment, ("data", "check", "digits"), variables)
        yield Case(f"errata data check, {name}", prepare, fetch, "either")
    yield Case("errata rank, a working directory that is gone", prepare, _no_directory, "either")
    yield Case(
        "errata find, a working directory that cannot be written", prepare, _read_only, "refused", as_nobody=True
    )


def _ascii(words: tuple[str, ...]) -> None:
    sys.stdout.reconfigure(encoding="ascii", errors="strict")  # type: ignore[attr-defined]  # as with LC_ALL=C
    sys.stderr.reconfigure(encoding="ascii", errors="backslashreplace")  # type: ignore[attr-defined]
    run(*words)()


def _environment(words: tuple[str, ...], variables: dict[str, str]) -> None:
    os.environ.update(variables)
    command(*words)()


def _no_directory() -> None:
    gone = Path("gone").absolute()
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    command("rank", "logits.npz")()


def _read_only() -> None:
    Path("folder").chmod(0o555)
    os.chdir("folder")
    command("find", "../logits.npz")()
