import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from errata.datasets import loading
from errata.datasets.image_lists import check_images
from errata.datasets.locations import how_to_get, locate
from errata.datasets.noise_figures import noise_figure
from errata.datasets.sets import clothing1m, food101n
from errata.errors import DataError, MissingDataError

# Clothing1M.

NOISY = {
    "images/0/00/1,2.jpg": 3,
    "images/0/01/3,4.jpg": 13,
    "images/1/01/5,6&x y.jpg": 0,
    "images/2/02/both,right.jpg": 5,
    "images/2/03/both,wrong.jpg": 6,
    "images/2/04/both,test.jpg": 7,
}
CLEAN = {
    "images/2/02/both,right.jpg": 5,
    "images/2/03/both,wrong.jpg": 9,
    "images/2/04/both,test.jpg": 1,
    "images/3/00/clean only.jpg": 2,
    "images/3/01/test.jpg": 12,
}


def clothing_files():
    def pairs(labels):
        return "".join(f"{key} {label}\n" for key, label in labels.items())

    noisy, clean = list(NOISY), list(CLEAN)
    return {
        "noisy_label_kv.txt": pairs(NOISY),
        "clean_label_kv.txt": pairs(CLEAN),
        "noisy_train_key_list.txt": "\n".join(noisy[:3]),
        "clean_train_key_list.txt": "\n".join([clean[0], clean[3], clean[1]]) + "\n",
        "clean_val_key_list.txt": "",
        "clean_test_key_list.txt": "\n".join([clean[2], clean[4]]) + "\n",
    }


def write_clothing(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())
    put_images(folder.parent if folder.name == "annotations" else folder, NOISY | CLEAN)


def put_images(folder, keys):
    for key in keys:
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).touch()


@pytest.mark.parametrize("place", ["clothing1m", "clothing1m/annotations", "annotations", ""])
def test_clothing_has_the_noisy_list_and_images_with_both_labels(tmp_path, place):
    write_clothing(tmp_path / place, clothing_files())
    labelled = loading.load_setting("clothing1m", tmp_path)
    data = labelled.data
    trained = [*list(NOISY)[:3], "images/2/02/both,right.jpg", "images/2/03/both,wrong.jpg"]
    assert [path.decode() for path in data.train_inputs.tolist()] == trained
    assert labelled.given.tolist() == [NOISY[key] for key in trained]
    assert data.train_labels.tolist() == [-1, -1, -1, 5, 9]
    np.testing.assert_array_equal(labelled.truth, [np.nan, np.nan, np.nan, 0, 1])
    assert labelled.scored.tolist() == [3, 4]
    assert (labelled.noise["known"], labelled.noise["count"], labelled.noise["rate"]) == (2, 1, 0.5)
    assert [path.decode() for path in data.test_inputs.tolist()] == list(CLEAN)[2::2]
    assert data.test_labels.tolist() == [1, 12]
    assert data.root == (tmp_path / "clothing1m" if place.startswith("clothing1m") else tmp_path)
    assert not data.complete
    assert data.remarks[0].startswith("part of Clothing1M: 5 training images, 2 of them checked, 2 test images;")


def test_clothing_of_the_official_sizes_is_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(clothing1m, "OFFICIAL_SIZES", (5, 2, 2))
    write_clothing(tmp_path, clothing_files())
    data = loading.load("clothing1m", tmp_path)
    assert data.complete
    assert not data.remarks


def test_blank_and_repeated_lines_are_ignored(tmp_path):
    files = clothing_files()
    write_clothing(tmp_path / "plain" / "clothing1m", files)
    odd = {}
    for name, text in files.items():
        lines = text.split("\n")
        odd[name] = "\ufeff" * (name == "clean_label_kv.txt") + "\r\n".join(["", *lines, "  ", *lines]).rstrip()
    write_clothing(tmp_path / "odd" / "clothing1m", odd)
    plain, same = (loading.load("clothing1m", tmp_path / kind) for kind in ("plain", "odd"))
    assert plain.content_hash == same.content_hash


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        (
            "noisy_label_kv.txt",
            "images/x.jpg 14",
            r"noisy_label_kv\.txt: line 7 must hold a path and a class from 0 to 13",
        ),
        ("clean_label_kv.txt", "images/x.jpg -1", r"clean_label_kv\.txt: line 6 must hold"),
        ("clean_label_kv.txt", "images/x.jpg", r"clean_label_kv\.txt: line 6 must hold.*'images/x\.jpg'"),
        ("noisy_label_kv.txt", "images/0/00/1,2.jpg 4", r"line 7 has another class for images/0/00/1,2\.jpg"),
        (
            "noisy_train_key_list.txt",
            "\nimages/no.jpg",
            r"images/no\.jpg is listed in .*noisy_train.* no label in .*noisy_",
        ),
        (
            "clean_train_key_list.txt",
            "images/no.jpg",
            r"images/no\.jpg is listed in .*clean_train.* no label in .*clean_",
        ),
        (
            "clean_test_key_list.txt",
            "images/no.jpg",
            r"images/no\.jpg is listed in .*clean_test.* no label in .*clean_",
        ),
    ],
)
def test_an_invalid_line_of_clothing_is_named(tmp_path, name, line, message):
    files = clothing_files()
    write_clothing(tmp_path, files | {name: files[name] + line})
    with pytest.raises(DataError, match=message):
        loading.load("clothing1m", tmp_path)


