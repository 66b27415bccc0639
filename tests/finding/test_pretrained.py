import math
import re
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

import errata
from errata.errors import InputError
from errata.finding import pretrained
from errata.finding.candidates import candidates_for
from errata.finding.find import find_again
from errata.finding.find_options import FindOptions
from errata.finding.model_training import passes
from errata.finding.pretrained import FixedFeatures, _image_model, backbone_name, unit_rows
from errata.readers import open_data
from errata.terminal import NoProgress
from errata.training.backbones import module_backbone

WRONG = (3, 10, 21)


class Colours(torch.nn.Module):
    """A backbone of 16 pixels that returns the mean colours of an image."""

    side = 16

    def forward(self, images):
        return images.mean(dim=(2, 3))


@pytest.fixture(scope="module")
def images():
    """40 bright and dark images (N, 3, 32, 32), of which three have the wrong label."""
    rng = np.random.default_rng(0)
    light = np.where(np.arange(40) % 2, 200, 60)[:, None, None, None]
    pixels = np.clip(rng.normal(light, 25, (40, 3, 32, 32)), 0, 255).astype(np.uint8)
    labels = np.arange(40) % 2
    labels[list(WRONG)] = 1 - labels[list(WRONG)]
    return pixels, labels


def first_three(found):
    return set(found.ranking["id"].head(3))


def test_images_are_described_by_lite0_unless_another_model_is_given(images):
    found = errata.find(*images)
    assert "on features of lite0" in found.summary["model"]
    assert first_three(found) == set(WRONG)
    assert found.dynamics.inputs.shape == (40, 1280)
    assert found.dynamics.held_out.shape == (40, 2)


def test_without_the_weights_or_with_none_a_network_is_trained_on_the_pixels(images, monkeypatch):
    monkeypatch.setattr("errata.finding.candidates.MAX_IMAGE_EPOCHS", 1)
    monkeypatch.setattr("errata.finding.candidates.MIN_EPOCHS", 1)
    assert errata.find(*images, backbone="none").summary["model"].startswith("cnn4")
    assert errata.find(*images, model="cnn4").summary["model"].startswith("cnn4")
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    assert errata.find(*images).summary["model"].startswith("cnn4")


