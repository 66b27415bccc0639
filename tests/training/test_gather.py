import numpy as np
import pytest
import torch
from torch import nn

from errata import InputError
from errata.training.gather import gather
from errata.training.jobs import TrainingOptions
from errata.training.model_inputs import Images, TableInputs
from errata.training.models import mlp
from errata.training.recipes import Recipe

SAMPLES, CLASSES, EPOCHS, SEED = 23, 3, 4, 7
RECIPE = Recipe(
    epochs=EPOCHS, batch_size=5, learning_rate=0.05, weight_decay=0.01, schedule=((0, 1.0), (2, 0.1)), seed=SEED
)
WIDTHS = (8,)


@pytest.fixture
def data():
    """A table (N, 4) whose first column is the number of the sample, and labels (N,)."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(SAMPLES, 4)).astype(np.float32)
    inputs[:, 0] = np.arange(SAMPLES) / SAMPLES
    return TableInputs(inputs), np.arange(SAMPLES) % CLASSES


class Spy(nn.Module):
    """A network that stores the rows and logits of every pass, and whether it was in training mode."""

    def __init__(self):
        super().__init__()
        self.network = mlp([4, *WIDTHS, CLASSES])
        self.seen = []

    def forward(self, x):
        logits = self.network(x)
        rows = (x[:, 0] * SAMPLES).round().long().tolist()
        self.seen.append((self.training, rows, logits.detach().clone()))
        return logits

    def passes(self, *, in_training):
        return [(rows, logits) for training, rows, logits in self.seen if training == in_training]


@pytest.fixture
def spies():
    return []


@pytest.fixture
def build(spies):
    def build():
        spies.append(Spy())
        return spies[-1]

    return build


def gathered(data, model, recipe=RECIPE, **options):
    (one,) = gather(*data, CLASSES, model, recipe, seeds=(SEED,), device="cpu", **options)
    return one


def by_hand(data):
    """In-sample training in a plain loop: logits of the training pass before each update, weights after each epoch."""
    x, y = data[0].values, torch.tensor(data[1])
    torch.manual_seed(SEED)
    model = mlp([4, *WIDTHS, CLASSES])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=0.01)
    order_of = torch.Generator().manual_seed(SEED)
    logits = torch.full((EPOCHS, SAMPLES, CLASSES), torch.nan)
    weights = []
    for epoch in range(EPOCHS):
        optimizer.param_groups[0]["lr"] = 0.05 if epoch < 2 else 0.005
        order = torch.randperm(SAMPLES, generator=order_of)
        for start in range(0, SAMPLES, 5):
            rows = order[start : start + 5]
            output = model(x[rows])
            logits[epoch, rows] = output.detach()
            optimizer.zero_grad()
            nn.functional.cross_entropy(output, y[rows]).backward()
            optimizer.step()
        weights.append([parameter.detach().double().clone() for parameter in model.parameters()])
    return logits.numpy(), weights


@pytest.mark.parametrize("stacked", [False, True])
def test_in_sample_logits_are_those_of_the_training_pass_before_each_update(data, build, stacked):
    expected, weights = by_hand(data)
    result = gathered(data, WIDTHS if stacked else build)
    np.testing.assert_allclose(result.dynamics.logits, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(result.dynamics.labels, data[1])
    assert result.dynamics.gathering == "in-sample"
    for found, last in zip(result.weights[0].values(), weights[-1], strict=True):
        np.testing.assert_allclose(found, last, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("stacked", [False, True])
def test_averaged_weights_are_the_mean_over_the_ends_of_epochs(data, build, stacked):
    _, weights = by_hand(data)
    result = gathered(data, WIDTHS if stacked else build)
    average = mlp([4, *WIDTHS, CLASSES]).double()
    with torch.no_grad():
        for parameter, values in zip(average.parameters(), zip(*weights, strict=True), strict=True):
            parameter.copy_(torch.stack(values).mean(dim=0))
        expected = average(data[0].values.double())
    np.testing.assert_allclose(result.dynamics.swa_logits, expected.numpy(), rtol=1e-3, atol=1e-4)


def test_every_sample_is_trained_on_once_per_epoch_and_recorded_then(data, build, spies):
    dynamics = gathered(data, build).dynamics
    (spy,) = spies
    passes = spy.passes(in_training=True)
    per_epoch = -(-SAMPLES // RECIPE.batch_size)
    assert len(passes) == EPOCHS * per_epoch
    for epoch in range(EPOCHS):
        batches = passes[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sorted(row for rows, _ in batches for row in rows) == list(range(SAMPLES))
        for rows, logits in batches:
            np.testing.assert_array_equal(dynamics.logits[epoch, rows], logits.numpy())
    assert len({tuple(rows) for rows, _ in passes}) == len(passes)


def test_out_of_sample_logits_come_from_models_not_trained_on_the_sample(data, build, spies):
    dynamics = gathered(data, build, folds=4).dynamics
    assert dynamics.gathering == "out-of-sample"
    assert sorted(np.unique(dynamics.fold)) == [0, 1, 2, 3]
    assert len(spies) == 4
    for number, spy in enumerate(spies):
        held_out = set(np.flatnonzero(dynamics.fold == number).tolist())
        trained_on = [row for rows, _ in spy.passes(in_training=True) for row in rows]
        assert set(trained_on) == set(range(SAMPLES)) - held_out
        assert len(trained_on) == EPOCHS * (SAMPLES - len(held_out))
        judged = spy.passes(in_training=False)
        assert len(judged) == EPOCHS
        for epoch, (rows, logits) in enumerate(judged):
            assert set(rows) == held_out
            np.testing.assert_array_equal(dynamics.logits[epoch, rows], logits.numpy())


@pytest.mark.parametrize("stacked", [False, True])
def test_random_labels_are_memorised_in_sample_and_missed_out_of_sample(stacked):
    """A sample is its own input: only a model trained on it can predict its label."""
    data = TableInputs(np.eye(40, dtype=np.float32)), np.random.default_rng(0).integers(0, CLASSES, 40)
    recipe = Recipe(epochs=30, batch_size=8, learning_rate=0.1)
    model = () if stacked else lambda: mlp([40, CLASSES])
    inside, outside = (
        gathered(data, model, recipe, folds=folds).dynamics.logits[-1].argmax(axis=1) == data[1] for folds in (None, 4)
    )
    assert inside.all()
    assert outside.mean() < 0.7


def test_folds_are_stratified(data):
    dynamics = gathered(data, WIDTHS, folds=4).dynamics
    counts = np.array([np.bincount(data[1][dynamics.fold == number], minlength=CLASSES) for number in range(4)])
    assert (counts.max(axis=0) - counts.min(axis=0) <= 1).all()


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("folds", [None, 4])
def test_a_seed_gives_the_same_run_after_other_random_numbers(data, build, folds, stacked):
    model = WIDTHS if stacked else build
    first = gathered(data, model, folds=folds)
    torch.rand(17)
    again = gathered(data, model, folds=folds)
    np.testing.assert_array_equal(first.dynamics.logits, again.dynamics.logits)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("folds", [None, 4])
def test_a_seed_gives_the_same_run_beside_other_seeds(data, build, folds, stacked):
    model = WIDTHS if stacked else build
    if stacked:  # in float32 a run alone may use all threads, and sums over threads round another way
        data = TableInputs(data[0].values.double()), data[1]
    alone = gathered(data, model, folds=folds)
    several = gather(*data, CLASSES, model, RECIPE, folds=folds, seeds=(3, SEED, 9), device="cpu")
    assert [one.seed for one in several] == [3, SEED, 9]
    assert (several[0].dynamics.logits != alone.dynamics.logits).any()
    np.testing.assert_array_equal(several[1].dynamics.logits, alone.dynamics.logits)


@pytest.mark.parametrize("folds", [None, 4])
def test_progress_is_reported_for_every_epoch(data, folds):
    reported = []
    gathered(data, WIDTHS, folds=folds, progress=reported.append)
    assert sum(reported) == EPOCHS * (folds or 1)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("batch_size", [1, 11, 23, 100])
def test_any_size_of_batch_records_every_sample(data, build, batch_size, stacked):
    recipe = Recipe(epochs=2, batch_size=batch_size, learning_rate=0.01)
    dynamics = gathered(data, WIDTHS if stacked else build, recipe).dynamics
    assert dynamics.logits.shape == (2, SAMPLES, CLASSES)
    assert np.isfinite(dynamics.logits).all()


class StopError(Exception):
    pass


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("folds", [None, 4])
def test_stopped_training_resumes_bit_for_bit_and_is_not_repeated(tmp_path, data, folds, stacked):
    model = WIDTHS if stacked else lambda: mlp([4, *WIDTHS, CLASSES])
    unhurt = gathered(data, model, folds=folds)
    done = 0

    def stop_after_some_epochs(epochs):
        nonlocal done
        done += epochs
        if done >= 2 * (folds or 1):
            raise StopError

    often = TrainingOptions(checkpoint_seconds=0.0, swa=folds is None)
    with pytest.raises(StopError):
        gathered(data, model, folds=folds, folder=tmp_path, options=often, progress=stop_after_some_epochs)
    for _ in range(2):
        resumed = gathered(data, model, folds=folds, folder=tmp_path, options=often)
        np.testing.assert_array_equal(resumed.dynamics.logits, unhurt.dynamics.logits)
        for found, expected in zip(resumed.weights, unhurt.weights, strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
        if folds is None:
            np.testing.assert_array_equal(resumed.dynamics.swa_logits, unhurt.dynamics.swa_logits)

        def model_that_must_not_be_built():
            raise AssertionError("trained again")

        if not stacked:
            model = model_that_must_not_be_built


def test_a_run_that_diverges_is_reported(data, capsys):
    recipe = Recipe(epochs=3, batch_size=5, learning_rate=1e38, optimizer="sgd")
    result = gathered(data, WIDTHS, recipe)
    assert result.dynamics is None
    assert result.stopped.startswith("seed7 diverged: its logits are not finite at epoch ")
    assert "seed7 diverged" in capsys.readouterr().err


def test_bad_input_is_refused_before_training(data):
    table, labels = data
    for inputs, given, model, message in (
        (table, labels[:5], WIDTHS, "there are 5 labels for 23 samples"),
        (table, labels + 1, WIDTHS, r"label of sample 2 is 3, outside 0\.\.2"),
        (Images(np.zeros((23, 3, 4, 4), np.uint8), [0.5] * 3, [0.5] * 3), labels, WIDTHS, "which needs a table"),
    ):
        with pytest.raises(InputError, match=message):
            gather(inputs, given, CLASSES, model, RECIPE, device="cpu")
    with pytest.raises(InputError, match="row 1 of the table has a value that is not finite"):
        TableInputs(np.array([[0.0], [np.nan]]))
    with pytest.raises(InputError, match="23 samples cannot be split into 24 folds"):
        gather(table, labels, CLASSES, WIDTHS, RECIPE, folds=24, device="cpu")


def test_a_network_is_linear_layers_with_relu_between(data):
    network = mlp([4, 8, 6, CLASSES]).double()
    assert [type(layer) for layer in network] == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    expected = data[0].values.double().numpy()
    for layer in network:
        if isinstance(layer, nn.ReLU):
            expected = np.maximum(expected, 0)
        else:
            expected = expected @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    np.testing.assert_allclose(network(data[0].values.double()).detach().numpy(), expected, rtol=1e-12)
