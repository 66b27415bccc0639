import hashlib
import pickle
import sys
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from errata.datasets import labelled, loading, registry
from errata.datasets.cifar_files import cifar_sources
from errata.datasets.human_labels import prepare_human_labels
from errata.datasets.mosaics import mosaic_names, read_mosaics, unmosaic
from errata.datasets.sets import cifar10, cifar10n, cifar100, cifar100n
from errata.datasets.spec import Prepared
from errata.datasets.where import locate
from errata.errors import DataError, InputError
from errata.readers.hashing import array_hash

TRAIN, TEST = 60, 12  # 5 batches and 10 mosaics divide the one, 2 mosaics the other


def made_up_images(classes):
    """Arrays of a small CIFAR, in which no two images are alike."""
    random = np.random.default_rng(classes)
    return {
        "train_inputs": random.integers(0, 256, (TRAIN, 3, 32, 32), dtype=np.uint8),
        "train_labels": random.integers(0, classes, TRAIN),
        "test_inputs": random.integers(0, 256, (TEST, 3, 32, 32), dtype=np.uint8),
        "test_labels": random.integers(0, classes, TEST),
    }


def write_folder(folder, layout, arrays, key=str.encode, protocol=2):
    """The official layout."""
    (folder / layout.folder).mkdir(parents=True)
    count = len(layout.train)
    parts = list(zip(np.split(arrays["train_inputs"], count), np.split(arrays["train_labels"], count), strict=True))
    parts.append((arrays["test_inputs"], arrays["test_labels"]))
    for name, (images, labels) in zip((*layout.train, layout.test), parts, strict=True):
        content = {key("data"): images.reshape(len(images), -1), key(layout.labels): labels.tolist()}
        (folder / layout.folder / name).write_bytes(pickle.dumps(content, protocol=protocol))


def write_archive(folder, layout, arrays):
    write_folder(folder / "unpacked", layout, arrays)
    with tarfile.open(folder / layout.archive, "w:gz") as archive:
        archive.add(folder / "unpacked" / layout.folder, layout.folder)