def test_a_folder_of_images_with_a_module_of_your_own_and_resume(images, tmp_path, monkeypatch):
    pixels, labels = images
    for number, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        folder = tmp_path / "photos" / ("dark", "bright")[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{number}.png")

    def fail(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr("errata.finding.find.train_model", fail)
        with pytest.raises(KeyboardInterrupt):
            errata.find(tmp_path / "photos", backbone=Colours(), out=tmp_path / "out")
    with monkeypatch.context() as resumed:
        resumed.setattr(Colours, "forward", lambda self, images: torch.full((len(images), 3), 7.0))
        found = errata.find(tmp_path / "photos", backbone=Colours(), out=tmp_path / "out")
    assert "on features of Colours" in found.summary["model"]
    assert found.summary["settings"]["backbone"] == "module Colours"
    with pytest.raises(InputError, match=r"torch\.nn\.Module as backbone \(Colours\), which is not stored"):
        find_again(tmp_path / "out", {})
    wrong = {f"{('dark', 'bright')[labels[number]]}/{number}.png" for number in WRONG}
    assert first_three(found) == wrong  # from the stored features: those computed the second time are all alike


def test_models_of_frozen_features_keep_the_usual_weight(images, monkeypatch):
    """Also if their loss is below that of the held-out predictions, which gives models of tables more weight."""
    monkeypatch.setattr("errata.finding.model_training.log_loss", lambda *_: math.inf)
    pixels, labels = images
    assert errata.find(pixels, labels, backbone=Colours()).summary["method"] == "Unmixed-HeldOut-EarlyProb-LM"
    table = pixels.mean(axis=(2, 3))
    assert errata.find(table, labels, model="mlp").summary["method"] == "Unmixed-HeldOut(a=0.7)-EarlyProb-LM"


def test_the_detector_takes_a_backbone(images):
    detector = errata.ErrataDetector(backbone=Colours()).fit(*images)
    assert set(np.argsort(-detector.scores_)[:3]) == set(WRONG)


def test_contradictions_are_refused(images):
    with pytest.raises(InputError, match="pass one only"):
        errata.find(*images, backbone="lite0", model="cnn4")
    with pytest.raises(InputError, match=r"no backbone 'lite1'.*did you mean"):
        errata.find(*images, backbone="lite1")
    with pytest.raises(InputError, match=r"for a table, .* a sentence model, not an object of type Colours"):
        errata.find(np.random.default_rng(0).normal(size=(40, 3)), images[1], backbone=Colours())


class Mixed(Colours):
    """The same with a layer that can be trained."""

    def __init__(self):
        super().__init__()
        self.mix = torch.nn.Linear(3, 4)

    def forward(self, images):
        return self.mix(super().forward(images))


def test_a_backbone_is_fine_tuned_on_request_and_its_frozen_features_are_kept(images, tmp_path):
    torch.manual_seed(0)
    found = errata.find(*images, backbone=Mixed(), model="fine-tuned", looks=2, out=tmp_path / "out")
    assert first_three(found) == set(WRONG)
    assert found.summary["model"] == "fine-tuned Mixed, 20 epochs"
    assert found.summary["passes"] == 2
    assert found.dynamics.inputs.shape == (40, 4)
    assert found.dynamics.held_out.shape == (40, 2)
    with pytest.raises(InputError, match="fine-tuning starts from a pretrained model"):
        errata.find(*images, backbone="none", model="fine-tuned")


def test_on_a_gpu_the_fine_tuned_backbone_and_a_network_are_tried_too(images, monkeypatch):
    monkeypatch.setattr("errata.training.gather.choose_device", torch.device)
    data = open_data(*images)
    backbone = module_backbone(Mixed())
    embedded = replace(data, fit_features=FixedFeatures(np.eye(40, 3, dtype=np.float32)), backbone="Mixed")

    def candidates(device):
        return candidates_for(embedded, "auto", 0, device, backbone)

    assert [candidate.name for candidate in candidates("cpu")] == ["mlp", "mlp"]
    on_gpu = candidates("cuda")
    assert [candidate.name for candidate in on_gpu] == ["mlp", "mlp", "fine-tuned Mixed", "cnn9"]
    assert [candidate.keeps_epochs for candidate in on_gpu] == [False, False, True, False]
    passes_on = {
        device: [passes(one, data, FindOptions(device=device)) for one in on_gpu] for device in ("cpu", "cuda")
    }
    assert passes_on == {"cpu": [1, 1, 1, 1], "cuda": [1, 1, 2, 2]}
    assert [passes(one, data, FindOptions(device="cuda", folds=2)) for one in on_gpu] == [1, 1, 1, 1]
    assert [passes(one, data, FindOptions(device="cuda", looks=1)) for one in on_gpu] == [1, 1, 1, 1]


@pytest.mark.parametrize(("side", "any_side", "trained_on"), [(32, True, 128), (32, False, 16), (200, True, 16)])
def test_small_images_are_enlarged_and_large_ones_are_cropped(tmp_path, monkeypatch, side, any_side, trained_on):
    rng = np.random.default_rng(0)
    for number in range(12):
        path = tmp_path / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(path)
    data = replace(open_data(tmp_path), fit_features=FixedFeatures(np.eye(12, 3, dtype=np.float32)), backbone="Colours")
    backbone = replace(module_backbone(Colours()), any_side=any_side)
    for decoded_bytes in (1 << 30, 0):  # in memory, and decoded again in every epoch
        monkeypatch.setattr("errata.finding.candidates.MAX_DECODED_BYTES", decoded_bytes)
        (candidate,) = candidates_for(data, "fine-tuned", 0, "cpu", backbone)
        assert type(candidate.inputs).__name__ == ("Images" if decoded_bytes or data.root is None else "ImageFiles")
        (raw,) = candidate.inputs.fetch([torch.arange(4)])
        for pixels in (candidate.inputs.train(raw, None), candidate.inputs.test(raw)):
            assert pixels.shape == (4, 3, trained_on, trained_on)


def test_unit_rows_have_length_one_around_the_mean():
    rng = np.random.default_rng(0)
    features = rng.normal(5, 1, (30, 4)).astype(np.float32)
    features[3] = features.mean(axis=0)
    rows = unit_rows(features)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert unit_rows(np.ones((3, 2), dtype=np.float32)).tolist() == [[0, 0]] * 3


def test_the_work_of_a_second_pass_is_named_and_the_ranking_uses_it(images):
    steps = []

    class Steps(NoProgress):
        def begin(self, name, epochs):
            steps.append(name)

    found = errata.find(*images, backbone=Colours(), looks=2, progress=Steps())
    assert first_three(found) == set(WRONG)
    assert re.fullmatch(r"second pass of .*, about \d\.\d times the work of the first", steps[-1])
    assert "second training pass" in " ".join(found.summary["notes"])
    one = errata.find(*images, backbone=Colours())
    assert found.ranking["score"].tolist() != one.ranking["score"].tolist()


@pytest.mark.parametrize(("wrong", "passes_made"), [(0, 1), (6, 1), (20, 2), (90, 2)])
def test_no_second_pass_if_very_few_labels_seem_to_be_wrong(wrong, passes_made):
    labels = np.arange(300) % 3
    inputs = 4 * np.eye(3)[labels] + np.random.default_rng(0).normal(size=(300, 3))
    labels[:wrong] = (labels[:wrong] + 1) % 3
    advanced = []

    class Sums(NoProgress):
        def total(self, epochs):
            advanced.append(-epochs)

        def advance(self, epochs):
            advanced.append(epochs)

    found = errata.find(inputs, labels, model="mlp", looks=2, progress=Sums())
    assert found.summary["passes"] == passes_made
    without = "There was no second pass, because fewer than 3.5 % of the labels seem to be wrong."
    assert (without in found.summary["model_choice"]) == (passes_made == 1)
    assert sum(advanced) == pytest.approx(0, abs=1e-6)
    one = errata.find(inputs, labels, model="mlp")
    assert (one.ranking["score"].tolist() == found.ranking["score"].tolist()) == (passes_made == 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"looks": 3}, "looks must be 1 or 2"),
        ({"looks": 2, "folds": 2}, "no `folds=`"),
    ],
)
def test_impossible_passes_are_refused(images, options, message):
    with pytest.raises(InputError, match=message):
        errata.find(*images, backbone=Colours(), **options)


