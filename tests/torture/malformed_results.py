"""Malformed results of the benchmark, and recipes."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from torture.cases import Case, Expected
from torture.scenarios import DIGITS, own_cache
from torture.victims import command
from torture.written_folders import NOT_JSON, Change, copied, damaged, text, values

RECIPES: list[tuple[str, dict[str, Any], Expected]] = [
    ("unchanged", {}, "read"),
    ("no epochs", {"epochs": ...}, "refused"),
    ("epochs of text", {"epochs": "x"}, "refused"),
    ("epochs of null", {"epochs": None}, "refused"),
    ("zero epochs", {"epochs": 0}, "refused"),
    ("epochs of 2.5", {"epochs": 2.5}, "refused"),
    ("a learning rate of infinity", {"learning_rate": float("inf")}, "refused"),
    ("a learning rate of NaN", {"learning_rate": float("nan")}, "refused"),
    ("a learning rate of text", {"learning_rate": "fast"}, "refused"),
    ("an unknown optimiser", {"optimizer": "odd"}, "refused"),
    ("an unknown key", {"colour": "red"}, "refused"),
    ("a schedule of numbers", {"schedule": [1, 2]}, "refused"),
    ("a schedule of null", {"schedule": None}, "refused"),
    ("an empty schedule", {"schedule": []}, "refused"),
    ("widths of text", {"widths": "wide"}, "refused"),
    ("negative widths", {"widths": [-4]}, "refused"),
    ("a negative seed", {"seed": -1}, "refused"),
]


def cases() -> Iterator[Case]:
    """All malformed results of the benchmark."""
    prepare = partial(copied, "results")
    cell = f"cells/{DIGITS}/in-sample-seed0"
    show = command("bench", "table", "operating-point", "--results", "results", "--setting", DIGITS)
    works = {"table": show, "list": own_cache(command("bench", "list", "--out", "results"))}
    works["pack"] = own_cache(command("bench", "pack", "--out", "results"))
    works["rank"] = command("bench", "rank", "--out", "results", "--setting", DIGITS)
    for used, work in works.items():
        yield Case(f"results, {used}: whole", prepare(lambda folder: None), work, "read")
    for used in ("table", "pack", "rank"):
        for file in (f"{cell}.parquet", f"{cell}.ranks.parquet"):
            for name, change in damaged(file):
                outcome: Expected = "either"
                yield Case(f"results, {used}: {Path(name).name}", prepare(change), works[used], outcome)
    names: dict[str, Change] = {
        "a cell without a seed": lambda folder: shutil.copytree(folder / f"cells/{DIGITS}", folder / "cells/x"),
        "a seed that is no number": lambda folder: _renamed(folder / f"cells/{DIGITS}", "seed0", "seedx"),
        "an unknown gathering": lambda folder: _renamed(folder / f"cells/{DIGITS}", "in-sample", "sideways"),
        "a packed file that is text": text(f"cells/{DIGITS}.parquet", b"text"),
        "a packed file without columns": lambda folder: _packed(folder, {"x": [1]}),
        "a packed file of other types": lambda folder: _packed(folder, {"table": [1], "gathering": [2], "seed": ["x"]}),
        "a failure that is not JSON": lambda folder: _failed(folder, b"{"),
        "a failure without a reason": lambda folder: _failed(folder, b"{}"),
    }
    for name, change in names.items():
        for used, work in works.items():
            yield Case(f"results, {used}: {name}", prepare(change), work, "either")
    recipe = f"recipes/{DIGITS}.json"
    for name, stored, expected in RECIPES:
        yield Case(f"recipe: {name}", prepare(values(recipe, **stored)), works["list"], expected, says=f"{DIGITS}.json")
    for name, content in NOT_JSON.items():
        yield Case(f"recipe: {name}", prepare(text(recipe, content)), works["list"], says=f"{DIGITS}.json")


def _renamed(folder: Path, old: str, new: str) -> None:
    for path in list(folder.iterdir()):
        path.rename(path.with_name(path.name.replace(old, new)))


def _packed(folder: Path, columns: dict[str, list[Any]]) -> None:
    import pandas as pd

    pd.DataFrame(columns).to_parquet(folder / f"cells/{DIGITS}.parquet")


def _failed(folder: Path, content: bytes) -> None:
    (folder / f"cells/{DIGITS}/out-of-sample-seed0.failed.json").write_bytes(content)