def write_mosaics(folder, layout, arrays):
    """Images side by side, a few in a row, drawn one after the other."""
    folder.mkdir(exist_ok=True)
    for part, pictures, columns in (("train", 10, 3), ("test", 2, 2)):
        for number, images in enumerate(np.split(arrays[f"{part}_inputs"], pictures)):
            picture = Image.new("RGB", (columns * 32, len(images) // columns * 32))
            for place, image in enumerate(images):
                tile = Image.fromarray(image.transpose(1, 2, 0))
                picture.paste(tile, (place % columns * 32, place // columns * 32))
            picture.save(folder / f"{part}_{number:02d}.webp", lossless=True)
    labels = {part: arrays[f"{part}_labels"].astype(np.uint8) for part in ("train", "test")}
    np.savez_compressed(folder / "labels.npz", **labels)


FORMS = {"folder": write_folder, "archive": write_archive, "mosaics": write_mosaics}


def same_arrays(found, expected):
    for name, array in expected.items():
        values = np.asarray(getattr(found, name))
        assert values.dtype == array.dtype
        np.testing.assert_array_equal(values, array)


def small_sources(layout):
    """The sources of a CIFAR that has as few images as the made-up ones."""
    train = len(layout.train)
    return cifar_sources(replace(layout, rows=(TRAIN // train,) * train + (TEST,)))


@pytest.fixture(params=[cifar10, cifar100], ids=["cifar10", "cifar100"])
def small(request, monkeypatch):
    """A CIFAR whose official content is a small made-up one: the module, and that content."""
    arrays = made_up_images(len(request.param.CLASSES))
    hashes = {name: array_hash(array) for name, array in arrays.items()}
    dataset = replace(request.param.DATASET, hashes=hashes, sources=small_sources(request.param.LAYOUT))
    known = registry.datasets() | {request.param.NAME: dataset}
    monkeypatch.setattr(registry, "datasets", lambda: known)
    return request.param, arrays


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("own_folder", [True, False])
def test_every_form_gives_the_same_arrays(small, tmp_path, form, own_folder):
    module, arrays = small
    place = tmp_path / module.NAME if own_folder else tmp_path
    place.mkdir(exist_ok=True)
    FORMS[form](place, module.LAYOUT, arrays)
    data = loading.load(module.NAME, tmp_path)
    same_arrays(data, arrays)
    assert data.complete
    assert data.num_classes == len(module.CLASSES)
    assert data.pixels == module.PIXELS


def test_pickles_may_be_of_python_3_and_keys_text(small, tmp_path):
    module, arrays = small
    write_folder(tmp_path, module.LAYOUT, arrays, key=str, protocol=5)
    same_arrays(loading.load(module.NAME, tmp_path), arrays)


def test_other_content_is_not_the_official_one(small, tmp_path):
    module, arrays = small
    swapped = arrays | {"train_labels": arrays["train_labels"][::-1]}
    write_folder(tmp_path, module.LAYOUT, swapped)
    with pytest.raises(DataError, match=rf"is not the official {module.NAME}: the hash of train_labels"):
        loading.load(module.NAME, tmp_path)


def test_a_batch_that_is_not_there_is_named(small, tmp_path):
    module, arrays = small
    write_folder(tmp_path, module.LAYOUT, arrays)
    (tmp_path / module.LAYOUT.folder / module.LAYOUT.test).unlink()
    with pytest.raises(DataError, match=rf"{module.NAME} is only partly there: .*{module.LAYOUT.test} is missing"):
        loading.load(module.NAME, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.pop(b"labels"), "has no entry 'labels'"),
        (lambda content: content.update({b"data": content[b"data"][:, :-1]}), "'data' must be rows of 3072 bytes"),
        (lambda content: content.update({b"data": [1, 2]}), "'data' must be rows of 3072 bytes"),
        (lambda content: content[b"labels"].pop(), "'labels' must be 12 numbers from 0 to 9"),
        (lambda content: content[b"labels"].__setitem__(3, 10), "'labels' must be 12 numbers from 0 to 9"),
        (lambda content: None, "has 12 rows, not 11"),
    ],
)
def test_a_batch_that_is_not_what_it_should_be_is_named(tmp_path, monkeypatch, change, message):
    sources = cifar_sources(replace(cifar10.LAYOUT, rows=(12, 12, 11, 12, 12, 12)))
    known = {"cifar10": replace(cifar10.DATASET, sources=sources)}
    monkeypatch.setattr(registry, "datasets", lambda: known)
    write_folder(tmp_path, cifar10.LAYOUT, made_up_images(10))
    path = tmp_path / cifar10.LAYOUT.path("data_batch_3")
    content = pickle.loads(path.read_bytes())
    change(content)
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=f"data_batch_3.*{message}"):
        loading.load("cifar10", tmp_path)


def test_a_batch_that_is_there_twice_is_named(tmp_path, monkeypatch):
    known = {"cifar10": replace(cifar10.DATASET, sources=small_sources(cifar10.LAYOUT))}
    monkeypatch.setattr(registry, "datasets", lambda: known)
    write_folder(tmp_path, cifar10.LAYOUT, made_up_images(10))
    second, third = (tmp_path / cifar10.LAYOUT.path(f"data_batch_{number}") for number in (2, 3))
    third.write_bytes(second.read_bytes())
    with pytest.raises(DataError, match=r"data_batch_3 holds the same images as .*data_batch_2$"):
        loading.load("cifar10", tmp_path)


@pytest.mark.parametrize("content", [b"", b"garbage " * 500])
def test_what_is_no_archive_at_all_is_one_short_sentence(tmp_path, content):
    (tmp_path / cifar10.LAYOUT.archive).write_bytes(content)
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz is not a whole archive: ") as caught:
        loading.load("cifar10", tmp_path)
    said = str(caught.value).replace(str(tmp_path), "")
    assert "\n" not in said
    assert len(said) < 100


def test_mosaics_need_pillow(tmp_path, monkeypatch):
    write_mosaics(tmp_path, cifar10.LAYOUT, made_up_images(10))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(InputError, match=r"train_00\.webp needs pillow: pip install 'errata\[data\]'$"):
        loading.load("cifar10", tmp_path)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
def test_a_half_downloaded_archive_is_refused(tmp_path, share):
    write_archive(tmp_path, cifar10.LAYOUT, made_up_images(10))
    path = tmp_path / cifar10.LAYOUT.archive
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz is not a whole archive"):
        loading.load("cifar10", tmp_path)


def test_an_archive_of_something_else_is_refused(tmp_path):
    write_archive(tmp_path, cifar100.LAYOUT, made_up_images(100))
    (tmp_path / cifar100.LAYOUT.archive).rename(tmp_path / cifar10.LAYOUT.archive)
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz holds no cifar-10-batches-py/data_batch_1"):
        loading.load("cifar10", tmp_path)


def test_a_mosaic_that_cannot_be_read_is_named(tmp_path):
    write_mosaics(tmp_path, cifar10.LAYOUT, made_up_images(10))
    paths = [tmp_path / name for name in mosaic_names(10, 2)]
    labels = bytearray(paths[-1].read_bytes())
    labels[60:120] = bytes(60)  # in what is compressed: the archive itself stays whole
    paths[-1].write_bytes(labels)
    with pytest.raises(DataError, match=r"labels\.npz cannot be read"):
        read_mosaics(paths)
    np.savez(paths[-1], train=np.zeros(TRAIN, dtype=np.uint8), test=np.zeros(TEST + 1, dtype=np.uint8))
    with pytest.raises(DataError, match=r"labels\.npz has 13 test labels for 12 images"):
        read_mosaics(paths)
    paths[-1].write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"labels\.npz cannot be read"):
        read_mosaics(paths)
    paths[3].write_bytes(paths[3].read_bytes()[:500])
    with pytest.raises(DataError, match=r"train_03\.webp cannot be read"):
        unmosaic(paths[3])
    Image.new("RGB", (64, 40)).save(paths[4])
    with pytest.raises(DataError, match=r"train_04\.webp is 64 x 40 pixels, not whole tiles"):
        unmosaic(paths[4])


# Human labels.


def base_of(module, labels):
    images = np.zeros((len(labels), 3, 32, 32), dtype=np.uint8)
    nothing = images[:0], labels[:0]
    return Prepared(module.NAME, "images", module.CLASSES, images, labels, *nothing)


def write_human_labels(path, columns):
    import torch

    torch.save(columns, path)


def human_labels(count=200):
    """Columns as in the file: each has a fifth of its labels wrong."""
    random = np.random.default_rng(5)
    clean = random.integers(0, 10, count)
    names = ("aggre_label", "worse_label", "random_label1", "random_label2", "random_label3")
    noisy = {name: np.where(random.random(count) < 0.2, (clean + 1) % 10, clean) for name in names}
    return {"clean_label": clean, **noisy}


def test_human_labels_are_given_and_compared_with_the_true_ones(tmp_path):
    columns = human_labels()
    write_human_labels(tmp_path / cifar10n.FILE, columns)
    raw = cifar10n.DATASET.sources[0].read([tmp_path / cifar10n.FILE])
    made = prepare_human_labels(raw, base_of(cifar10, columns["clean_label"])).arrays
    assert len(made) == 2 * len(cifar10n.COLUMNS)
    for name, key in cifar10n.COLUMNS.items():
        np.testing.assert_array_equal(made[f"given:{name}"], columns[key])
        expected = [int(given != true) for given, true in zip(columns[key], columns["clean_label"], strict=True)]
        assert made[f"wrong:{name}"].tolist() == expected


def test_cifar10n_borrows_the_images_of_cifar10(tmp_path, monkeypatch):
    arrays = made_up_images(10)
    columns = human_labels(TRAIN) | {"clean_label": arrays["train_labels"]}
    write_folder(tmp_path / "cifar10", cifar10.LAYOUT, arrays)
    (tmp_path / "cifar10n").mkdir()
    write_human_labels(tmp_path / "cifar10n" / cifar10n.FILE, columns)
    unverified = {
        "cifar10": replace(cifar10.DATASET, hashes={}, sources=small_sources(cifar10.LAYOUT)),
        "cifar10n": replace(cifar10n.DATASET, hashes={}),
    }
    known = registry.datasets() | unverified
    monkeypatch.setattr(registry, "datasets", lambda: known)
    worse = labelled.load_setting("cifar10n-worse", tmp_path)
    same_arrays(worse.data, arrays)
    np.testing.assert_array_equal(worse.given, columns["worse_label"])
    np.testing.assert_array_equal(worse.truth, columns["worse_label"] != arrays["train_labels"])
    assert worse.noise["count"] == worse.truth.sum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda columns: columns["clean_label"].__setitem__(7, (columns["clean_label"][7] + 1) % 10),
            "first in row 7 ",
        ),
        (
            lambda columns: columns.update(worse_label=columns["worse_label"][:-1]),
            "199 worse labels for the 200 images",
        ),
        (
            lambda columns: columns["worse_label"].__setitem__(9, 10),
            "worse label 10 of row 9 is none of the 10 classes",
        ),
        (lambda columns: columns.pop("random_label2"), r"CIFAR-10_human\.pt has no whole numbers 'random_label2'"),
        (lambda columns: columns.update(aggre_label=np.zeros(200)), r"has no whole numbers 'aggre_label'"),
    ],
)
def test_human_labels_of_other_images_are_refused(tmp_path, change, message):
    columns = human_labels()
    base = base_of(cifar10, columns["clean_label"].copy())
    change(columns)
    write_human_labels(tmp_path / cifar10n.FILE, columns)
    with pytest.raises(DataError, match=message):
        prepare_human_labels(cifar10n.DATASET.sources[0].read([tmp_path / cifar10n.FILE]), base)


