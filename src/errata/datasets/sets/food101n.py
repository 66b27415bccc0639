"""Food-101N: 310,009 pictures of dishes, labelled by the recipe they were found with; some labels were verified."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from errata.datasets.key_files import as_paths, check_images, numbered_lines
from errata.datasets.settings import Recorded, Setting
from errata.datasets.spec import UNKNOWN, Content, Dataset, PaperRow, Pixels, Prepared, Raw, Source
from errata.errors import DataError
from errata.training.recipes import Recipe

NAME = "food101n"
CLASS_NAMES = """
apple_pie baby_back_ribs baklava beef_carpaccio beef_tartare beet_salad beignets bibimbap bread_pudding
breakfast_burrito bruschetta caesar_salad cannoli caprese_salad carrot_cake ceviche cheese_plate cheesecake
chicken_curry chicken_quesadilla chicken_wings chocolate_cake chocolate_mousse churros clam_chowder club_sandwich
crab_cakes creme_brulee croque_madame cup_cakes deviled_eggs donuts dumplings edamame eggs_benedict escargots
falafel filet_mignon fish_and_chips foie_gras french_fries french_onion_soup french_toast fried_calamari fried_rice
frozen_yogurt garlic_bread gnocchi greek_salad grilled_cheese_sandwich grilled_salmon guacamole gyoza hamburger
hot_and_sour_soup hot_dog huevos_rancheros hummus ice_cream lasagna lobster_bisque lobster_roll_sandwich
macaroni_and_cheese macarons miso_soup mussels nachos omelette onion_rings oysters pad_thai paella pancakes
panna_cotta peking_duck pho pizza pork_chop poutine prime_rib pulled_pork_sandwich ramen ravioli red_velvet_cake
risotto samosa sashimi scallops seaweed_salad shrimp_and_grits spaghetti_bolognese spaghetti_carbonara
spring_rolls steak strawberry_shortcake sushi tacos takoyaki tiramisu tuna_tartare waffles
"""
CLASSES = tuple(CLASS_NAMES.split())
CODES = {name: code for code, name in enumerate(CLASSES)}
HEADER = "class_name/key"
META = ("meta/imagelist.tsv", "meta/verified_train.tsv", "meta/verified_val.tsv")
RELEASES = ("Food-101N_release/", "")  # as it is unpacked, or what is in it put straight into the folder
TEST_IMAGES = "food-101/images"
TEST = ("food-101/meta/test.txt", TEST_IMAGES)
NO_TEST = "without Food-101 beside it there is nothing to test on"
OFFICIAL_SIZE = 310_009
RIGHT, WRONG, UNVERIFIED = 0, 1, -1
VERDICTS = {"1": RIGHT, "0": WRONG}


def read(release: str, paths: Sequence[Path]) -> Raw:
    """Paths below the place of the release, given labels, and what is known of them; Food-101's test split if there."""
    list_path, *verified_paths = paths[: len(META)]
    given = read_classes(list_path)
    verdicts, remarks = read_verdicts(verified_paths, given)
    test = read_classes(paths[len(META)]) if len(paths) > len(META) else {}
    if len(given) != OFFICIAL_SIZE:
        remarks.append(f"a part of Food-101N: {len(given):,} of {OFFICIAL_SIZE:,} images")
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
    return Raw(arrays, remarks=tuple(remarks), complete=len(given) == OFFICIAL_SIZE)


def read_classes(path: Path) -> dict[str, int]:
    """The class of each image of a list: the folder it lies in."""
    classes = {}
    for number, key in numbered_lines(path, HEADER):
        folder, _, file = key.partition("/")
        if folder not in CODES or not file:
            raise DataError(f"{path}: line {number} is not an image in the folder of one of the 101 classes: {key!r}")
        classes[key] = CODES[folder]
    return classes


def read_verdicts(paths: Sequence[Path], listed: Mapping[str, int]) -> tuple[dict[str, int], list[str]]:
    """Whether the label of each verified image is wrong, and what is odd about the lists.

    Nothing is known of an image with verdicts that contradict each other.
    """
    verdicts: dict[str, int] = {}
    strays, disputed = {}, {}
    for path in paths:
        for number, line in numbered_lines(path, HEADER):
            key, _, verdict = line.rpartition("\t")
            if not key or verdict not in VERDICTS:
                raise DataError(f"{path}: line {number} is not an image and a verdict of 0 or 1: {line!r}")
            if key not in listed:
                strays[key] = path
            elif verdicts.setdefault(key, VERDICTS[verdict]) != VERDICTS[verdict]:
                disputed[key] = UNVERIFIED
    remarks = [f"{key} of {path.name} is not in the list of images and was left out" for key, path in strays.items()]
    remarks += [f"the verdicts on {key} contradict each other and were left out" for key in disputed]
    return verdicts | disputed, remarks


def prepare(raw: Raw, base: Prepared | None) -> Content:
    """Of a label that is verified to be right the true class is known, of one that is wrong it is not."""
    given, wrong = raw.arrays["given"], raw.arrays["wrong"]
    verified, count = int((wrong != UNVERIFIED).sum()), int((wrong == WRONG).sum())
    arrays = {
        "train_inputs": raw.arrays["train_inputs"],
        "train_labels": np.where(wrong == RIGHT, given, UNKNOWN),
        "test_inputs": raw.arrays["test_inputs"],
        "test_labels": raw.arrays["test_labels"],
        "given:real": given,
        "wrong:real": wrong,
    }
    rate = f"{count:,} of {verified:,} verified labels are wrong ({count / max(1, verified):.2%})"
    return Content(arrays, remarks=(rate,))


def _sources() -> tuple[Source, ...]:
    """With Food-101 beside it first, else without."""
    found = []
    for extra, remark in ((TEST, ""), ((), NO_TEST)):
        found += [
            Source((*(f"{release}{file}" for file in META), *extra), partial(read, release), remark=remark)
            for release in RELEASES
        ]
    return tuple(found)


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
    sources=_sources(),
    prepare=prepare,
    settings=(
        Setting(
            NAME,
            Recorded(),
            "resnet34",
            Recipe(
                epochs=248,
                batch_size=64,
                learning_rate=0.04,
                weight_decay=5e-4,
                optimizer="sgd",
                momentum=0.0,
                schedule=((0, 1.0), (200, 0.1)),
                parts=10,
            ),
            horizon=300,
            accuracy=77.92,
        ),
    ),
    by_hand=(
        "Download Food-101N_release.zip from https://kuanghuei.github.io/Food-101N/ and unpack it so that "
        "{folder}/Food-101N_release holds the folders images and meta. To test on, download food-101.tar.gz from "
        "https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/ and unpack it so that {folder}/food-101 holds the "
        "folders images and meta."
    ),
    # the paper prints 285K / 25K, as if the test images were some of the 310K; they are Food-101's own
    paper=PaperRow(
        rows=310_009, features="320–512 px typical", transformed="128×128", classes=101, train=310_009, test=25_250
    ),
    pixels=Pixels(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), transforms="resized-crop-128"),
)
