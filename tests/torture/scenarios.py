"""The commands and calls that write files: what they need, how they run, and what they must leave behind."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from torture.victims import Outcome, command, run_victim

VOLATILE = {"seconds", "when", "created", "train_seconds", "score_seconds", "started", "finished"}
CACHE_VARIABLE = "XDG_CACHE_HOME"
DIGITS = "digits-symmetric-20"
ROWS = 48


@dataclass(frozen=True)
class Scenario:
    """Something that writes files.

    prepare(folder): write its input. work: what runs in that folder, again after a kill. outputs: the files and folders
    that it writes. share: how many of the kills it gets, relative to others. rival: work with other input and the same
    outputs, of which only one may succeed.
    """

    name: str
    prepare: Callable[[Path], object]
    work: Callable[[], object]
    outputs: tuple[str, ...]
    share: int = 1
    rival: Callable[[], object] | None = None


@dataclass(frozen=True)
class Reference:
    """An undisturbed run: the digest of every file, the operations on files, and the seconds."""

    digests: dict[str, str]
    operations: tuple[str, ...]
    seconds: float


def reference(scenario: Scenario, folder: Path) -> Reference:
    """Run the scenario without an attack."""
    folder.mkdir(parents=True)
    scenario.prepare(folder)
    outcome = run_victim(scenario.work, folder)
    if outcome.code != 0:
        raise RuntimeError(f"{scenario.name} fails without an attack: {outcome.output}")
    return Reference(digests(folder, scenario.outputs), outcome.operations, outcome.seconds)


def run_again(scenario: Scenario, folder: Path) -> Outcome:
    """Run the scenario undisturbed in a folder that holds the remains of another run."""
    return run_victim(scenario.work, folder)


def digests(folder: Path, outputs: tuple[str, ...]) -> dict[str, str]:
    """A hash of every file below the outputs, without times. Leftovers of a killed run count as files too."""
    files: set[Path] = set()
    for name in outputs:
        for path in [folder / name, *folder.glob(f".{Path(name).name}*")]:
            files |= {path} if path.is_file() else {file for file in path.rglob("*") if file.is_file()}
    kept = (file for file in files if file.suffix != ".lock")
    return {str(file.relative_to(folder)): hashlib.sha256(_content(file)).hexdigest()[:16] for file in sorted(kept)}


def _content(file: Path) -> bytes:
    import pandas as pd

    if file.suffix == ".json":
        return json.dumps(_without_times(json.loads(file.read_text())), sort_keys=True).encode()
    if file.suffix == ".parquet":
        return _table(pd.read_parquet(file))
    if file.name.endswith(".log.csv"):
        return _table(pd.read_csv(file))
    if file.suffix == ".npz":
        with np.load(file) as arrays:
            return b"".join(name.encode() + arrays[name].tobytes() for name in sorted(arrays.files))
    if file.suffix == ".html":
        return re.sub(rb"seconds taken</dt><dd>[\d.,]+", b"", file.read_bytes())
    return file.read_bytes()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(part) for name, part in value.items() if name not in VOLATILE}
    return [_without_times(part) for part in value] if isinstance(value, list) else value


def _table(table: Any) -> bytes:
    kept = [name for name in table.columns if name not in VOLATILE]
    text: str = table[kept].to_csv(index=False)
    return text.encode()


# --- inputs ---------------------------------------------------------------------------------------------------------


def numbers(seed: int = 0, rows: int = ROWS) -> tuple[Any, Any]:
    """Two classes that a line separates; every twelfth label is wrong. Inputs (rows, 4), labels (rows,)."""
    inputs = np.random.default_rng(seed).normal(size=(rows, 4)).round(3)
    labels = (inputs[:, 0] > 0).astype(np.int64)
    labels[::12] = 1 - labels[::12]
    return inputs, labels


def write_csv(folder: Path) -> None:
    """data.csv: a table."""
    inputs, labels = numbers()
    lines = ["a,b,c,d,label"]
    lines += [",".join([*map(str, row), ("no", "yes")[label]]) for row, label in zip(inputs, labels, strict=True)]
    (folder / "data.csv").write_text("\n".join(lines) + "\n")


def write_texts(folder: Path) -> None:
    """texts.csv: two kinds of sentences."""
    rng = np.random.default_rng(0)
    words = (["fine", "good", "great", "lovely", "superb"], ["bad", "poor", "awful", "dreadful", "nasty"])
    lines = ["text,label"]
    for row in range(ROWS):
        kind = row % 2
        sentence = " ".join(rng.choice(words[kind], 6)) + f" and thing {row % 7} was seen by all of us there"
        lines.append(f"{sentence},{'ab'[kind if row % 12 else 1 - kind]}")
    (folder / "texts.csv").write_text("\n".join(lines) + "\n")


def write_images(folder: Path) -> None:
    """photos/: bright and dark pictures in class folders."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for row in range(24):
        bright = row % 2
        place = folder / "photos" / ("bright" if bright else "dark")
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 100, (8, 8, 3)) + 150 * bright
        Image.fromarray(pixels.astype(np.uint8)).save(place / f"{row:02d}.png")