# The real files.


def test_real_cifar10n_has_the_noise_of_the_paper(real_data):
    found = locate(cifar10n.DATASET, real_data)
    raw = loading.read_verified(cifar10n.DATASET, found)
    clean = raw.arrays["clean"]
    made = prepare_human_labels(raw, base_of(cifar10, clean)).arrays
    rates = {name: made[f"wrong:{name}"].mean() for name in cifar10n.COLUMNS}
    assert rates == pytest.approx(
        {"aggregate": 0.0901, "worse": 0.40208, "random1": 0.17234, "random2": 0.18122, "random3": 0.1764}
    )
    assert array_hash(clean) == cifar10.DATASET.hashes["train_labels"]


def test_real_cifar100_and_its_human_labels(real_data):
    data = loading.load("cifar100", real_data)
    assert data.complete
    # recorded with the files, over pixels and labels of both parts; independent of how errata reads them
    expected = {
        "train": "4e50520a1125d045fade68001374cf6c74e360819dc08b7ecffe4e6c79e9b419",
        "test": "dc66669533e5da36cbeb472b8e2af54edcb17f1d9736fdbd5fede79d08f46b2f",
    }
    for part, digest in expected.items():
        images, labels = getattr(data, f"{part}_inputs"), getattr(data, f"{part}_labels")
        content = images.tobytes() + labels.astype(np.uint8).tobytes()
        assert hashlib.sha256(content).hexdigest() == digest
    assert [data.classes[label] for label in data.train_labels[:5]] == [
        "cattle",
        "dinosaur",
        "apple",
        "boy",
        "aquarium_fish",
    ]
    noisy = labelled.load_setting("cifar100n-noisy", real_data)
    assert noisy.noise["rate"] == pytest.approx(0.402)
    assert noisy.data.train_inputs.shape == (50_000, 3, 32, 32)
    assert not noisy.setting.in_paper
    assert cifar100n.DATASET.paper is None