def test_empty_and_binary_and_missing_lists_are_refused(tmp_path):
    write_clothing(tmp_path, clothing_files() | {"clean_test_key_list.txt": "\n\r\n"})
    with pytest.raises(DataError, match=r"clean_test_key_list\.txt is empty"):
        loading.load("clothing1m", tmp_path)
    (tmp_path / "clean_test_key_list.txt").write_bytes(b"images/1.jpg\n\xff\xfe")
    with pytest.raises(DataError, match=r"clean_test_key_list\.txt cannot be read: 'utf-8' codec"):
        loading.load("clothing1m", tmp_path)
    (tmp_path / "clean_test_key_list.txt").unlink()
    with pytest.raises(DataError, match=r"is incomplete: .*clean_test_key_list\.txt is missing"):
        loading.load("clothing1m", tmp_path)


# Food-101N.

LISTED = [
    "apple_pie/00ff.jpg",
    "apple_pie/01,a.jpg",
    "waffles/02ff.jpg",
    "filet_mignon/a49e.jpg",
    "waffles/03ff.jpg",
    "baklava/04ff.jpg",
]
TABLE = "class_name/key\tverification_label"


def food_files(release="Food-101N_release/"):
    return {
        f"{release}meta/imagelist.tsv": "\n".join(["class_name/key", *LISTED]),
        f"{release}meta/verified_train.tsv": "\n".join(
            [TABLE, f"{LISTED[0]}\t1", "hot_and_sour_soup/a49e.jpg\t0", f"{LISTED[1]}\t0", f"{LISTED[4]}\t0"]
        ),
        f"{release}meta/verified_val.tsv": f"{TABLE}\n{LISTED[2]}\t1\n",
    }


FOOD_101 = {
    "food-101/meta/test.txt": "waffles/7\nbaklava/123\n",
    "food-101/images/waffles/7.jpg": "",
    "food-101/images/baklava/123.jpg": "",
}


def write_food(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    for name in files:
        if name.endswith("meta/imagelist.tsv"):
            put_images(folder / name.removesuffix("meta/imagelist.tsv") / "images", LISTED)


@pytest.mark.parametrize("release", ["Food-101N_release/", ""])
@pytest.mark.parametrize("place", ["food101n", ""])
def test_verdicts_of_food_are_read(tmp_path, release, place):
    write_food(tmp_path / place, food_files(release) | FOOD_101)
    labelled = loading.load_setting("food101n", tmp_path)
    data = labelled.data
    assert [path.decode() for path in data.train_inputs.tolist()] == [f"{release}images/{key}" for key in LISTED]
    assert [data.classes[label] for label in labelled.given] == [key.split("/")[0] for key in LISTED]
    np.testing.assert_array_equal(labelled.truth, [0, 1, 0, np.nan, 1, np.nan])
    assert [data.classes[label] if label >= 0 else None for label in data.train_labels] == [
        "apple_pie",
        None,
        "waffles",
        None,
        None,
        None,
    ]
    assert data.root == tmp_path / place
    assert [path.decode() for path in data.test_inputs.tolist()] == [
        "food-101/images/waffles/7.jpg",
        "food-101/images/baklava/123.jpg",
    ]
    assert [data.classes[label] for label in data.test_labels] == ["waffles", "baklava"]
    assert data.remarks == (
        "hot_and_sour_soup/a49e.jpg of verified_train.tsv is not in the list of images and is ignored",
        "part of Food-101N: 6 of 310,009 images",
        "2 of 4 verified labels are wrong (50.00%)",
    )
    assert not data.complete


def test_food_without_food_101_has_no_test_images(tmp_path):
    write_food(tmp_path, food_files())
    data = loading.load("food101n", tmp_path)
    assert len(data.test_inputs) == len(data.test_labels) == 0
    assert "Food-101 is missing, so there are no test images" in data.remarks
    again = loading.load("food101n", tmp_path)
    assert again.remarks == data.remarks
    write_food(tmp_path, FOOD_101)
    assert len(loading.load("food101n", tmp_path).test_inputs) == 2


def test_blank_and_repeated_lines_of_food_are_ignored(tmp_path):
    files = food_files()
    write_food(tmp_path / "plain", files)
    odd = {name: "\r\n".join([*text.split("\n"), "", *text.split("\n")[1:]]) for name, text in files.items()}
    write_food(tmp_path / "odd", odd)
    plain, same = (loading.load("food101n", tmp_path / kind) for kind in ("plain", "odd"))
    assert plain.content_hash == same.content_hash


def test_contradicting_verdicts_are_ignored(tmp_path):
    files = food_files()
    files["Food-101N_release/meta/verified_val.tsv"] += f"{LISTED[0]}\t0\n"
    write_food(tmp_path, files)
    data = loading.load("food101n", tmp_path)
    assert data.wrong["real"].tolist() == [-1, 1, 0, -1, 1, -1]
    assert "the verdicts on apple_pie/00ff.jpg contradict each other and are ignored" in data.remarks


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        (
            "imagelist.tsv",
            "\nporridge/1.jpg",
            r"imagelist\.tsv: line 8 must hold CLASS/IMAGE .*'porridge/1\.jpg'",
        ),
        ("imagelist.tsv", "\nwaffles", r"imagelist\.tsv: line 8 must hold CLASS/IMAGE"),
        (
            "verified_val.tsv",
            f"{LISTED[0]}\t2",
            r"_val\.tsv: line 3 must hold an image and a verdict of 0 or 1",
        ),
        ("verified_val.tsv", f"{LISTED[0]}\t", r"_val\.tsv: line 3 must hold an image and a verdict of 0 or 1"),
    ],
)
def test_an_invalid_line_of_food_is_named(tmp_path, name, line, message):
    files = food_files()
    path = f"Food-101N_release/meta/{name}"
    write_food(tmp_path, files | {path: files[path] + line})
    with pytest.raises(DataError, match=message):
        loading.load("food101n", tmp_path)


