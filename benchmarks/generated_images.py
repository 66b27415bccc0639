"""Generate a small Clothing1M or Food-101N: the layout of the official files, generated pictures, known wrong labels.

    python benchmarks/generated_images.py clothing1m FOLDER --images 2000
    ERRATA_DATA=FOLDER errata data check clothing1m
    ERRATA_DATA=FOLDER errata bench run --setting clothing1m --gathering in-sample --seeds 1

Both datasets have to be requested or downloaded by hand. The generated ones show that every step from the first byte to
the table works, and how long a picture takes. A class is a colour, a direction and a width of stripes.
"""

import argparse
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from errata.datasets.sets import clothing1m, food101n

Pixels = NDArray[np.uint8]
CLOTHING_SHARES = {"noisy": 0.7, "both": 0.15, "val": 0.05, "test": 0.1}
CLOTHING_WRONG, FOOD_WRONG = 0.38, 0.184  # the shares of wrong labels in the official data
VERIFIED = 0.25
CLOTHING_SIDE = 256
FOOD_SIDES = (320, 512)


def picture(label: int, classes: int, height: int, width: int, rng: np.random.Generator) -> Pixels:
    """A picture (height, width, 3) of a class: coloured stripes with random phase, brightness and noise."""
    angle = np.pi * (label % 7) / 7
    period = 12 + 9 * (label % 4)
    rows, columns = np.mgrid[:height, :width]
    stripes = np.sin(2 * np.pi * (rows * np.cos(angle) + columns * np.sin(angle)) / period + rng.uniform(0, 6.3))
    hue = 2 * np.pi * (label / classes + np.arange(3) / 3)
    colour = 128 + 70 * np.cos(hue)
    pixels = colour * rng.uniform(0.7, 1.2) + 45 * stripes[..., None] + rng.normal(0, 20, (height, width, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8)


def save(pixels: Pixels, path: Path) -> None:
    """Write a JPEG file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, quality=90)


def spoiled(labels: NDArray[np.int64], classes: int, share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """The labels (N,) with a share of them replaced by another class."""
    wrong = rng.random(len(labels)) < share
    return np.where(wrong, (labels + rng.integers(1, classes, len(labels))) % classes, labels)


def write_clothing(folder: Path, images: int, rng: np.random.Generator) -> None:
    """Clothing1M: key lists, and files with noisy and with clean labels; names contain commas."""
    classes = len(clothing1m.CLASSES)
    counts = {part: round(images * share) for part, share in CLOTHING_SHARES.items()}
    true = rng.integers(0, classes, sum(counts.values()))
    given = spoiled(true, classes, CLOTHING_WRONG, rng)
    numbers = rng.integers(10**9, 10**10, (len(true), 2))
    keys = [f"images/{first % 10}/{first % 100:02d}/{first},{second}.jpg" for first, second in numbers.tolist()]
    for key, label in zip(keys, true.tolist(), strict=True):
        save(picture(label, classes, CLOTHING_SIDE, CLOTHING_SIDE, rng), folder / key)
    rows = np.split(np.arange(len(true)), np.cumsum(list(counts.values()))[:-1])
    noisy, both, val, test = (part.tolist() for part in rows)
    lists = {
        "noisy_label_kv.txt": _lines(f"{keys[row]} {given[row]}" for row in [*noisy, *both]),
        "clean_label_kv.txt": _lines(f"{keys[row]} {true[row]}" for row in [*both, *val, *test]),
        "noisy_train_key_list.txt": _lines(keys[row] for row in noisy),
        "clean_train_key_list.txt": _lines(keys[row] for row in both),
        "clean_val_key_list.txt": _lines(keys[row] for row in val),
        "clean_test_key_list.txt": _lines(keys[row] for row in test),
        "category_names_eng.txt": "\n".join(clothing1m.CLASSES),
    }
    for name, text in lists.items():
        (folder / name).write_text(text, encoding="utf-8")


def write_food(folder: Path, images: int, rng: np.random.Generator) -> None:
    """Food-101N and the test part of Food-101: the folder of an image is its given label, a quarter are verified."""
    classes = len(food101n.CLASSES)
    release, tests = folder / "Food-101N_release", folder / "food-101"
    true = np.arange(images) % classes
    given = spoiled(true, classes, FOOD_WRONG, rng)
    verified: list[str] = []
    keys: list[str] = []
    for row, (label, named) in enumerate(zip(true.tolist(), given.tolist(), strict=True)):
        keys.append(f"{food101n.CLASSES[named]}/{hashlib.md5(str(row).encode()).hexdigest()}.jpg")
        save(picture(label, classes, *_food_size(rng), rng), release / "images" / keys[-1])
        if rng.random() < VERIFIED:
            verified.append(f"{keys[-1]}\t{int(label == named)}")
    (release / "meta").mkdir()
    half = len(verified) * 9 // 10
    header = f"{food101n.HEADER}\tverification_label"
    _write_lines(release / "meta/classes.txt", ["class_name", *food101n.CLASSES])
    _write_lines(release / "meta/imagelist.tsv", [food101n.HEADER, *keys])
    _write_lines(release / "meta/verified_train.tsv", [header, *verified[:half]])
    _write_lines(release / "meta/verified_val.tsv", [header, *verified[half:]])
    names = [f"{name}/{1000 + number}" for number, name in enumerate(food101n.CLASSES)]
    for label, name in enumerate(names):
        save(picture(label, classes, *_food_size(rng), rng), tests / "images" / f"{name}.jpg")
    (tests / "meta").mkdir()
    _write_lines(tests / "meta/test.txt", names)


def _food_size(rng: np.random.Generator) -> Iterator[int]:
    """Height and width: one side is 512, as in Food-101."""
    sides = [FOOD_SIDES[1], int(rng.integers(*FOOD_SIDES))]
    return iter(sides if rng.random() < 0.5 else sides[::-1])


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def _write_lines(path: Path, texts: Iterable[str]) -> None:
    path.write_text(_lines(texts), encoding="utf-8")


WRITERS = {clothing1m.NAME: write_clothing, food101n.NAME: write_food}


def main() -> None:
    """Write one of the datasets below a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=WRITERS)
    parser.add_argument("folder", type=Path, help="the folder for $ERRATA_DATA; the dataset gets a folder in it")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = arguments.folder / arguments.dataset
    WRITERS[arguments.dataset](folder, arguments.images, np.random.default_rng(arguments.seed))
    print(f"wrote {folder}")


if __name__ == "__main__":
    main()
