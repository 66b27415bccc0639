"""Clothing1M: a million images of clothes, labelled from the text around them in online shops."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from errata.datasets.image_lists import as_paths, check_images, numbered_lines, read_keys
from errata.datasets.label_noise import RecordedNoise
from errata.datasets.spec import UNKNOWN, Dataset, PaperRow, ParsedArrays, Pixels, PreparedArrays, Setting, Source
from errata.errors import DataError
from errata.training.recipes import Recipe

NAME = "clothing1m"
CLASSES = (
    *("T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker"),
    *("Jacket", "Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear"),
)
CODES = {str(code): code for code in range(len(CLASSES))}
FILES = (
    "noisy_label_kv.txt",
    "clean_label_kv.txt",
    "noisy_train_key_list.txt",
    "clean_train_key_list.txt",
    "clean_test_key_list.txt",
)
SCHEDULE = ((0, 1.0), (100, 0.01))
RECIPE = Recipe(epochs=189, batch_size=64, learning_rate=1e-3, weight_decay=5e-5, schedule=SCHEDULE, parts=20)
OFFICIAL_SIZES = (1_024_637, 24_637, 10_526)  # training images, those with a clean label too, test images


def read(annotations: str, *paths: Path) -> ParsedArrays:
    """Read the lists. Training images are the noisy list and the part of the clean training list with noisy labels.

    annotations: the folder with the lists, below that of the dataset.
    """
    noisy_path, clean_path, noisy_train_path, clean_train_path, clean_test_path = paths
    noisy, clean = read_labels(noisy_path), read_labels(clean_path)
    clean_train, clean_test = read_keys(clean_train_path), read_keys(clean_test_path)
    clean_train_labels = _look_up(clean_train, clean, clean_train_path, clean_path)
    known = {key: label for key, label in zip(clean_train, clean_train_labels.tolist(), strict=True) if key in noisy}
    train = list(dict.fromkeys([*read_keys(noisy_train_path), *known]))
    arrays = {
        "train_inputs": as_paths(train),
        "train_labels": np.array([known.get(key, UNKNOWN) for key in train], dtype=np.int64),
        "given": _look_up(train, noisy, noisy_train_path, noisy_path),
        "test_inputs": as_paths(clean_test),
        "test_labels": _look_up(clean_test, clean, clean_test_path, clean_path),
    }
    root = noisy_path.parents[annotations.count("/")]
    for keys, listed in ((train, noisy_train_path), (clean_test, clean_test_path)):
        check_images(root, "images", keys, listed)
    sizes = (len(train), len(known), len(clean_test))
    if sizes == OFFICIAL_SIZES:
        return ParsedArrays(arrays)
    remark = f"part of Clothing1M: {_in_words(sizes)}; the complete data: {_in_words(OFFICIAL_SIZES)}"
    return ParsedArrays(arrays, (remark,), complete=False)


def read_labels(path: Path) -> dict[str, int]:
    """The class of each path, from lines with a path, a space and a class from 0 to 13."""
    labels: dict[str, int] = {}
    for number, line in numbered_lines(path):
        key, _, label = line.rpartition(" ")
        if not key or label not in CODES:
            raise DataError(f"{path}: line {number} must hold a path and a class from 0 to 13, not {line!r}")
        if labels.setdefault(key, CODES[label]) != CODES[label]:
            raise DataError(f"{path}: line {number} has another class for {key} than an earlier line")
    return labels


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """Mark a noisy label as wrong if the clean label is known and differs."""
    clean, given = parsed.arrays["train_labels"], parsed.arrays["given"]
    wrong = np.where(clean == UNKNOWN, -1, clean != given).astype(np.int8)
    arrays = {name: array for name, array in parsed.arrays.items() if name != "given"}
    return PreparedArrays(arrays | {"given:real": given, "wrong:real": wrong})


def _in_words(sizes: tuple[int, int, int]) -> str:
    return "{:,} training images, {:,} of them checked, {:,} test images".format(*sizes)


def _look_up(keys: Iterable[str], labels: Mapping[str, int], listed: Path, labelled: Path) -> NDArray[np.int64]:
    try:
        return np.array([labels[key] for key in keys], dtype=np.int64)
    except KeyError as error:
        raise DataError(f"{error.args[0]} is listed in {listed}, but has no label in {labelled}") from None


DATASET = Dataset(
    name=NAME,
    title="Clothing1M",
    source="https://github.com/Cysu/noisy_label",
    licence="research use, on request to its authors",
    bibtex="""@inproceedings{xiao2015learning,
  author = {Xiao, Tong and Xia, Tian and Yang, Yi and Huang, Chang and Wang, Xiaogang},
  title = {Learning from Massive Noisy Labeled Data for Image Classification},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition},
  year = {2015}
}""",
    kind="image files",
    classes=CLASSES,
    sources=tuple(
        Source(tuple(f"{annotations}{file}" for file in FILES), partial(read, annotations))
        for annotations in ("", "annotations/")
    ),
    prepare=prepare,
    settings=(Setting(NAME, RecordedNoise(), "resnet18", RECIPE, horizon=220, accuracy=68.73),),
    by_hand=(
        "Request the download link from its authors (see https://github.com/Cysu/noisy_label, section Clothing1M). "
        "Unpack the image archives so that {folder}/images holds the folders 0 to 9. Put noisy_label_kv.txt, "
        "clean_label_kv.txt and the four lists *_key_list.txt into {folder} or {folder}/annotations."
    ),
    paper=PaperRow(
        rows=1_035_163, features="mostly 256×256", transformed="224×224", classes=14, train=1_024_637, test=10_526
    ),
    pixels=Pixels(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), transforms="crop-flip-224"),
)
