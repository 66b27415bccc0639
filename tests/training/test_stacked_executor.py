import numpy as np
import pytest
import torch
from torch import nn

from errata.errors import InputError
from errata.training.engine import train
from errata.training.gather import executor_for, gather
from errata.training.jobs import TrainingJob, TrainingOptions, in_sample_jobs
from errata.training.model_inputs import TableInputs
from errata.training.models import mlp
from errata.training.recipes import Recipe
from errata.training.stacked_executor import StackedExecutor

SAMPLES, FEATURES, CLASSES = 70, 5, 4


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return TableInputs(rng.normal(size=(SAMPLES, FEATURES))), rng.integers(0, CLASSES, SAMPLES)


OPTIMIZERS = {
    "adam": Recipe(epochs=4, batch_size=16, learning_rate=0.01, schedule=((0, 1.0), (2, 0.1))),
    "adam with decay": Recipe(epochs=4, batch_size=16, learning_rate=0.01, weight_decay=0.3),
    "sgd": Recipe(epochs=4, batch_size=16, learning_rate=0.1, optimizer="sgd", weight_decay=0.02),
    "sgd with momentum": Recipe(
        epochs=4, batch_size=16, learning_rate=0.1, optimizer="sgd", momentum=0.9, schedule=((0, 1.0), (3, 0.5))
    ),
}


def adam_by_hand(parameters, gradients, memory, rate, decay):
    """Adam's update with the L2 term in the gradient, unlike AdamW."""
    memory["t"] = memory.get("t", 0) + 1
    for number, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        gradient = gradient + decay * parameter
        first, second = memory.get(number, (0.0, 0.0))
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        memory[number] = first, second
        corrected = first / (1 - 0.9 ** memory["t"]), second / (1 - 0.999 ** memory["t"])
        parameter -= rate * corrected[0] / (corrected[1].sqrt() + 1e-8)


def sgd_by_hand(parameters, gradients, memory, rate, decay, momentum):
    for number, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        memory[number] = momentum * memory.get(number, 0.0) + gradient + decay * parameter
        parameter -= rate * memory[number]