def test_food_of_the_official_size_is_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(food101n, "OFFICIAL_SIZE", 6)
    write_food(tmp_path, food_files())
    assert loading.load("food101n", tmp_path).complete


def test_unchecked_classes_have_no_bar(tmp_path):
    write_food(tmp_path, food_files())
    (axes,) = noise_figure(loading.load_setting("food101n", tmp_path)).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["apple_pie", "waffles"]
    assert [bar.get_height() for bar in axes.patches] == [0.5, 0.5]
    assert axes.get_xlabel() == "99 of 101 classes without a checked label are omitted"


def test_there_are_101_dishes_in_order():
    assert len(set(food101n.CLASSES)) == 101
    assert list(food101n.CLASSES) == sorted(food101n.CLASSES)


# Both.


def test_missing_images_of_clothing_are_named(tmp_path):
    write_clothing(tmp_path, clothing_files())
    for key, listed in (("images/2/03/both,wrong.jpg", "noisy_train"), ("images/3/01/test.jpg", "clean_test")):
        (tmp_path / key).unlink()
        with pytest.raises(DataError, match=rf"{key} is missing, but .*{listed}_key_list\.txt lists it"):
            loading.load("clothing1m", tmp_path)
        (tmp_path / key).touch()
    shutil.rmtree(tmp_path / "images")
    with pytest.raises(DataError, match=r"folder .*images with the images listed in .*noisy_train_key_list\.txt is"):
        loading.load("clothing1m", tmp_path)


@pytest.mark.parametrize("release", ["Food-101N_release/", ""])
def test_missing_images_of_food_are_named(tmp_path, release):
    write_food(tmp_path, food_files(release) | FOOD_101)
    for key, listed in ((f"{release}images/{LISTED[3]}", r"imagelist\.tsv"), ("food-101/images/waffles/7.jpg", "test")):
        (tmp_path / key).unlink()
        with pytest.raises(DataError, match=rf"{key} is missing, but .*{listed}.* lists it"):
            loading.load("food101n", tmp_path)
        (tmp_path / key).touch()
    shutil.rmtree(tmp_path / release / "images")
    with pytest.raises(DataError, match=rf"folder .*{release}images with the images listed in .*imagelist.* is"):
        loading.load("food101n", tmp_path)


def test_a_few_images_of_a_long_list_are_checked(tmp_path):
    keys = [f"images/{number}.jpg" for number in range(10_000)]
    put_images(tmp_path, keys[:5000])
    with pytest.raises(DataError, match=r"\d\.jpg is missing") as caught:
        check_images(tmp_path, "images", keys, tmp_path / "list.txt")
    named = int(re.search(r"(\d+)\.jpg", str(caught.value))[1])
    assert 5000 <= named < 5000 + 10_000 / 19


@pytest.mark.parametrize("dataset", [clothing1m.DATASET, food101n.DATASET], ids=lambda dataset: dataset.name)
def test_a_missing_dataset_comes_with_instructions(dataset, tmp_path):
    with pytest.raises(MissingDataError, match="It cannot be downloaded automatically"):
        locate(dataset, tmp_path)
    assert str(tmp_path / dataset.name) in how_to_get(dataset, tmp_path)
    assert "{" not in how_to_get(replace(dataset, name="x"), tmp_path)
