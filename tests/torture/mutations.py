"""A seeded fuzzer: valid files with random damage must be read, or refused with an error of errata."""

import json
import os
import re
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from torture import scenarios
from torture.scenarios import numbers
from torture.tally import KINDS, Attack, Counts, Kind, Verdict
from torture.victims import command, run_victim

PART = "mutated files"
BATCH = 50  # mutated files per process
TIME_LIMIT = 20  # seconds for one file
SPECIAL = [
    b"\x00",
    b"\xff",
    b'"',
    b"'",
    b",",
    b"\n",
    b"\r",
    b"\t",
    b"\xed\xa0\xbd",
    b"\xef\xbb\xbf",
    b"{",
    b"[",
    b"9" * 400,
]
NUMBERS = [b"-1", b"0", b"1e999", b"NaN", b"null", b"1.5", b"18446744073709551616", b"[]", b'"x"', b"9" * 40]
DIGITS = re.compile(rb"\d+")


@dataclass(frozen=True)
class Specimen:
    """A kind of file. prepare(folder): write a valid one and what it needs. file: its path. read: the reader."""

    name: str
    prepare: Callable[[Path], object]
    file: str
    read: Callable[[], object]


class StuckError(BaseException):
    """A file took too long."""


def mutation_attacks(count: int, seed: int) -> Iterator[Attack]:
    """About `count` mutated files, the same number of each kind, in batches."""
    chosen = specimens()
    each = -(-count // len(chosen))
    for specimen in chosen:
        for start in range(0, each, BATCH):
            yield _batch(specimen, seed * 1_000_003 + start, min(BATCH, each - start))


def mutated(content: bytes, rng: Random) -> bytes:
    """The content with one to four random changes, near its beginning or its end half of the time."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if content:
            start = _place(len(content), rng)
            end = min(len(content), start + rng.choice((1, 1, 2, 8, 64, 512)))
            content = rng.choice(CHANGES)(content, start, end, rng)
    return content


def _other_bit(content: bytes, start: int, end: int, rng: Random) -> bytes:
    return content[:start] + bytes([content[start] ^ (1 << rng.randrange(8))]) + content[start + 1 :]


def _random_bytes(content: bytes, start: int, end: int, rng: Random) -> bytes:
    return content[:start] + rng.randbytes(end - start) + content[end:]


def _removed(content: bytes, start: int, end: int, rng: Random) -> bytes:
    return content[:start] + content[end:]


def _repeated(content: bytes, start: int, end: int, rng: Random) -> bytes:
    return content[:end] + content[start:end] * rng.choice((1, 2, 50)) + content[end:]


def _inserted(content: bytes, start: int, end: int, rng: Random) -> bytes:
    return content[:start] + rng.choice(SPECIAL) + content[start:]


def _cut(content: bytes, start: int, end: int, rng: Random) -> bytes:
    return content[:start]


def _other_number(content: bytes, start: int, end: int, rng: Random) -> bytes:
    found = DIGITS.search(content, start)
    return content[: found.start()] + rng.choice(NUMBERS) + content[found.end() :] if found else content


def _copied(content: bytes, start: int, end: int, rng: Random) -> bytes:
    other = _place(len(content), rng)
    return content[:start] + content[other : other + end - start] + content[end:]


CHANGES = (_other_bit, _random_bytes, _removed, _repeated, _inserted, _cut, _other_number, _copied)


def _place(length: int, rng: Random) -> int:
    near = min(length, 256)
    return rng.choice(
        (rng.randrange(length), rng.randrange(length), rng.randrange(near), length - 1 - rng.randrange(near))
    )


def _batch(specimen: Specimen, seed: int, size: int) -> Attack:
    def run(folder: Path) -> Verdict:
        valid = folder / "valid"
        valid.mkdir()
        specimen.prepare(valid)
        content = (valid / specimen.file).read_bytes()
        report = folder / "verdicts"
        outcome = run_victim(
            lambda: _read_mutated(specimen, content, seed, size, report), valid, time_limit=size * TIME_LIMIT
        )
        counts, details = dict.fromkeys(KINDS, 0), []
        for line in report.read_text().splitlines() if report.exists() else []:
            kind, detail = json.loads(line)
            counts[kind] += 1
            if detail:
                details.append(f"{kind}: {detail}")
        missing = size - sum(counts.values())
        if missing:  # the process died or hung on a file
            died: Kind = "stuck" if outcome.code is None else "traceback"
            counts[died] += missing
            details.append(f"{died}: file {size - missing} ended the process: {outcome.code} {outcome.output[-800:]}")
        return Counts("fine", "\n".join(details), counts)

    return Attack(PART, f"{specimen.name}, seed {seed}", run)


def _read_mutated(specimen: Specimen, content: bytes, seed: int, size: int, report: Path) -> None:
    """Read `size` mutated files; one line of the report each."""
    from errata.errors import ErrataError

    def stop(number: int, frame: FrameType | None) -> None:
        raise StuckError

    signal.signal(signal.SIGALRM, stop)
    rng, path = Random(seed), Path(specimen.file)
    with report.open("w") as verdicts:
        for number in range(size):
            damaged = mutated(content, rng)
            path.write_bytes(damaged)
            kind, detail = "fine", ""
            signal.alarm(TIME_LIMIT)
            try:
                specimen.read()
            except ErrataError:
                kind = "refused"
            except StuckError:
                kind, detail = "stuck", f"file {number}: more than {TIME_LIMIT} s"
            except BaseException:
                kind, detail = "traceback", f"file {number}: {traceback.format_exc(limit=-4)}"
            finally:
                signal.alarm(0)
            print(json.dumps([kind, detail]), file=verdicts, flush=True)
            if detail and "TORTURE_KEEP" in os.environ:
                kept = Path(os.environ["TORTURE_KEEP"], f"{specimen.name}-{seed}-{number}-{path.name}")
                kept.write_bytes(damaged)


# --- the kinds of files ---------------------------------------------------------------------------------------------


def _prepare_found(folder: Path) -> None:
    """errata-out/ of a run on logits."""
    scenarios.write_logits(folder)
    outcome = run_victim(command("find", "logits.npz"), folder)
    if outcome.code != 0:
        raise RuntimeError(outcome.output)


def _prepare_run(folder: Path) -> None:
    outcome = run_victim(scenarios.record, folder)
    if outcome.code != 0:
        raise RuntimeError(outcome.output)


def _prepare_gz(folder: Path) -> None:
    import gzip

    scenarios.write_csv(folder)
    (folder / "data.csv.gz").write_bytes(gzip.compress((folder / "data.csv").read_bytes(), mtime=0))


def _prepare_image(folder: Path, suffix: str) -> None:
    """Class folders with one file of another format."""
    from PIL import Image

    scenarios.write_images(folder)
    with Image.open(folder / "photos/dark/00.png") as picture:
        picture.save(folder / f"photos/dark/other{suffix}")


def _prepare_compressed(folder: Path) -> None:
    import numpy as np

    inputs, labels = numbers()
    np.savez_compressed(folder / "arrays.npz", X=inputs, y=labels)


def _open(name: str, label: str | None = "label") -> Callable[[], object]:
    """Read a file as `errata find` does, up to the features of a model."""

    def read() -> object:
        return _source(name, label)

    return read


def _source(name: str, label: str | None) -> Any:
    from errata.finding.sources import DataSource

    return DataSource(name, label, None, None, False).open()


def _rank(name: str) -> Callable[[], object]:
    def read() -> object:
        import errata
        from errata.dynamics.store import Dynamics

        return errata.rank(_source(name, None) if name.endswith(".npz") else Dynamics.open(name))

    return read


def _found() -> object:
    from errata.finding.found import Found

    return Found.open("errata-out")


def _apply() -> object:
    import errata

    shutil.rmtree("copies", ignore_errors=True)
    Path("copies").mkdir()
    return errata.apply("data.csv", "decisions.csv", label="label", out="copies")


def _recipe() -> object:
    from errata.bench.results import Results
    from errata.datasets.registry import setting

    return Results(Path("results")).recipe(setting(scenarios.DIGITS))


def _table(suffix: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        scenarios.reviewed_table(folder, suffix)

    return prepare


def specimens() -> list[Specimen]:
    """Every kind of file that errata reads."""
    found: list[tuple[str, Callable[[], Any]]] = [
        (name, _found) for name in ("summary.json", "ranking.parquet", "dynamics/manifest.json")
    ]
    images = [
        Specimen(
            f"picture {suffix}",
            lambda folder, suffix=suffix: _prepare_image(folder, suffix),
            f"photos/dark/other{suffix}",
            _open("photos", None),
        )  # type: ignore[misc]
        for suffix in (".png", ".jpg", ".webp", ".bmp", ".gif", ".tiff")
    ]
    recorded = ("manifest.json", "logits.npy", "labels.npy", "ids.npy", "features.npy")
    return [
        Specimen("csv", scenarios.write_csv, "data.csv", _open("data.csv")),
        Specimen("csv.gz", _prepare_gz, "data.csv.gz", _open("data.csv.gz")),
        Specimen("texts", scenarios.write_texts, "texts.csv", _open("texts.csv")),
        *(
            Specimen(suffix, _table(suffix), f"data{suffix}", _open(f"data{suffix}"))
            for suffix in (".tsv", ".parquet", ".jsonl", ".json")
        ),
        Specimen("npz", scenarios.write_arrays, "arrays.npz", _open("arrays.npz", None)),
        Specimen("compressed npz", _prepare_compressed, "arrays.npz", _open("arrays.npz", None)),
        Specimen("logits", scenarios.write_logits, "logits.npz", _rank("logits.npz")),
        *(Specimen(f"run/{name}", _prepare_run, f"run/{name}", _rank("run")) for name in recorded),
        *(Specimen(f"errata-out/{name}", _prepare_found, f"errata-out/{name}", read) for name, read in found),
        Specimen("decisions", _table(".csv"), "decisions.csv", _apply),
        *images,
        Specimen(
            "recipe",
            lambda folder: scenarios.short_digits(folder, 2),
            f"results/recipes/{scenarios.DIGITS}.json",
            _recipe,
        ),
    ]