def train_by_hand(data, rows, recipe, widths, weight=None):
    """A plain training loop: yields the logits (n, K) of each training pass and the weights after it."""
    x, y = data[0].values, torch.from_numpy(data[1])
    torch.manual_seed(recipe.seed)
    model = mlp([FEATURES, *widths, CLASSES]).double()
    parameters = list(model.parameters())
    order, memory = torch.Generator().manual_seed(recipe.seed), {}
    for epoch in range(recipe.epochs):
        rate = recipe.learning_rate * [factor for start, factor in recipe.schedule if start <= epoch][-1]
        logits = torch.full((len(rows), CLASSES), torch.nan, dtype=torch.float64)
        for positions in torch.randperm(len(rows), generator=order).split(recipe.batch_size):
            batch = torch.from_numpy(rows)[positions]
            output = model(x[batch])
            logits[positions] = output.detach()
            gradients = torch.autograd.grad(nn.functional.cross_entropy(output, y[batch], weight), parameters)
            with torch.no_grad():
                if recipe.optimizer == "adam":
                    adam_by_hand(parameters, gradients, memory, rate, recipe.weight_decay)
                else:
                    sgd_by_hand(parameters, gradients, memory, rate, recipe.weight_decay, recipe.momentum)
        yield logits, {name: value.detach().clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("widths", [(), (8,), (7, 6, 9)])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_stack_equals_plain_loops(data, name, widths):
    recipe = OPTIMIZERS[name]
    some = np.random.default_rng(1).permutation(SAMPLES)
    jobs = [
        TrainingJob("all", recipe.with_seed(3), np.arange(SAMPLES), np.arange(SAMPLES)),
        TrainingJob("some", recipe.with_seed(4), some[:50], some[50:]),
        TrainingJob("another", recipe.with_seed(5), np.arange(SAMPLES), np.arange(SAMPLES)),
    ]
    executor = StackedExecutor(jobs, data[0], torch.from_numpy(data[1]), CLASSES, widths)
    by_hand = [train_by_hand(data, job.train_rows, job.recipe, widths) for job in jobs]
    everyone = torch.arange(SAMPLES)
    for epoch in range(recipe.epochs):
        for number, (found, expected) in enumerate(zip(executor.train_epoch(epoch), by_hand, strict=True)):
            logits, weights = next(expected)
            torch.testing.assert_close(found, logits, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(executor.weights(number), weights, rtol=1e-10, atol=1e-10)
            module = executor.module(number)
            with torch.no_grad():
                expected_logits = module(data[0].values)
            torch.testing.assert_close(executor.evaluate(number, everyone), expected_logits, rtol=1e-10, atol=1e-10)


def test_balanced_classes_are_those_of_weighted_cross_entropy(data):
    """As CTRL's code weights them, up to a factor that the weighted mean cancels: N / K / samples of the class."""
    recipe = OPTIMIZERS["adam with decay"]
    labels = np.where(np.arange(SAMPLES) < 50, 0, data[1])  # classes of different size
    inputs, rows = data[0], np.random.default_rng(1).permutation(SAMPLES)[:55]
    jobs = [TrainingJob("some", recipe.with_seed(4), rows, rows), TrainingJob("other", recipe, rows[:39], rows)]
    executor = StackedExecutor(jobs, inputs, torch.from_numpy(labels), CLASSES, (7, 6), balanced=True)
    by_hand = []
    for job in jobs:
        counts = np.bincount(labels[job.train_rows], minlength=CLASSES)
        weight = torch.from_numpy(len(job.train_rows) / CLASSES / counts)
        assert weight.max() > 3 * weight.min()
        by_hand.append(train_by_hand((inputs, labels), job.train_rows, job.recipe, (7, 6), weight))
    for epoch in range(recipe.epochs):
        for number, (found, expected) in enumerate(zip(executor.train_epoch(epoch), by_hand, strict=True)):
            logits, weights = next(expected)
            torch.testing.assert_close(found, logits, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(executor.weights(number), weights, rtol=1e-10, atol=1e-10)


def test_only_an_mlp_given_by_its_widths_can_be_balanced(data):
    options = TrainingOptions(swa=False, class_weights="balanced")
    recipe = OPTIMIZERS["adam"]
    (result,) = gather(*data, CLASSES, (8,), recipe, options=options, device="cpu")
    assert result.dynamics is not None
    with pytest.raises(InputError, match="only for MLPs"):
        gather(*data, CLASSES, lambda: mlp([FEATURES, 8, CLASSES]).double(), recipe, options=options, device="cpu")


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize(("features", "widths", "batch"), [(21, (100,), 512), (9, (513, 3), 1024), (3, (), 7)])
def test_in_double_precision_a_run_has_the_same_bits_alone_and_stacked(optimizer, features, widths, batch):
    """The second shape is too large for one stack: side by side, the runs use separate threads."""
    rng = np.random.default_rng(0)
    samples = 2 * batch + batch // 3
    data = TableInputs(rng.normal(size=(samples, features))), rng.integers(0, 7, samples)
    recipe = Recipe(epochs=2, batch_size=batch, learning_rate=1e-3, weight_decay=0.01, optimizer=optimizer)
    company = gather(*data, 7, widths, recipe, seeds=(0, 1, 2), device="cpu")
    for number in (0, 2):
        (alone,) = gather(*data, 7, widths, recipe, seeds=(number,), device="cpu")
        np.testing.assert_array_equal(alone.dynamics.logits, company[number].dynamics.logits)
        np.testing.assert_array_equal(alone.dynamics.swa_logits, company[number].dynamics.swa_logits)
        torch.testing.assert_close(alone.weights, company[number].weights, rtol=0, atol=0)


@pytest.mark.parametrize("stacked", [False, True])
def test_folds_have_the_same_bits_alone_and_stacked(data, stacked):
    model = (8,) if stacked else lambda: mlp([FEATURES, 8, CLASSES]).double()
    recipe = Recipe(epochs=3, batch_size=16, learning_rate=0.01, weight_decay=0.01)
    together, one_by_one = (
        gather(*data, CLASSES, model, recipe, folds=4, seeds=(0, 1), device="cpu", side_by_side=width)
        for width in (None, 1)
    )
    for some, one in zip(together, one_by_one, strict=True):
        np.testing.assert_array_equal(some.dynamics.logits, one.dynamics.logits)
        torch.testing.assert_close(some.weights, one.weights, rtol=0, atol=0)


@pytest.mark.parametrize("stacked", [False, True])
def test_a_finished_run_does_not_change_while_others_train(data, stacked, tmp_path):
    model = (8,) if stacked else lambda: mlp([FEATURES, 8, CLASSES]).double()
    recipe = Recipe(epochs=2, batch_size=16, learning_rate=0.05, weight_decay=0.1)
    long = Recipe(epochs=9, batch_size=16, learning_rate=0.05)
    everyone = np.arange(SAMPLES)
    jobs = [TrainingJob("short", recipe, everyone, everyone), TrainingJob("long", long, everyone, everyone)]
    make = executor_for(model, *data, CLASSES, "cpu")

    class StopError(Exception):
        pass

    reported = []

    def stop_once(epochs):
        reported.append(epochs)
        if len(reported) == 6:
            raise StopError

    options = TrainingOptions(features=True, checkpoint_seconds=0)
    alone = [train([job], data[1], make, options)[0] for job in jobs]
    with pytest.raises(StopError):
        train(jobs, data[1], make, options, tmp_path, progress=stop_once)
    resumed = train(jobs, data[1], make, options, tmp_path)
    beside = train(jobs, data[1], make, options, progress=reported.append)
    for found in (beside, resumed):
        for one, other in zip(alone, found, strict=True):
            np.testing.assert_array_equal(one.dynamics.logits, other.dynamics.logits)
            np.testing.assert_array_equal(one.dynamics.features, other.dynamics.features)
            torch.testing.assert_close(one.weights, other.weights, rtol=0, atol=0)
    assert sum(reported[6:]) == recipe.epochs + long.epochs


@pytest.mark.parametrize("stacked", [False, True])
def test_parts_of_a_pass_cover_all_samples(data, stacked):
    """Unwritten memory is filled with NaN: a sample that was not trained on must not look like divergence."""
    recipe = Recipe(epochs=7, batch_size=8, learning_rate=0.01, parts=3)
    watched = np.array([3, 60, 11])
    model = (8,) if stacked else lambda: mlp([FEATURES, 8, CLASSES]).double()
    torch.use_deterministic_algorithms(True)
    try:
        (result,) = gather(*data, CLASSES, model, recipe, watched=watched, device="cpu")
    finally:
        torch.use_deterministic_algorithms(False)
    assert result.stopped is None
    np.testing.assert_array_equal(result.dynamics.ids, watched)
    x, y = data[0].values, torch.from_numpy(data[1])
    torch.manual_seed(0)
    by_hand = mlp([FEATURES, 8, CLASSES]).double()
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=0.01)
    order = torch.Generator().manual_seed(0)
    batches = [batch for _ in range(3) for batch in torch.randperm(SAMPLES, generator=order).split(8)]
    for epoch in range(7):
        for batch in batches[3 * epoch : 3 * epoch + 3]:
            optimizer.zero_grad()
            nn.functional.cross_entropy(by_hand(x[batch]), y[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            expected = by_hand(x[watched])
        np.testing.assert_allclose(result.dynamics.logits[epoch], expected, rtol=1e-6, atol=1e-6)


def test_a_diverged_run_does_not_affect_other_runs(data, capsys):
    sound = OPTIMIZERS["sgd with momentum"]
    wild = Recipe(epochs=4, batch_size=16, learning_rate=1e30, optimizer="sgd")
    everyone = np.arange(SAMPLES)
    make = executor_for((8,), *data, CLASSES, "cpu")
    jobs = [
        TrainingJob("before", sound.with_seed(1), everyone, everyone),
        TrainingJob("wild", wild, everyone, everyone),
        TrainingJob("after", sound.with_seed(2), everyone, everyone),
    ]
    beside = train(jobs, data[1], make, TrainingOptions())
    assert beside[1].stopped == "wild diverged: its logits are not finite at epoch 0"
    assert (
        "errata: wild diverged: its logits are not finite at epoch 0. The other runs continue."
        in capsys.readouterr().err
    )
    for number in (0, 2):
        (alone,) = train([jobs[number]], data[1], make, TrainingOptions())
        assert beside[number].stopped is None
        np.testing.assert_array_equal(alone.dynamics.logits, beside[number].dynamics.logits)
        torch.testing.assert_close(alone.weights, beside[number].weights, rtol=0, atol=0)


def test_a_run_that_diverges_in_a_stack_does_not_affect_the_stack(data):
    """Only the run with an infinite weight may diverge."""
    jobs = in_sample_jobs(SAMPLES, OPTIMIZERS["adam with decay"], (1, 2, 3))
    executor, spoilt = (StackedExecutor(jobs, data[0], torch.from_numpy(data[1]), CLASSES, (8,)) for _ in range(2))
    spoilt.weights(1)["0.weight"][0, 0] = torch.inf
    for epoch in range(3):
        sound, found = executor.train_epoch(epoch), spoilt.train_epoch(epoch)
        assert not torch.isfinite(found[1]).all()
        for number in (0, 2):
            assert torch.equal(sound[number], found[number])
        spoilt.stop(1)
