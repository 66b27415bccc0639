import hashlib
import pickle
import sys
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from errata.datasets import loading, registry
from errata.datasets.cifar_files import MOSAIC_FILES, prepare_human_labels, read_mosaics, unmosaic
from errata.datasets.locations import locate
from errata.datasets.sets import cifar10, cifar10n, cifar100, cifar100n
from errata.datasets.spec import PreparedData
from errata.errors import DataError, InputError
from errata.readers.hashing import array_hash

TRAIN, TEST = 60, 12  # 5 batches and 10 mosaics divide the one, 2 mosaics the other


def synthetic_images(classes):
    """Arrays of a small CIFAR without duplicate images."""
    random = np.random.default_rng(classes)
    return {
        "train_inputs": random.integers(0, 256, (TRAIN, 3, 32, 32), dtype=np.uint8),
        "train_labels": random.integers(0, classes, TRAIN),
        "test_inputs": random.integers(0, 256, (TEST, 3, 32, 32), dtype=np.uint8),
        "test_labels": random.integers(0, classes, TEST),
    }


def write_folder(folder, release, arrays, key=str.encode, protocol=2):
    """Write the unpacked official archive."""
    (folder / release.folder).mkdir(parents=True)
    count = len(release.batches) - 1
    parts = list(zip(np.split(arrays["train_inputs"], count), np.split(arrays["train_labels"], count), strict=True))
    parts.append((arrays["test_inputs"], arrays["test_labels"]))
    for name, (images, labels) in zip(release.batches, parts, strict=True):
        content = {key("data"): images.reshape(len(images), -1), key(release.labels): labels.tolist()}
        (folder / release.folder / name).write_bytes(pickle.dumps(content, protocol=protocol))


def write_archive(folder, release, arrays):
    """Write the official archive."""
    write_folder(folder / "unpacked", release, arrays)
    with tarfile.open(folder / release.archive, "w:gz") as archive:
        archive.add(folder / "unpacked" / release.folder, release.folder)


def write_mosaics(folder, release, arrays):
    """Write pictures with a few images per row."""
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


def small_sources(release):
    """The sources of a CIFAR with as few images as the synthetic ones."""
    train = len(release.batches) - 1
    return replace(release, rows=(TRAIN // train,) * train + (TEST,)).sources


@pytest.fixture(params=[cifar10, cifar100], ids=["cifar10", "cifar100"])
def small(request, monkeypatch):
    """A CIFAR module whose official content is small and synthetic, and that content."""
    arrays = synthetic_images(len(request.param.CLASSES))
    hashes = {name: array_hash(array) for name, array in arrays.items()}
    dataset = replace(request.param.DATASET, hashes=hashes, sources=small_sources(request.param.RELEASE))
    known = registry.datasets() | {request.param.NAME: dataset}
    monkeypatch.setattr(registry, "datasets", lambda: known)
    return request.param, arrays


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("own_folder", [True, False])
def test_every_source_gives_the_same_arrays(small, tmp_path, form, own_folder):
    module, arrays = small
    place = tmp_path / module.NAME if own_folder else tmp_path
    place.mkdir(exist_ok=True)
    FORMS[form](place, module.RELEASE, arrays)
    data = loading.load(module.NAME, tmp_path)
    same_arrays(data, arrays)
    assert data.complete
    assert data.num_classes == len(module.CLASSES)
    assert data.pixels == module.PIXELS


def test_pickles_of_python_3_with_text_keys_are_read(small, tmp_path):
    module, arrays = small
    write_folder(tmp_path, module.RELEASE, arrays, key=str, protocol=4)
    same_arrays(loading.load(module.NAME, tmp_path), arrays)


def test_content_that_is_not_official_is_refused(small, tmp_path):
    module, arrays = small
    swapped = arrays | {"train_labels": arrays["train_labels"][::-1]}
    write_folder(tmp_path, module.RELEASE, swapped)
    with pytest.raises(DataError, match=rf"is not the official {module.NAME}: the hash of train_labels"):
        loading.load(module.NAME, tmp_path)


def test_a_missing_batch_is_named(small, tmp_path):
    module, arrays = small
    write_folder(tmp_path, module.RELEASE, arrays)
    (tmp_path / module.RELEASE.folder / module.RELEASE.batches[-1]).unlink()
    with pytest.raises(DataError, match=rf"{module.NAME} is incomplete: .*{module.RELEASE.batches[-1]} is missing"):
        loading.load(module.NAME, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.pop(b"labels"), "has no entry 'labels'"),
        (lambda content: content.update({b"data": content[b"data"][:, :-1]}), "'data' must have rows of 3072 bytes"),
        (lambda content: content.update({b"data": [1, 2]}), "'data' must have rows of 3072 bytes"),
        (lambda content: content[b"labels"].pop(), "'labels' must hold 12 numbers from 0 to 9"),
        (lambda content: content[b"labels"].__setitem__(3, 10), "'labels' must hold 12 numbers from 0 to 9"),
        (lambda content: None, "has 12 rows, not 11"),
    ],
)
def test_an_invalid_batch_is_named(tmp_path, monkeypatch, change, message):
    sources = replace(cifar10.RELEASE, rows=(12, 12, 11, 12, 12, 12)).sources
    known = {"cifar10": replace(cifar10.DATASET, sources=sources)}
    monkeypatch.setattr(registry, "datasets", lambda: known)
    write_folder(tmp_path, cifar10.RELEASE, synthetic_images(10))
    path = tmp_path / cifar10.RELEASE.paths[2]
    content = pickle.loads(path.read_bytes())
    change(content)
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=f"data_batch_3.*{message}"):
        loading.load("cifar10", tmp_path)