def write_logits(folder: Path) -> None:
    """logits.npz: logits (6, 48, 2) and labels; rival.npz: other logits."""
    _, labels = numbers()
    logits = np.random.default_rng(1).normal(size=(6, ROWS, 2)).astype(np.float32)
    logits[:, np.arange(ROWS), labels] += 1
    np.savez(folder / "logits.npz", logits=logits, labels=labels)
    np.savez(folder / "rival.npz", logits=-logits, labels=labels)


def write_arrays(folder: Path) -> None:
    """arrays.npz: X, y, and the same under the names that `errata choose` reads."""
    inputs, labels = numbers()
    np.savez(folder / "arrays.npz", X=inputs, y=labels)
    np.savez(folder / "choose.npz", inputs=inputs, labels=labels)


def write_decisions(folder: Path, ids: list[str], labels: list[str], new: dict[str, str]) -> None:
    """decisions.csv: every fourth sample gets another label."""
    lines = ["id,label,decision,new_label"]
    lines += [f"{id_},{label},relabel,{new[label]}" for id_, label in list(zip(ids, labels, strict=True))[::4]]
    (folder / "decisions.csv").write_text("\n".join(lines) + "\n")


def reviewed_table(folder: Path, suffix: str) -> None:
    """data.<suffix> and decisions on it."""
    import pandas as pd

    write_csv(folder)
    table = pd.read_csv(folder / "data.csv")
    if suffix == ".parquet":
        table.to_parquet(folder / "data.parquet")
    elif suffix == ".jsonl":
        table.to_json(folder / "data.jsonl", orient="records", lines=True)
    elif suffix == ".json":
        table.to_json(folder / "data.json", orient="records")
    elif suffix == ".tsv":
        table.to_csv(folder / "data.tsv", sep="\t", index=False)
    ids, labels = [str(row) for row in range(len(table))], table["label"].tolist()
    write_decisions(folder, ids, labels, {"no": "yes", "yes": "no"})


def reviewed_arrays(folder: Path) -> None:
    """arrays.npz and decisions on it."""
    write_arrays(folder)
    labels = [str(label) for label in numbers()[1]]
    write_decisions(folder, [str(row) for row in range(ROWS)], labels, {"0": "1", "1": "0"})


def reviewed_images(folder: Path) -> None:
    """photos/ and decisions on it."""
    write_images(folder)
    ids = sorted(str(path.relative_to(folder / "photos")) for path in (folder / "photos").rglob("*.png"))
    write_decisions(folder, ids, [id_.split("/")[0] for id_ in ids], {"bright": "dark", "dark": "bright"})


def short_digits(folder: Path, epochs: int) -> None:
    """results/ with a recipe that trains digits for a few epochs."""
    from errata.bench.results import Results
    from errata.datasets.registry import setting

    path = Results(folder / "results").recipe_path(DIGITS)
    path.parent.mkdir(parents=True)
    replace(setting(DIGITS).recipe, epochs=epochs).save(path)


def digits_cells(folder: Path) -> None:
    """results/ with cells that are not packed yet."""
    short_digits(folder, 2)
    outcome = run_victim(own_cache(command("bench", "run", *BENCH, "--seeds", "2")), folder)
    if outcome.code != 0:
        raise RuntimeError(outcome.output)


# --- work -----------------------------------------------------------------------------------------------------------


def own_cache(work: Callable[[], object]) -> Callable[[], object]:
    """The work with a cache folder below its working directory."""

    def with_cache() -> object:
        os.environ[CACHE_VARIABLE] = str(Path("cache").absolute())
        os.environ.pop("ERRATA_DATA", None)
        return work()

    return with_cache


