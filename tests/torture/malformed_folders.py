"""Malformed folders that errata wrote: dynamics here; results of find, decisions and results of the benchmark."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from torture import malformed_decisions, malformed_found, malformed_results
from torture.cases import Case, Expected
from torture.hostile import ROWS
from torture.victims import command
from torture.written_folders import NOT_JSON, array, copied, damaged, template, text, values

MANIFEST = "manifest.json"
MANIFESTS: list[tuple[str, dict[str, Any], Expected]] = [
    ("too few class names", {"classes": ["no"]}, "refused"),
    ("too many class names", {"classes": ["no", "yes", "maybe"]}, "refused"),
    ("a repeated class name", {"classes": ["no", "no"]}, "refused"),
    ("a class name of null", {"classes": ["no", None]}, "refused"),
    ("class names that are lists", {"classes": [["no"], ["yes"]]}, "refused"),
    ("class names that are one text", {"classes": "ny"}, "refused"),
    ("class names that are an object", {"classes": {"no": 0, "yes": 1}}, "refused"),
    ("class names that are a number", {"classes": 2}, "refused"),
    ("class names half an emoji", {"classes": ["\ud83d", "yes"]}, "either"),
    ("classes of null", {"classes": None}, "read"),
    ("an unknown gathering", {"gathering": "sideways"}, "refused"),
    ("a gathering of a number", {"gathering": 3}, "refused"),
    ("a gathering that is a list", {"gathering": ["in-sample"]}, "refused"),
    ("no gathering", {"gathering": ...}, "refused"),
    ("no schema", {"schema": ...}, "refused"),
    ("a schema of tomorrow", {"schema": 99}, "refused"),
    ("a schema of text", {"schema": "1"}, "refused"),
    ("a schema of true", {"schema": True}, "either"),
    ("negative epochs", {"epochs": -1}, "refused"),
    ("no epochs", {"epochs": ...}, "refused"),
    ("zero epochs", {"epochs": 0}, "refused"),
    ("more epochs than stored", {"epochs": 50}, "refused"),
    ("10^30 epochs", {"epochs": 10**30}, "refused"),
    ("epochs of text", {"epochs": "5"}, "refused"),
    ("epochs of 2.5", {"epochs": 2.5}, "refused"),
    ("epochs of true", {"epochs": True}, "refused"),
    ("fewer epochs than stored, as after a crash", {"epochs": 3}, "read"),
    ("too few samples", {"samples": ROWS - 1}, "refused"),
    ("no samples", {"samples": 0}, "refused"),
    ("one class", {"num_classes": 1}, "refused"),
    ("more classes", {"num_classes": 3}, "refused"),
    ("another type", {"dtype": "float64"}, "refused"),
    ("an unknown type", {"dtype": "float7"}, "refused"),
    ("a type of null", {"dtype": None}, "refused"),
    ("keep of another word", {"keep": "some"}, "refused"),
    ("keep stream without sums", {"keep": "stream"}, "refused"),
    ("keep of null", {"keep": None}, "refused"),
    ("partial of another word", {"partial": "perhaps"}, "refused"),
    ("settings that are a list", {"settings": [1]}, "either"),
    ("settings of null", {"settings": None}, "either"),
    ("another hash of labels", {"label_hash": "0" * 64}, "refused"),
    ("a hash of null", {"label_hash": None}, "refused"),
    ("another hash of ids", {"id_hash": 17}, "refused"),
    ("checksums of null", {"checksums": None}, "either"),
    ("checksums that are text", {"checksums": ["x"] * 5}, "either"),
    ("no checksums", {"checksums": ...}, "refused"),
    ("unknown keys", {"colour": "red"}, "read"),
]

ARRAYS: list[tuple[str, str, Callable[[Any], Any], Expected]] = [
    ("logits.npy", "of another type", lambda there: there.astype(np.float64), "refused"),
    ("logits.npy", "of another shape", lambda there: there[:, :-1], "refused"),
    ("logits.npy", "of other values", lambda there: there[:, ::-1], "refused"),
    ("logits.npy", "with NaN", lambda there: np.where(there > 1, np.nan, there).astype(np.float32), "refused"),
    ("logits.npy", "pickled", lambda there: np.array([None, {}], dtype=object), "refused"),
    ("logits.npy", "of one dimension", lambda there: there.ravel(), "refused"),
    ("logits.npy", "of no dimension", lambda there: np.float32(1), "refused"),
    ("labels.npy", "of other labels", lambda there: 1 - there, "refused"),
    ("labels.npy", "as text", lambda there: there.astype(str), "refused"),
    ("labels.npy", "out of range", lambda there: there + 5, "refused"),
    ("labels.npy", "of no dimension", lambda there: np.int64(1), "refused"),
    ("ids.npy", "of other ids", lambda there: there + 1, "refused"),
    ("ids.npy", "repeated", lambda there: there * 0, "refused"),
    ("ids.npy", "of two dimensions", lambda there: there[:, None], "refused"),
    ("features.npy", "with NaN", lambda there: there * np.nan, "refused"),
    ("features.npy", "with infinity", lambda there: there * np.inf, "refused"),
    ("features.npy", "as text", lambda there: there.astype(str), "refused"),
    ("features.npy", "complex", lambda there: there.astype(complex), "refused"),
    ("features.npy", "of one dimension", lambda there: there[:, 0], "refused"),
    ("features.npy", "of three dimensions", lambda there: there[..., None], "refused"),
    ("features.npy", "too short", lambda there: there[:-1], "refused"),
    ("features.npy", "without columns", lambda there: there[:, :0], "refused"),
    ("features.npy", "of 1e300", lambda there: there.astype(float) * 1e300, "either"),
    ("features.npy", "pickled", lambda there: np.array([None] * ROWS, dtype=object), "refused"),
    ("inputs.npy", "with NaN", lambda there: np.full((ROWS, 2), np.nan), "refused"),
    ("inputs.npy", "as text", lambda there: np.full((ROWS, 2), "x"), "refused"),
    ("held_out.npy", "with NaN", lambda there: np.full((ROWS, 2), np.nan), "refused"),
    ("held_out.npy", "with infinity", lambda there: np.full((ROWS, 2), -np.inf), "refused"),
    ("held_out.npy", "as text", lambda there: np.full((ROWS, 2), "x"), "refused"),
    ("held_out.npy", "of another shape", lambda there: np.zeros((ROWS, 3)), "refused"),
    ("held_out.npy", "of 1e300", lambda there: np.full((ROWS, 2), [1e300, -1e300]), "either"),
    ("swa_logits.npy", "with NaN", lambda there: np.full((ROWS, 2), np.nan), "either"),
    ("swa_logits.npy", "as text", lambda there: np.full((ROWS, 2), "x"), "refused"),
    ("fold.npy", "of two dimensions", lambda there: np.zeros((ROWS, 2), int), "either"),
    ("fold.npy", "pickled", lambda there: np.array([None] * ROWS, dtype=object), "refused"),
]


def cases() -> Iterator[Case]:
    """All malformed folders."""
    template()
    yield from _dynamics()
    yield from malformed_found.cases()
    yield from malformed_decisions.cases()
    yield from malformed_results.cases()


def _dynamics() -> Iterator[Case]:
    rank = command("rank", "run", "--top", "2")
    prepare = partial(copied, "run")
    yield Case("dynamics: whole", prepare(lambda folder: None), rank, "read")
    for name, stored, expected in MANIFESTS:
        yield Case(f"dynamics: manifest with {name}", prepare(values(MANIFEST, **stored)), rank, expected, says="run")
    for name, content in NOT_JSON.items():
        yield Case(f"dynamics: manifest {name}", prepare(text(MANIFEST, content)), rank, says=MANIFEST)
    for file in (MANIFEST, "logits.npy", "labels.npy", "ids.npy", "features.npy"):
        for name, change in damaged(file):
            expected: Expected = "either" if name == "features.npy missing" else "refused"
            yield Case(f"dynamics: {name}", prepare(change), rank, expected, says=file)
    for file, name, make, expected in ARRAYS:
        yield Case(f"dynamics: {file} {name}", prepare(array(file, make)), rank, expected, says=file)
    empty = prepare(lambda folder: [path.unlink() for path in folder.iterdir()])
    yield Case("dynamics: an empty folder", empty, rank, says="run")
    unfinished = prepare(text(".manifest.json.1.part", b"x"))
    yield Case("dynamics: an unfinished file of a crash", unfinished, rank, "read")