def test_boosting_has_no_second_pass_and_is_not_tried_for_one(images):
    table, labels = images[0].mean(axis=(2, 3)), images[1]
    with pytest.raises(InputError, match="boosting has no second pass"):
        errata.find(table, labels, model="boosting", looks=2)
    tried = []

    class Trials(NoProgress):
        def begin(self, name, epochs):
            tried.append(name)

    found = errata.find(table, labels, looks=2, progress=Trials())
    assert found.summary["passes"] == 2
    assert not any("boosting" in name for name in tried)


@pytest.mark.parametrize("backbone", [3, Mixed(), ["lite0"]])
def test_a_backbone_for_texts_is_a_folder(backbone):
    texts = [f"one more text about {'cats' if row % 2 else 'dogs'} {row}" for row in range(40)]
    with pytest.raises(InputError, match="for text, `backbone=` must be the folder of a sentence model, not an object"):
        errata.find(texts, np.arange(40) % 2, backbone=backbone)


def test_a_folder_of_a_backbone_is_stored_by_its_absolute_path(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "lite0").mkdir()
    monkeypatch.chdir(tmp_path)
    assert backbone_name("model") == str(tmp_path / "model")
    assert [backbone_name(name) for name in (None, "lite0", "somebody/vit")] == [None, "lite0", "somebody/vit"]


