"""Valid folders that errata wrote, made once and copied for every case, and ways to damage their files."""

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from torture.hostile import PLAIN, ROWS
from torture.scenarios import BENCH, own_cache, short_digits
from torture.victims import command, run_victim

Change = Callable[[Path], object]
DEEP = 100_000


@cache
def template() -> Path:
    """Valid folders, made once: data.csv, run/ (dynamics), errata-out/ and results/."""
    place = Path(tempfile.mkdtemp(prefix="torture-template-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    (place / "data.csv").write_text(PLAIN)
    short_digits(place, 1)
    for work in (_make, own_cache(command("bench", "run", *BENCH, "--seeds", "1"))):
        outcome = run_victim(work, place)
        if outcome.code != 0:
            raise RuntimeError(outcome.output)
    shutil.rmtree(place / "cache", ignore_errors=True)
    return place


def _make() -> None:
    import errata

    rng = np.random.default_rng(0)
    labels = np.arange(ROWS) % 2
    logits = rng.normal(size=(5, ROWS, 2)).astype(np.float32)
    names = np.array(["no", "yes"])[labels]
    features = rng.normal(size=(ROWS, 3)).astype(np.float32)
    dynamics = errata.Dynamics.from_arrays(logits, names, classes=["no", "yes"], features=features)
    dynamics.save("run")
    errata.find(errata.Dynamics.open("run"), "label", data="data.csv", out="errata-out")


def copied(part: str, change: Change) -> Change:
    """Copy a part of the template, and data.csv, and change it."""

    def prepare(folder: Path) -> None:
        shutil.copytree(template() / part, folder / part)
        shutil.copy(template() / "data.csv", folder)
        change(folder / part)

    return prepare


def text(file: str, content: bytes | str) -> Change:
    """Replace the contents of a file."""
    return lambda folder: (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())


def edit(file: str, changed: Callable[[bytes], bytes]) -> Change:
    """Change the contents of a file."""
    return lambda folder: (folder / file).write_bytes(changed((folder / file).read_bytes()))


def remove(file: str) -> Change:
    """Remove a file or a folder."""

    def change(folder: Path) -> None:
        path = folder / file
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def as_folder(file: str) -> Change:
    """Put a folder in the place of a file."""
    return lambda folder: ((folder / file).unlink(), (folder / file).mkdir())


def values(file: str, **values: Any) -> Change:
    """Change values of a JSON object; ... removes one."""

    def changed(content: bytes) -> bytes:
        stored = json.loads(content) | values
        return json.dumps({name: value for name, value in stored.items() if value is not ...}).encode()

    return edit(file, changed)


def array(file: str, make: Callable[[Any], Any]) -> Change:
    """Replace the array in a .npy file by what `make` returns for it."""

    def change(folder: Path) -> None:
        there = np.load(folder / file) if (folder / file).exists() else None
        with (folder / file).open("wb") as sink:
            np.save(sink, make(there), allow_pickle=True)

    return change


def damaged(file: str) -> Iterator[tuple[str, Change]]:
    """The same damages for every kind of file."""
    yield f"{file} missing", remove(file)
    yield f"{file} empty", text(file, b"")
    yield f"{file} cut in half", edit(file, lambda content: content[: len(content) // 2])
    yield f"{file} of zeros", edit(file, lambda content: bytes(len(content)))
    yield f"{file} of noise", edit(file, lambda content: np.random.default_rng(0).bytes(len(content)))
    yield f"{file} is a folder", as_folder(file)


NOT_JSON = {
    "is a list": b"[]",
    "is null": b"null",
    "is a number": b"1e999",
    "has a repeated brace": b"{}{}",
    "nests lists deeply": b"[" * DEEP,
    "nests objects deeply": b'{"a":' * DEEP,
    "is Latin-1": '{"a": "schön"}'.encode("latin-1"),
    "is UTF-16": '{"schema": 1}'.encode("utf-16"),
    "has a number of 5,000 digits": b'{"schema": ' + b"9" * 5000 + b"}",
}