def test_a_repeated_batch_is_named(tmp_path, monkeypatch):
    known = {"cifar10": replace(cifar10.DATASET, sources=small_sources(cifar10.RELEASE))}
    monkeypatch.setattr(registry, "datasets", lambda: known)
    write_folder(tmp_path, cifar10.RELEASE, synthetic_images(10))
    second, third = (tmp_path / cifar10.RELEASE.paths[number] for number in (1, 2))
    third.write_bytes(second.read_bytes())
    with pytest.raises(DataError, match=r"data_batch_3 holds the same images as .*data_batch_2$"):
        loading.load("cifar10", tmp_path)


@pytest.mark.parametrize("share", [0, 0.02, 0.5, 0.95])
def test_a_truncated_archive_is_refused(tmp_path, share):
    write_archive(tmp_path, cifar10.RELEASE, synthetic_images(10))
    path = tmp_path / cifar10.RELEASE.archive
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz is not a complete archive: [^/\n]*$"):
        loading.load("cifar10", tmp_path)


def test_another_archive_is_refused(tmp_path):
    write_archive(tmp_path, cifar100.RELEASE, synthetic_images(100))
    (tmp_path / cifar100.RELEASE.archive).rename(tmp_path / cifar10.RELEASE.archive)
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz does not contain cifar-10-batches-py/data_batch_1"):
        loading.load("cifar10", tmp_path)


def test_mosaics_need_pillow(tmp_path, monkeypatch):
    write_mosaics(tmp_path, cifar10.RELEASE, synthetic_images(10))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(InputError, match=r"train_00\.webp needs pillow: pip install 'errata\[data\]'$"):
        loading.load("cifar10", tmp_path)


def test_a_damaged_mosaic_is_named(tmp_path):
    write_mosaics(tmp_path, cifar10.RELEASE, synthetic_images(10))
    paths = [tmp_path / name for name in MOSAIC_FILES]
    labels = bytearray(paths[-1].read_bytes())
    labels[60:120] = bytes(60)  # in the compressed data; the archive's directory stays valid
    paths[-1].write_bytes(labels)
    with pytest.raises(DataError, match=r"labels\.npz cannot be read"):
        read_mosaics(*paths)
    np.savez(paths[-1], train=np.zeros(TRAIN, dtype=np.uint8), test=np.zeros(TEST + 1, dtype=np.uint8))
    with pytest.raises(DataError, match=r"labels\.npz has 13 test labels for 12 images"):
        read_mosaics(*paths)
    paths[-1].write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"labels\.npz cannot be read"):
        read_mosaics(*paths)
    paths[3].write_bytes(paths[3].read_bytes()[:500])
    with pytest.raises(DataError, match=r"train_03\.webp cannot be read"):
        unmosaic(paths[3])
    Image.new("RGB", (64, 40)).save(paths[4])
    with pytest.raises(DataError, match=r"train_04\.webp has 64 × 40 pixels, not a multiple of 32"):
        unmosaic(paths[4])