def record(keep: str = "all", shift: int = 0) -> None:
    """A training loop of 6 epochs that resumes after a crash. shift: another training with other logits."""
    import errata

    _, labels = numbers()
    options: dict[str, Any] = {"labels": labels, "num_classes": 2, "keep": keep, "quiet": True}
    recorder = errata.Recorder("run", **options, resume=not shift and Path("run/manifest.json").exists())
    for epoch in range(recorder.epoch, 6):
        logits = np.random.default_rng(epoch + shift).normal(size=(ROWS, 2)).astype(np.float32)
        for batch in np.array_split(np.random.default_rng(epoch + 100).permutation(ROWS), 4):
            recorder.update(batch, logits[batch])
        recorder.end_epoch()
    recorder.finish(features=numbers()[0])


BENCH = ("--setting", DIGITS, "--device", "cpu", "--out", "results", "--gathering", "in-sample")
TUNE = ("--setting", DIGITS, "--device", "cpu", "--out", "results", "--seeds", "1")
FOUND = ("errata-out",)


def _find(name: str, prepare: Callable[[Path], object], *arguments: str, share: int = 1) -> Scenario:
    device = () if "logits.npz" in arguments else ("--device", "cpu")
    rival = command("find", "rival.npz") if "logits.npz" in arguments else None
    return Scenario(f"find {name}", prepare, command("find", *arguments, *device), FOUND, share, rival)


def _apply(name: str, prepare: Callable[[Path], object], source: str, *arguments: str) -> Scenario:
    suffix = Path(source).suffix
    copy = f"{source.removesuffix(suffix)}.corrected{suffix}"
    work = command("apply", source, "--decisions", "decisions.csv", *arguments)
    return Scenario(f"apply {name}", prepare, work, (copy, f"{copy}.log.csv"), share=2)


def scenarios() -> list[Scenario]:
    """All scenarios."""
    table = ("--label", "label")
    return [
        Scenario("recorder", lambda folder: None, partial(record, "all"), ("run",), 6, partial(record, "all", 50)),
        Scenario(
            "recorder, running sums",
            lambda folder: None,
            partial(record, "stream"),
            ("run",),
            4,
            partial(record, "stream", 50),
        ),
        _find("table", write_csv, "data.csv", *table, "--model", "mlp", share=3),
        _find("table, any model", write_csv, "data.csv", *table),
        _find("table, folds", write_csv, "data.csv", *table, "--model", "mlp", "--folds", "3"),
        _find("boosting", write_csv, "data.csv", *table, "--model", "boosting"),
        _find("text", write_texts, "texts.csv", *table, "--model", "mlp"),
        _find("images", write_images, "photos", "--model", "cnn4"),
        _find("arrays", write_arrays, "arrays.npz", "--model", "mlp"),
        _find("logits", write_logits, "logits.npz", share=3),
        Scenario(
            "choose",
            write_arrays,
            command("choose", "choose.npz", "--max-epochs", "3", "--device", "cpu"),
            ("recipe.json",),
        ),
        Scenario(
            "bench run",
            partial(short_digits, epochs=3),
            own_cache(command("bench", "run", *BENCH, "--seeds", "2")),
            ("results",),
            share=2,
        ),
        Scenario(
            "bench tune", partial(short_digits, epochs=3), own_cache(command("bench", "tune", *TUNE)), ("results",)
        ),
        Scenario("bench pack", digits_cells, own_cache(command("bench", "pack", "--out", "results")), ("results",)),
        _apply("csv", partial(reviewed_table, suffix=".csv"), "data.csv", *table),
        _apply("tsv", partial(reviewed_table, suffix=".tsv"), "data.tsv", *table),
        _apply("parquet", partial(reviewed_table, suffix=".parquet"), "data.parquet", *table),
        _apply("jsonl", partial(reviewed_table, suffix=".jsonl"), "data.jsonl", *table),
        _apply("npz", reviewed_arrays, "arrays.npz"),
        _apply("images", reviewed_images, "photos"),
        Scenario("rank", write_logits, command("rank", "logits.npz", "--out", "ranking.csv"), ("ranking.csv",)),
        Scenario("score", write_logits, command("score", "logits.npz", "--out", "scores.csv"), ("scores.csv",)),
    ]
