"""Settings with noise that the paper does not use."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from errata.core.noise import label_hash
from errata.datasets.label_noise import AsymmetricNoise, ExtraNoise, HeldOutClassNoise, InstanceNoise, LongTailNoise
from errata.datasets.loading import label, load, load_setting
from errata.datasets.noise_figures import class_noise_figure, class_table, noise_figure
from errata.datasets.registry import setting, settings
from errata.datasets.sets import cifar10, digits, letter
from errata.datasets.spec import UNKNOWN, Pixels, PreparedData
from errata.errors import InputError

KINDS = ("asymmetric-40", "instance-20", "imbalanced-20", "openset-20")
every_kind = pytest.mark.parametrize("kind", KINDS)


def test_three_datasets_have_every_kind():
    names = {name for name, one in settings().items() if isinstance(one.noise, ExtraNoise)}
    assert names == {f"{dataset}-{kind}" for dataset in ("cifar10", "letter", "digits") for kind in KINDS}
    for name in names:
        symmetric = setting(f"{name.split('-')[0]}-symmetric-20")
        one = setting(name)
        assert (one.network, one.recipe, one.in_paper) == (symmetric.network, symmetric.recipe, False)


@pytest.mark.parametrize("module", [cifar10, letter, digits])
def test_flips_are_between_existing_classes(module):
    (noise,) = (one.noise for one in module.DATASET.settings if isinstance(one.noise, AsymmetricNoise))
    true, given = zip(*noise.flips, strict=True)
    assert len(set(true)) == len(set(given)) == len(noise.flips), "no class is left or entered twice"
    assert {*true, *given} <= set(module.DATASET.classes)


@every_kind
def test_rows_are_rows_of_the_dataset_and_truth_compares_their_labels(kind):
    whole, noisy = load("digits"), load_setting(f"digits-{kind}")
    classes = defaultdict(set)
    for inputs, number in zip(whole.train_inputs, whole.train_labels, strict=True):
        classes[inputs.tobytes()].add(int(number))
    assert all(len(numbers) == 1 for numbers in classes.values())
    true = np.array([*(number for inputs in noisy.data.train_inputs for number in classes[inputs.tobytes()])])
    np.testing.assert_array_equal(noisy.truth, true != noisy.given)
    assert noisy.given.max() < noisy.data.num_classes
    known = noisy.data.train_labels != UNKNOWN
    np.testing.assert_array_equal(noisy.data.train_labels[known], true[known])
    np.testing.assert_array_equal(known, true < noisy.data.num_classes)
    np.testing.assert_array_equal(noisy.scored, np.arange(len(true)))
    assert noisy.noise["count"] == noisy.truth.sum()
    assert noisy.noise["hash"] == label_hash(noisy.given)
    assert not (noisy.evaluation & noisy.tuning(0.1)).any()
    assert (noisy.evaluation | noisy.tuning(0.1)).all()


@every_kind
def test_labels_depend_on_the_seed_only(kind):
    data = load("digits")
    one = setting(f"digits-{kind}")
    first, again = label(one, data), label(one, data)
    assert first.noise == again.noise
    np.testing.assert_array_equal(first.data.train_inputs, again.data.train_inputs)
    other = label(replace(one, noise=replace(one.noise, seed=1)), data)
    assert other.noise["hash"] != first.noise["hash"]
    assert (other.data.content_hash != first.data.content_hash) == (kind in ("imbalanced-20", "openset-20"))


def test_labels_are_those_of_the_published_results():
    hashes = {kind: load_setting(f"digits-{kind}").noise["hash"][:12] for kind in KINDS}
    assert hashes == {
        "asymmetric-40": "864efcd38eb9",
        "instance-20": "4b1f36553c81",
        "imbalanced-20": "ceab9f040bbd",
        "openset-20": "623a0256e419",
    }


def test_asymmetric_noise_follows_the_class_map():
    noisy = load_setting("digits-asymmetric-40")
    wrong = zip(noisy.data.train_labels[noisy.truth], noisy.given[noisy.truth], strict=True)
    assert set(wrong) == {(2, 7), (3, 8), (5, 6), (6, 5), (7, 1)}


def test_an_imbalanced_setting_removes_training_samples_only():
    whole, noisy = load("digits"), load_setting("digits-imbalanced-20")
    sizes = np.bincount(noisy.data.train_labels)
    shares = sizes / np.bincount(whole.train_labels)
    np.testing.assert_allclose(shares, 10 ** (-np.arange(10) / 9), atol=0.005)
    assert len(noisy.given) == sizes.sum() == 551
    np.testing.assert_array_equal(noisy.data.test_labels, whole.test_labels)
    assert noisy.data.num_classes == 10


def test_an_open_set_setting_has_fewer_classes_in_training_and_test():
    whole, noisy = load("digits"), load_setting("digits-openset-20")
    assert noisy.data.classes == tuple("01234567")
    assert noisy.truth.mean() == pytest.approx(0.2, abs=1 / len(noisy.truth))
    np.testing.assert_array_equal(noisy.data.train_labels == UNKNOWN, noisy.truth)
    kept = whole.test_labels < 8
    np.testing.assert_array_equal(noisy.data.test_labels, whole.test_labels[kept])
    np.testing.assert_array_equal(noisy.data.test_inputs, whole.test_inputs[kept])
    table = class_table(noisy)
    assert table["given"].sum() == len(noisy.given)
    assert (table["given"] == table["true"] + table["wrong"]).all()
    bars = noise_figure(noisy).axes[0].patches
    assert len(bars) == len(class_noise_figure(noisy).axes[0].patches) == 8


def prepared(kind, inputs, labels):
    pixels = Pixels((0.5, 0.5, 0.5), (0.25, 0.25, 0.25), "pad-crop-flip") if kind != "table" else None
    return PreparedData("made", kind, ("a", "b", "c"), inputs, labels, inputs[:0], labels[:0], pixels=pixels)


def test_instance_noise_uses_scaled_pixels_and_scaled_columns():
    rng = np.random.default_rng(0)
    labels, noise = rng.integers(0, 3, 500), InstanceNoise(0.3)
    images = rng.integers(0, 256, (500, 3, 4, 4), dtype=np.uint8)
    scaled = ((images.reshape(500, 48) / 255 - 0.5) / 0.25)[:, :, None, None]
    from errata.core.noise import instance_dependent

    pixels = noise.label(prepared("images", images, labels))
    assert pixels.noise["hash"] == instance_dependent(labels, scaled, 0.3, 3).hash
    table = rng.normal(size=(500, 5)).astype(np.float32)
    columns = noise.label(prepared("table", table, labels))
    other_units = noise.label(prepared("table", table * np.float32([1, 2, 4, 8, 16]) + np.float32(3), labels))
    assert (columns.given == other_units.given).mean() > 0.99, "except for the rounding of float32"
    assert columns.noise["hash"] != pixels.noise["hash"]


def test_instance_noise_needs_pixels():
    paths = np.array([b"a.png", b"b.png", b"c.png"])
    with pytest.raises(InputError, match="needs pixels in memory, but made has image files"):
        InstanceNoise(0.2).label(prepared("image files", paths, np.arange(3)))


def test_recorded_labels_stay_with_their_rows():
    labels = np.arange(300) % 3
    data = prepared("table", np.arange(300, dtype=np.float32)[:, None], labels)
    data = replace(data, given={"own": labels + 10}, wrong={"own": (labels % 2).astype(np.int8)})
    part = LongTailNoise(0.2, ratio=5).label(data).data
    np.testing.assert_array_equal(part.given["own"], part.train_labels + 10)
    np.testing.assert_array_equal(part.wrong["own"], part.train_labels % 2)
    assert HeldOutClassNoise(0.25, held_out=1).label(data).data.classes == ("a", "b")
