"""Food-101N: 310,009 images of dishes, labelled by the recipe they were found with; some labels are verified."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from errata.datasets.image_lists import as_paths, check_images, numbered_lines
from errata.datasets.label_noise import RecordedNoise
from errata.datasets.spec import (
    UNKNOWN,
    Dataset,
    PaperRow,
    ParsedArrays,
    Pixels,
    PreparedArrays,
    Setting,
    Source,
    class_names,
)
from errata.errors import DataError
from errata.training.recipes import Recipe

NAME = "food101n"
CLASSES = class_names(NAME)
CODES = {name: code for code, name in enumerate(CLASSES)}
HEADER = "class_name/key"
META = ("meta/imagelist.tsv", "meta/verified_train.tsv", "meta/verified_val.tsv")
RELEASES = ("Food-101N_release/", "")  # the folder in the archive, or its content directly in the dataset's folder
TEST_IMAGES = "food-101/images"
TEST = ("food-101/meta/test.txt", TEST_IMAGES)
NO_TEST = "Food-101 is missing, so there are no test images"
OFFICIAL_SIZE = 310_009
SCHEDULE = ((0, 1.0), (200, 0.1))
RECIPE = Recipe(
    epochs=248, batch_size=64, learning_rate=0.04, weight_decay=5e-4, optimizer="sgd", schedule=SCHEDULE, parts=10
)
RIGHT, WRONG, UNVERIFIED = 0, 1, -1
VERDICTS = {"1": RIGHT, "0": WRONG}


def read(release: str, *paths: Path) -> ParsedArrays:
    """Read image paths, labels and verdicts on labels, and the test split of Food-101 if it is there.

    release: the folder of Food-101N below that of the dataset.
    """
    list_path, *verified_paths = paths[: len(META)]
    given = read_classes(list_path)
    verdicts, remarks = read_verdicts(verified_paths, given)
    test = read_classes(paths[len(META)]) if len(paths) > len(META) else {}
    if len(given) != OFFICIAL_SIZE:
        remarks.append(f"part of Food-101N: {len(given):,} of {OFFICIAL_SIZE:,} images")
    images = f"{release}images"
    root = list_path.parents[1 + release.count("/")]
    train_keys, test_keys = [f"{images}/{key}" for key in given], [f"{TEST_IMAGES}/{key}.jpg" for key in test]
    check_images(root, images, train_keys, list_path)
    if test:
        check_images(root, TEST_IMAGES, test_keys, paths[len(META)])
    arrays = {
        "train_inputs": as_paths(train_keys),
        "given": np.array(list(given.values()), dtype=np.int64),
        "wrong": np.array([verdicts.get(key, UNVERIFIED) for key in given], dtype=np.int8),
        "test_inputs": as_paths(test_keys),
        "test_labels": np.array(list(test.values()), dtype=np.int64),
    }
    return ParsedArrays(arrays, remarks=tuple(remarks), complete=len(given) == OFFICIAL_SIZE)


def read_classes(path: Path) -> dict[str, int]:
    """The class of each image of a list: the name of its folder."""
    classes = {}
    for number, key in numbered_lines(path, HEADER):
        folder, _, file = key.partition("/")
        if folder not in CODES or not file:
            raise DataError(f"{path}: line {number} must hold CLASS/IMAGE with one of the 101 classes, not {key!r}")
        classes[key] = CODES[folder]
    return classes


def read_verdicts(paths: Sequence[Path], listed: Mapping[str, int]) -> tuple[dict[str, int], list[str]]:
    """Whether the label of each verified image is wrong, and remarks. Contradicting verdicts count as unverified."""
    verdicts: dict[str, int] = {}
    strays, disputed = {}, {}
    for path in paths:
        for number, line in numbered_lines(path, HEADER):
            key, _, verdict = line.rpartition("\t")
            if not key or verdict not in VERDICTS:
                raise DataError(f"{path}: line {number} must hold an image and a verdict of 0 or 1, not {line!r}")
            if key not in listed:
                strays[key] = path
            elif verdicts.setdefault(key, VERDICTS[verdict]) != VERDICTS[verdict]:
                disputed[key] = UNVERIFIED
    remarks = [f"{key} of {path.name} is not in the list of images and is ignored" for key, path in strays.items()]
    remarks += [f"the verdicts on {key} contradict each other and are ignored" for key in disputed]
    return verdicts | disputed, remarks


def prepare(parsed: ParsedArrays) -> PreparedArrays:
    """The true class is known only for labels that are verified to be right."""
    given, wrong = parsed.arrays["given"], parsed.arrays["wrong"]
    verified, count = int((wrong != UNVERIFIED).sum()), int((wrong == WRONG).sum())
    arrays = {
        "train_inputs": parsed.arrays["train_inputs"],
        "train_labels": np.where(wrong == RIGHT, given, UNKNOWN),
        "test_inputs": parsed.arrays["test_inputs"],
        "test_labels": parsed.arrays["test_labels"],
        "given:real": given,
        "wrong:real": wrong,
    }
    rate = f"{count:,} of {verified:,} verified labels are wrong ({count / max(1, verified):.2%})"
    return PreparedArrays(arrays, remarks=(rate,))


DATASET = Dataset(
    name=NAME,
    title="Food-101N",
    source="https://kuanghuei.github.io/Food-101N/",
    licence="research use",
    bibtex="""@inproceedings{lee2018cleannet,
  author = {Lee, Kuang-Huei and He, Xiaodong and Zhang, Lei and Yang, Linjun},
  title = {{CleanNet}: Transfer Learning for Scalable Image Classifier Training with Label Noise},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition},
  year = {2018}
}""",
    kind="image files",
    classes=CLASSES,
    sources=tuple(
        Source((*(f"{release}{file}" for file in META), *test_files), partial(read, release), remark=remark)
        for test_files, remark in ((TEST, ""), ((), NO_TEST))
        for release in RELEASES
    ),
    prepare=prepare,
    settings=(Setting(NAME, RecordedNoise(), "resnet34", RECIPE, horizon=300, accuracy=77.92),),
    by_hand=(
        "Download Food-101N_release.zip from https://kuanghuei.github.io/Food-101N/ and unpack it so that "
        "{folder}/Food-101N_release holds the folders images and meta. For the test images, download food-101.tar.gz "
        "from https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/ and unpack it so that {folder}/food-101 "
        "holds the folders images and meta."
    ),
    # the paper prints 285K / 25K, but the test images are those of Food-101, not a part of the 310K
    paper=PaperRow(
        rows=310_009, features="320–512 px typical", transformed="128×128", classes=101, train=310_009, test=25_250
    ),
    pixels=Pixels(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), transforms="resized-crop-128"),
)
