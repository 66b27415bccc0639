import numpy as np
import pytest
import torch
from torch import nn

from errata.training.engine import train
from errata.training.jobs import TrainingOptions, in_sample_jobs
from errata.training.model_inputs import Images, TableInputs
from errata.training.recipes import Recipe
from errata.training.second_pass import SecondPassExecutor, second_pass, second_recipe
from errata.training.transforms import StrongView

WRONG = np.arange(0, 60, 7)


@pytest.fixture(scope="module")
def images():
    """60 dark and bright images (N, 3, 8, 8), labels with nine errors, and predictions of a first run."""
    rng = np.random.default_rng(0)
    true = np.arange(60) % 2
    pixels = np.clip(rng.normal(60 + 130 * true[:, None, None, None], 20, (60, 3, 8, 8)), 0, 255).astype(np.uint8)
    given = true.copy()
    given[WRONG] = 1 - given[WRONG]
    belief = np.where(np.arange(2) == true[:, None], 0.9, 0.1)
    return Images(pixels, (0.5,) * 3, (0.25,) * 3), given, np.log(belief + rng.uniform(0, 0.02, belief.shape))


def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU(), nn.Linear(8, 2))


def recipe(epochs=8):
    return second_recipe(Recipe(epochs, 16, 1e-3), 60, pretrained=False)


def test_the_second_pass_learns_the_other_class_of_labels_that_the_first_run_rejects(images):
    inputs, given, first = images
    dynamics = second_pass(inputs, given, first, build, recipe(16), seed=0, features=True)
    assert dynamics.logits.shape == (13, 60, 2)
    assert dynamics.features.shape == (60, 8)
    assert (dynamics.logits[-1].argmax(axis=1) == given).sum() == 60 - len(WRONG)
    assert (dynamics.labels == given).all()


def test_a_stopped_second_pass_continues_where_it_was(images, tmp_path):
    inputs, given, first = images
    whole = second_pass(inputs, given, first, build, recipe(16), seed=3, features=False)
    done = 0

    def stop_after_seven(epochs):
        nonlocal done
        done += epochs
        if done == 8:
            raise KeyboardInterrupt

    arguments = {"seed": 3, "features": False, "folder": tmp_path, "checkpoint_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        second_pass(inputs, given, first, build, recipe(16), progress=stop_after_seven, **arguments)
    resumed = []
    again = second_pass(inputs, given, first, build, recipe(16), progress=resumed.append, **arguments)
    assert 7 in resumed
    np.testing.assert_array_equal(again.logits, whole.logits)


def test_weights_and_beliefs_follow_the_training(images):
    inputs, given, first = images
    executors = []

    def make(jobs):
        executors.append(SecondPassExecutor(jobs, inputs, given, first, build))
        return executors[0]

    before = SecondPassExecutor(in_sample_jobs(60, recipe(), (0,)), inputs, given, first, build)
    assert before.weights_of_labels[WRONG].max() < 0.5 < np.delete(before.weights_of_labels, WRONG).min()
    (result,) = train(in_sample_jobs(60, recipe(), (0,)), given, make, TrainingOptions(swa=False))
    expected = before.beliefs
    for epoch, logits in enumerate(result.dynamics.logits):
        if epoch >= 1:
            p = np.exp(logits.astype(np.float64))
            added = max(0.1, 1 / len(result.dynamics.logits))
            expected = (1 - added) * expected + added * p / p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(executors[0].beliefs, expected, atol=1e-6)


def test_a_table_has_one_view_and_an_mlp(images):
    _, given, first = images
    table = TableInputs(np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32))
    dynamics = second_pass(table, given, first, (4,), recipe(4), seed=0, features=False)
    assert dynamics.logits.shape == (4, 60, 2)


def test_the_recipe_takes_four_fifths_of_the_epochs_and_its_rate_rises_and_falls():
    chosen = second_recipe(Recipe(40, 64, 5e-5, 0.02), 50_000, pretrained=False)
    assert (chosen.epochs, chosen.batch_size, chosen.learning_rate, chosen.optimizer) == (32, 256, 2e-3, "adamw")
    rates = [chosen.rate(epoch) for epoch in range(32)]
    assert np.argmax(rates) in (4, 5)
    assert rates[0] < 0.3 * max(rates)
    assert rates[-1] < 0.01 * max(rates)
    assert second_recipe(Recipe(40, 64, 5e-5), 2_000, pretrained=True).learning_rate == 5e-5


def test_a_strong_view_without_changes_is_the_image_and_a_cutout_is_a_grey_square():
    images = torch.randint(0, 256, (6, 3, 16, 16), dtype=torch.uint8)
    same = StrongView(*(0.0,) * 8)(images, torch.Generator().manual_seed(0))
    assert torch.equal(same, images)
    cut = StrongView(*(0.0,) * 7, cutout=0.5)(images, torch.Generator().manual_seed(0))
    changed = (cut != images).any(dim=1)
    assert (cut.permute(0, 2, 3, 1)[changed] == 127).all()
    assert int(changed.sum(dim=(1, 2)).min()) >= 9
    assert int(changed.sum(dim=(1, 2)).max()) <= 81


def test_strong_views_differ_between_images_and_repeat_with_the_generator():
    images = torch.randint(0, 256, (1, 3, 16, 16), dtype=torch.uint8).repeat(5, 1, 1, 1)
    first, second = (StrongView()(images, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, second)
    assert len({image.numpy().tobytes() for image in first}) == 5
