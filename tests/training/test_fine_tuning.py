import math

import numpy as np
import pytest
import torch
from torch import nn

from errata.dynamics.scoring import find_method
from errata.training.backbones import module_backbone
from errata.training.fine_tuning import HEAD_RATE, FineTuned, fine_tuned_images
from errata.training.gather import gather
from errata.training.jobs import TrainingOptions
from errata.training.recipes import Recipe, batch_size, fine_tuning_recipe, rise_and_fall
from errata.training.second_pass import second_pass, second_recipe
from errata.training.transforms import InTurn, PadCropFlip, ResizeCentreCrop

SIDE = 12


class Colours(nn.Module):
    """A backbone whose features are batch-normed mean colours, mixed by a matrix."""

    side, mean, std = SIDE, 0.5, 0.25

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3, momentum=0.001)
        self.mix = nn.Linear(3, 4)

    def forward(self, images):
        return self.mix(self.norm(images).mean(dim=(2, 3)))


@pytest.fixture(scope="module")
def backbone():
    torch.manual_seed(0)
    return module_backbone(Colours())


@pytest.fixture(scope="module")
def images():
    """50 dark and bright pictures (N, 3, 8, 8) and their labels."""
    rng = np.random.default_rng(0)
    labels = np.arange(50) % 2
    pixels = rng.normal(60 + 130 * labels[:, None, None, None], 20, (50, 3, 8, 8))
    return np.clip(pixels, 0, 255).astype(np.uint8), labels


def fine_tuned(backbone, images, **options):
    pixels, labels = images
    inputs = fine_tuned_images(pixels, backbone.preprocessing, SIDE, PadCropFlip(pad=1))
    recipe = Recipe(4, 16, 3e-3, 0.01, "adamw", schedule=rise_and_fall(4, 0.2))
    training = TrainingOptions(swa=False, features=True)
    (result,) = gather(inputs, labels, 2, lambda: FineTuned(backbone, 2), recipe, options=training, **options)
    return inputs, recipe, result


def test_training_changes_the_copy_and_never_the_backbone(backbone, images):
    before = {name: value.clone() for name, value in backbone.module.state_dict().items()}
    _, _, result = fine_tuned(backbone, images)
    assert all(torch.equal(before[name], value) for name, value in backbone.module.state_dict().items())
    weights = result.weights[0]
    assert not torch.equal(weights["body.mix.weight"], before["mix.weight"])
    assert (result.dynamics.logits[-1].argmax(axis=1) == images[1]).mean() > 0.9


def test_before_training_all_classes_are_equally_likely(backbone, images):
    model = FineTuned(backbone, 5).eval()
    assert (model(torch.rand(3, 3, SIDE, SIDE)) == 0).all()
    assert model.body.norm.momentum == 0.1


def test_the_last_layer_moves_faster_by_its_factor(backbone):
    """One step of Adam moves every weight by the learning rate, so the logits change HEAD_RATE times as much."""
    model = FineTuned(backbone, 2)
    features, rate = torch.ones(1, 4), 0.01
    optimizer = torch.optim.Adam(model.head.parameters(), lr=rate)
    nn.functional.cross_entropy(model.head(features), torch.tensor([1])).backward()
    optimizer.step()
    logits = model.head(features)[0]
    assert logits.tolist() == pytest.approx([-HEAD_RATE * 5 * rate, HEAD_RATE * 5 * rate], rel=1e-4)


def test_features_of_the_first_run_are_those_of_the_frozen_backbone_and_of_the_second_its_own(backbone, images):
    inputs, recipe, result = fine_tuned(backbone, images)
    resized = ResizeCentreCrop(SIDE, SIDE)(torch.from_numpy(images[0]))
    np.testing.assert_allclose(result.dynamics.features, backbone.features(resized), atol=1e-5)
    assert result.dynamics.settings["frozen_features"] is True
    assert find_method(result.dynamics, None).name == "Unmixed-kNN-RampProb-LM"
    again = second_recipe(recipe, len(inputs), pretrained=True)
    assert (again.epochs, again.batch_size, again.learning_rate) == (4, 8, recipe.learning_rate)
    first = result.dynamics.logits[-1]
    build = lambda: FineTuned(backbone, 2)  # noqa: E731
    second = second_pass(inputs, images[1], first, build, again, seed=0, features=True)
    assert second.features.shape == (50, 4)
    assert np.abs(second.features - result.dynamics.features).max() > 1e-3
    assert "frozen_features" not in second.settings


def test_a_stopped_training_of_a_backbone_continues_with_the_same_bits(backbone, images, tmp_path):
    whole = fine_tuned(backbone, images)[2].dynamics
    done = 0

    def stop(epochs):
        nonlocal done
        done += epochs
        if done == 2:
            raise KeyboardInterrupt

    options = TrainingOptions(swa=False, features=True, checkpoint_seconds=0.0)
    pixels, labels = images
    inputs = fine_tuned_images(pixels, backbone.preprocessing, SIDE, PadCropFlip(pad=1))
    recipe = Recipe(4, 16, 3e-3, 0.01, "adamw", schedule=rise_and_fall(4, 0.2))
    arguments = (inputs, labels, 2, lambda: FineTuned(backbone, 2), recipe)
    with pytest.raises(KeyboardInterrupt):
        gather(*arguments, options=options, folder=tmp_path, progress=stop)
    (resumed,) = gather(*arguments, options=options, folder=tmp_path)
    assert np.array_equal(resumed.dynamics.logits, whole.logits)
    assert np.array_equal(resumed.dynamics.features, whole.features)


@pytest.mark.parametrize(("samples", "epochs", "size"), [(100, 20, 32), (2_000, 15, 64), (50_000, 8, 128)])
def test_fewer_epochs_for_more_samples(samples, epochs, size):
    recipe = fine_tuning_recipe(samples, seed=3)
    assert (recipe.epochs, recipe.batch_size, recipe.seed) == (epochs, size, 3)


@pytest.mark.parametrize("samples", [1, 2, 65, 129, 1_000, 1_001, 20_001, 10**7])
def test_no_last_batch_has_a_single_sample(samples):
    size = batch_size(samples, ((1_000, 32), (20_000, 64)), 128)
    assert samples == 1 or samples % size != 1


@pytest.mark.parametrize(("epochs", "rise"), [(1, 0.2), (2, 0.2), (8, 0.2), (40, 0.15)])
def test_the_rate_rises_linearly_and_falls_by_half_a_cosine(epochs, rise):
    factors = [factor for _, factor in rise_and_fall(epochs, rise)]
    risen = max(1, rise * epochs)
    assert all(0 < factor <= 1 for factor in factors)
    for epoch, factor in enumerate(factors):
        middle = epoch + 0.5
        if middle < risen:
            assert factor == pytest.approx(0.04 + 0.96 * middle / risen)
        else:
            angle = math.pi * (middle - risen) / (epochs - risen)
            assert factor == pytest.approx(max(1e-3, math.cos(angle / 2) ** 2))


def test_transforms_follow_each_other():
    both = InTurn(lambda images, _: images + 1, lambda images, _: images * 2)
    assert both(torch.tensor([1, 2]), None).tolist() == [4, 6]