# Human labels.


def base_of(module, labels):
    images = np.zeros((len(labels), 3, 32, 32), dtype=np.uint8)
    nothing = images[:0], labels[:0]
    return PreparedData(module.NAME, "images", module.CLASSES, images, labels, *nothing)


def write_human_labels(path, columns):
    import torch

    torch.save(columns, path)


def human_labels(count=200):
    """Columns as in the file, with a fifth of the labels wrong in each."""
    random = np.random.default_rng(5)
    clean = random.integers(0, 10, count)
    names = ("aggre_label", "worse_label", "random_label1", "random_label2", "random_label3")
    noisy = {name: np.where(random.random(count) < 0.2, (clean + 1) % 10, clean) for name in names}
    return {"clean_label": clean, **noisy}


def test_human_labels_are_compared_with_the_true_labels(tmp_path):
    columns = human_labels()
    write_human_labels(tmp_path / cifar10n.FILE, columns)
    parsed = cifar10n.DATASET.sources[0].read(tmp_path / cifar10n.FILE)
    arrays = prepare_human_labels(parsed, base_of(cifar10, columns["clean_label"])).arrays
    assert len(arrays) == 2 * len(cifar10n.COLUMNS)
    for name, key in cifar10n.COLUMNS.items():
        np.testing.assert_array_equal(arrays[f"given:{name}"], columns[key])
        expected = [int(given != true) for given, true in zip(columns[key], columns["clean_label"], strict=True)]
        assert arrays[f"wrong:{name}"].tolist() == expected


def test_cifar10n_uses_the_images_of_cifar10(tmp_path, monkeypatch):
    arrays = synthetic_images(10)
    columns = human_labels(TRAIN) | {"clean_label": arrays["train_labels"]}
    write_folder(tmp_path / "cifar10", cifar10.RELEASE, arrays)
    (tmp_path / "cifar10n").mkdir()
    write_human_labels(tmp_path / "cifar10n" / cifar10n.FILE, columns)
    unverified = {
        "cifar10": replace(cifar10.DATASET, hashes={}, sources=small_sources(cifar10.RELEASE)),
        "cifar10n": replace(cifar10n.DATASET, hashes={}),
    }
    known = registry.datasets() | unverified
    monkeypatch.setattr(registry, "datasets", lambda: known)
    worse = loading.load_setting("cifar10n-worse", tmp_path)
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
            "worse label 10 in row 9 is not one of the 10 classes",
        ),
        (
            lambda columns: columns.pop("random_label2"),
            r"_human\.pt has no whole numbers under 'random_label2'",
        ),
        (lambda columns: columns.update(aggre_label=np.zeros(200)), r"has no whole numbers under 'aggre_label'"),
    ],
)
def test_human_labels_of_other_images_are_refused(tmp_path, change, message):
    columns = human_labels()
    base = base_of(cifar10, columns["clean_label"].copy())
    change(columns)
    write_human_labels(tmp_path / cifar10n.FILE, columns)
    with pytest.raises(DataError, match=message):
        prepare_human_labels(cifar10n.DATASET.sources[0].read(tmp_path / cifar10n.FILE), base)


# The real files.


def test_real_cifar10n_has_the_noise_of_the_paper(real_data):
    parsed = loading.read_verified(cifar10n.DATASET, locate(cifar10n.DATASET, real_data))
    clean = parsed.arrays["clean"]
    arrays = prepare_human_labels(parsed, base_of(cifar10, clean)).arrays
    rates = {name: arrays[f"wrong:{name}"].mean() for name in cifar10n.COLUMNS}
    assert rates == pytest.approx(
        {"aggregate": 0.0901, "worse": 0.40208, "random1": 0.17234, "random2": 0.18122, "random3": 0.1764}
    )
    assert array_hash(clean) == cifar10.DATASET.hashes["train_labels"]


def test_real_cifar100_and_its_human_labels(real_data):
    data = loading.load("cifar100", real_data)
    assert data.complete
    # hashes of pixels and labels that were recorded with the files, independently of errata
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
    noisy = loading.load_setting("cifar100n-noisy", real_data)
    assert noisy.noise["rate"] == pytest.approx(0.402)
    assert noisy.data.train_inputs.shape == (50_000, 3, 32, 32)
    assert not noisy.setting.in_paper
    assert cifar100n.DATASET.paper is None