@pytest.mark.parametrize("decoded_bytes", [1 << 30, 0])
@pytest.mark.parametrize("side", [32, 150])
@pytest.mark.parametrize("grey", [True, False])
def test_grey_pictures_of_different_sizes_are_not_mirrored(tmp_path, monkeypatch, grey, side, decoded_bytes):
    """White to the left, in training too; pictures with colour are mirrored half of the time."""
    monkeypatch.setattr("errata.finding.candidates.MAX_DECODED_BYTES", decoded_bytes)
    for number in range(24):
        pixels = np.zeros((side + number, side, 3), dtype=np.uint8)
        pixels[:, : side // 2, : 3 if grey else 2] = 255
        path = tmp_path / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(path)
    data = open_data(tmp_path)
    embedded = replace(data, fit_features=FixedFeatures(np.eye(24, 3, dtype=np.float32)), backbone="Colours")
    (from_scratch,) = candidates_for(data, "cnn4" if side == 32 else "resnet18", 0, "cpu")
    (fine_tuned,) = candidates_for(embedded, "fine-tuned", 0, "cpu", module_backbone(Colours()))
    for candidate in (from_scratch, fine_tuned):
        inputs = candidate.inputs
        assert inputs.resident == bool(decoded_bytes)
        (raw,) = inputs.fetch([torch.arange(24)])
        shown, prepared = inputs.train(raw, torch.Generator().manual_seed(0)), inputs.test(raw)
        assert shown.shape == prepared.shape
        width = shown.shape[3]
        left, right = (shown[:, 0, :, part].mean(dim=(1, 2)) for part in (slice(width // 4), slice(-width // 4, None)))
        assert bool((left > right).all()) == grey


class Counted(Mixed):
    """Counts the images that the network has seen; the copy that is used counts too."""

    seen = 0

    def forward(self, images):
        Counted.seen += len(images)
        return super().forward(images)


def images_computed(find, *arguments, **options):
    """How many images go through the network in a call, beyond the two blank ones that test it."""
    Counted.seen = 0
    find(*arguments, **options)
    return Counted.seen - 2


def test_features_are_computed_once_for_all_runs_in_a_folder(images, tmp_path):
    torch.manual_seed(0)
    backbone, out = Counted(), tmp_path / "out"
    pixels, labels = images
    find = partial(images_computed, errata.find, backbone=backbone, out=out)
    assert find(pixels, labels) == 40
    assert find(pixels, labels, seed=1) == find(pixels, labels, looks=2) == 0
    assert find(pixels, 1 - labels, overwrite=True) == 0  # no label influences features
    assert find(255 - pixels, labels, overwrite=True) == 40
    assert find(pixels, labels, overwrite=True) == 40  # only those of the last run are kept
    with torch.no_grad():
        backbone.mix.weight.add_(1)
    assert find(pixels, labels) == 40
    assert len(list((out / "features").iterdir())) == 1


def test_features_are_not_computed_for_a_model_with_verified_labels(images, tmp_path, monkeypatch):
    pixels, labels = images
    np.savez(tmp_path / "images.npz", X=pixels, y=labels)
    out, backbone = tmp_path / "out", module_backbone(Counted())
    errata.find(tmp_path / "images.npz", backbone=backbone, out=out)
    monkeypatch.setattr("errata.finding.find.open_pretrained", lambda *_: _image_model(backbone, "cpu", False))
    assert images_computed(find_again, out, {"3": "0"}) == -2  # not even the blank images
    shutil.rmtree(out / "features")
    assert images_computed(find_again, out, {"3": "0"}) == 38
    assert not (out / "features").exists()


def test_very_large_features_are_deleted_with_the_resume_files(images, tmp_path, monkeypatch):
    monkeypatch.setattr("errata.finding.out_folder.LARGEST_FEATURES", 100)
    errata.find(*images, backbone=Colours(), out=tmp_path / "out")
    assert not (tmp_path / "out" / "features").exists()
