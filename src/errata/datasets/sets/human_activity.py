"""Human Activity Recognition Using Smartphones: activities, from the motion sensors of a phone at the waist."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from errata.datasets import table_datasets as tables
from errata.datasets.spec import Arrays, Dataset, PaperRow, ParsedArrays, PreparedArrays, Source
from errata.errors import DataError
from errata.readers.hashing import array_hash
from errata.training.recipes import Recipe

NAME = "human_activity"
ROOT = "UCI HAR Dataset"
URL = "https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip"
ROWS = {"train": 7352, "test": 2947}
FEATURES = 561
PAPER_COMPONENTS = "30"
OFFICIAL_BLOBS = {"train": "b06f3e4c", "test": "f3c01cbd"}  # start of the git blob ids of X_train.txt and X_test.txt
HASHES = {
    "train_labels": "233e83592120f56008c7e9446dd68ac41026b9de8ccbdae52e1d18536c22668b",
    "train_subjects": "bf419922e5fe01621e71debb39ff4d65c9e481c6f0a0c8b14888daf28ae6bba5",
    "test_labels": "27089b70b758e14c60e2875bc386abfb24ae7c658abeb08b3065d203dd5eb6b8",
    "test_subjects": "ff997a7c06934f811cd35930c0cdd86935a8dd46b5583b371ccf396014aabaf2",
}
REPLACED = "labels, subjects and order are the official ones, but the features in X_train.txt and X_test.txt are not"
# the paper prints no widths
RECIPE = Recipe(epochs=797, batch_size=1024, learning_rate=1e-3, weight_decay=1e-3, widths=(90, 45))


FILES = tuple(f"{ROOT}/{part}/{kind}_{part}.txt" for part in ROWS for kind in ("X", "y", "subject"))


def read(*paths: Path) -> ParsedArrays:
    """Read the features, activities and persons of both parts. Activities and persons must be the official ones."""
    arrays: Arrays = {}
    official = True
    for part, rows in ROWS.items():
        features, *others = (path for path in paths if path.stem.endswith(part))
        for path, what in zip(others, ("labels", "subjects"), strict=True):
            arrays[f"{part}_{what}"] = tables.read_numbers(path, 1)[:, 0].astype(np.int64)
            if array_hash(arrays[f"{part}_{what}"]) != HASHES[f"{part}_{what}"]:
                raise DataError(f"{path} is not the official {NAME}: its {part} {what} differ")
        arrays[f"{part}_inputs"] = tables.read_numbers(features, FEATURES)
        tables.check_rows(features, len(arrays[f"{part}_inputs"]), rows)
        content = features.read_bytes()
        forms = (content, content.replace(b"\r\n", b"\n"))  # with its line ends or with those of Unix
        official &= any(git_blob(form).startswith(OFFICIAL_BLOBS[part]) for form in forms)
    return ParsedArrays(arrays, remarks=() if official else (REPLACED,), complete=official)


def git_blob(content: bytes) -> str:
    """The git blob id of a file with that content."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """The official split by person; principal components with 90 % of the variance; clip outliers."""
    train, test = ((parsed.arrays[f"{part}_inputs"], parsed.arrays[f"{part}_labels"] - 1) for part in ROWS)
    steps = [tables.standardise, tables.principal_components(0.9), tables.clip_fences({0: (1, 99)})]
    prepared = tables.prepare_parts(train, test, steps)
    count = prepared.arrays["train_inputs"].shape[1]
    remark = f"{count} principal components hold 90 % of the variance; the paper's table says {PAPER_COMPONENTS}"
    return replace(prepared, remarks=(remark,))


DATASET = Dataset(
    name=NAME,
    title="Human Activity Recognition Using Smartphones",
    source="https://archive.ics.uci.edu/dataset/240/human+activity+recognition+using+smartphones",
    licence="CC BY 4.0",
    bibtex="""@inproceedings{anguita_2013,
  author = {Anguita, Davide and Ghio, Alessandro and Oneto, Luca and Parra, Xavier and Reyes-Ortiz, Jorge Luis},
  title = {A Public Domain Dataset for Human Activity Recognition Using Smartphones},
  booktitle = {European Symposium on Artificial Neural Networks},
  year = {2013},
  note = {UCI Machine Learning Repository, doi 10.24432/C54S4K}
}""",
    kind="table",
    classes=("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying"),
    sources=(Source(FILES, read),),
    prepare=prepare,
    # rounds chosen without the official features
    settings=tables.table_settings(NAME, RECIPE, horizon=1594, accuracy=76.62, rounds=72),
    downloads=(URL,),
    inner_archive=f"{ROOT}.zip",
    hashes=HASHES,
    paper=PaperRow(rows=10_299, features=str(FEATURES), transformed=PAPER_COMPONENTS, classes=6, train=7352, test=2947),
    class_counts=(1722, 1544, 1406, 1777, 1906, 1944),
)
