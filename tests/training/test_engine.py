import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from errata import Dynamics, InputError
from errata.errors import StoreError
from errata.training import executors
from errata.training.engine import train
from errata.training.gather import executor_for, gather
from errata.training.jobs import TrainingOptions, in_sample_jobs
from errata.training.model_inputs import Images, TableInputs
from errata.training.models import mlp
from errata.training.recipes import Recipe
from errata.training.transforms import PadCropFlip

SAMPLES, CLASSES = 22, 3
RECIPE = Recipe(epochs=3, batch_size=8, learning_rate=0.02)
OFTEN = TrainingOptions(checkpoint_seconds=0)


def small_network():
    """No bias before batch norm: its gradient is only rounding errors, but Adam would take full steps with it."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout2d(0.4),
        nn.Flatten(),
        nn.Linear(144, 8),
        nn.ReLU(),
        nn.Linear(8, CLASSES),
    )


@pytest.fixture
def labels():
    return np.arange(SAMPLES) % CLASSES


@pytest.fixture
def table():
    return TableInputs(np.random.default_rng(0).normal(size=(SAMPLES, 4)).astype(np.float32))


@pytest.fixture
def images():
    pixels = np.random.default_rng(0).integers(0, 256, (SAMPLES, 3, 8, 8), dtype=np.uint8)
    return Images(pixels, [0.5] * 3, [0.25] * 3, augment=PadCropFlip(2))


def same(one, other):
    np.testing.assert_array_equal(one.dynamics.logits, other.dynamics.logits)
    np.testing.assert_array_equal(one.dynamics.swa_logits, other.dynamics.swa_logits)
    torch.testing.assert_close(one.weights, other.weights, rtol=0, atol=0)


@pytest.fixture(params=["stacked", "module", "images"])
def gather_one(request, table, images, labels):
    """In-sample training of a stacked MLP, of an MLP as a module, and of a network with dropout and augmentation."""
    inputs, model = {
        "stacked": (table, (8,)),
        "module": (table, lambda: mlp([4, 8, CLASSES])),
        "images": (images, small_network),
    }[request.param]

    def gather_one(recipe=RECIPE, seeds=(5,), **arguments):
        results = gather(inputs, labels, CLASSES, model, recipe, seeds=seeds, device="cpu", **arguments)
        return results if len(seeds) > 1 else results[0]

    return gather_one


def train_by_hand(images, labels, epochs):
    """A network trained with augmentation, dropout and batch norm: logits before the updates, weights after epochs."""
    order = torch.Generator().manual_seed(5)
    given = torch.from_numpy(labels)
    torch.manual_seed(5)
    model = small_network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    logits = torch.full((epochs, SAMPLES, CLASSES), torch.nan)
    weights = []
    for epoch in range(epochs):
        for rows in torch.randperm(SAMPLES, generator=order).split(8):
            output = model((PadCropFlip(2)(images.pixels[rows], None) / 255 - 0.5) / 0.25)
            logits[epoch, rows] = output.detach()
            optimizer.zero_grad()
            cross_entropy(output, given[rows]).backward()
            optimizer.step()
        weights.append({name: value.clone() for name, value in model.state_dict().items()})
    return logits, weights


@pytest.fixture
def in_float32(monkeypatch):
    monkeypatch.setattr(executors, "cpu_has_bfloat16", lambda: False)


@pytest.mark.parametrize("has_bfloat16", [False, True])
def test_only_images_are_computed_in_bfloat16_and_only_if_the_cpu_has_it(images, table, monkeypatch, has_bfloat16):
    monkeypatch.setattr(executors, "cpu_has_bfloat16", lambda: has_bfloat16)
    torch.manual_seed(0)
    for inputs, model in ((images, small_network()), (table, mlp([4, 8, CLASSES]))):
        (raw,) = inputs.fetch([torch.arange(SAMPLES)])
        model.eval()
        logits, expected = executors.forward(model, inputs.test(raw)), model(inputs.test(raw))
        assert logits.dtype == torch.float32
        torch.testing.assert_close(logits, expected, rtol=0.02, atol=0.02)
        assert torch.equal(logits, expected) == (inputs is table or not has_bfloat16)


@pytest.mark.usefixtures("in_float32")
def test_logits_averages_and_features_equal_those_of_a_plain_loop(images, labels):
    options = TrainingOptions(features=True)
    (result,) = gather(images, labels, CLASSES, small_network, RECIPE, seeds=(5,), options=options, device="cpu")
    with torch.random.fork_rng():
        logits, weights = train_by_hand(images, labels, RECIPE.epochs)
    np.testing.assert_allclose(result.dynamics.logits, logits, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(result.weights[0], weights[-1], rtol=1e-3, atol=1e-4)

    last, averaged = small_network(), small_network()
    last.load_state_dict(weights[-1])
    mean = {name: torch.stack([each[name].double() for each in weights]).mean(dim=0) for name in weights[0]}
    averaged.load_state_dict(mean)
    test_inputs = (images.pixels / 255 - 0.5) / 0.25
    with torch.no_grad():
        augmented = PadCropFlip(2)(images.pixels, torch.Generator().manual_seed(5))
        convolved = averaged[0]((augmented / 255 - 0.5) / 0.25).transpose(0, 1).flatten(1)
        averaged[1].running_mean.copy_(convolved.mean(dim=1))
        averaged[1].running_var.copy_(convolved.var(dim=1))
        np.testing.assert_allclose(result.dynamics.swa_logits, averaged.eval()(test_inputs), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(result.dynamics.features, last.eval()[:-1](test_inputs), rtol=1e-3, atol=1e-4)


def test_several_batches_in_one_call_are_one_update_each(table, labels):
    """On a GPU, a CUDA graph contains several batches; the last one may be short."""
    jobs = in_sample_jobs(SAMPLES, RECIPE, (3,))
    given = torch.from_numpy(labels)
    rows = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(0))
    one, other = (executors.ModuleExecutor(jobs, table, given, CLASSES, lambda: mlp([4, 8, CLASSES])) for _ in range(2))
    one._modules[0]._fetch_and_update(rows)
    for batch in torch.split(rows, RECIPE.batch_size):
        other._modules[0]._fetch_and_update(batch)
    torch.testing.assert_close(one.weights(0), other.weights(0), rtol=0, atol=0)
    assert torch.equal(one._modules[0].logits, other._modules[0].logits)


@pytest.mark.usefixtures("in_float32")
def test_batch_norm_statistics_weigh_all_samples_equally(images, labels):
    """22 samples in batches of at most 7: a last batch of one would weigh too much, or could not be normalised."""

    def network():
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES))

    plain = Images(images.pixels, [0.5] * 3, [0.25] * 3)
    plain.evaluation_batch = 7
    recipe = Recipe(epochs=1, batch_size=11, learning_rate=0.01)
    (result,) = gather(plain, labels, CLASSES, network, recipe, device="cpu")
    model = network()
    model.load_state_dict(result.weights[0])
    with torch.no_grad():
        hidden = model[1](((images.pixels / 255 - 0.5) / 0.25).flatten(1))
        batches = np.array_split(hidden.numpy(), 4)
        model[2].running_mean.copy_(torch.tensor(np.mean([batch.mean(axis=0) for batch in batches], axis=0)))
        model[2].running_var.copy_(torch.tensor(np.mean([batch.var(axis=0, ddof=1) for batch in batches], axis=0)))
        np.testing.assert_allclose(result.dynamics.swa_logits, model.eval()[2:](hidden), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("in_float32")
def test_logits_after_the_epoch_are_from_evaluation_mode(images, labels):
    options = TrainingOptions(when="after epoch")
    (result,) = gather(images, labels, CLASSES, small_network, RECIPE, seeds=(5,), options=options, device="cpu")
    with torch.random.fork_rng():
        _, weights = train_by_hand(images, labels, RECIPE.epochs)
    model = small_network().eval()
    for epoch, state in enumerate(weights):
        model.load_state_dict(state)
        with torch.no_grad():
            expected = model((images.pixels / 255 - 0.5) / 0.25)
        np.testing.assert_allclose(result.dynamics.logits[epoch], expected, rtol=1e-3, atol=1e-4)


def test_features_are_the_same_in_several_batches(table, labels, monkeypatch):
    whole = gather(table, labels, CLASSES, (8,), RECIPE, options=TrainingOptions(features=True), device="cpu")[0]
    monkeypatch.setattr(table, "evaluation_batch", 5)
    parts = gather(table, labels, CLASSES, (8,), RECIPE, options=TrainingOptions(features=True), device="cpu")[0]
    np.testing.assert_allclose(whole.dynamics.features, parts.dynamics.features, rtol=1e-5)
    model = mlp([4, 8, CLASSES])
    model.load_state_dict(whole.weights[0])
    with torch.no_grad():
        np.testing.assert_allclose(whole.dynamics.features, model[:-1](table.values), rtol=1e-5, atol=1e-6)


def test_a_model_without_features_is_refused_before_training(images, labels):
    def network():
        return nn.Sequential(nn.Conv2d(3, CLASSES, 8), nn.Flatten())

    reported = []
    arguments = {"device": "cpu", "progress": reported.append}
    with pytest.raises(InputError, match="Sequential has no linear layer"):
        gather(images, labels, CLASSES, network, RECIPE, options=TrainingOptions(features=True), **arguments)
    assert sum(reported) == 0
    assert gather(images, labels, CLASSES, network, RECIPE, **arguments)[0].stopped is None


def test_the_global_seed_has_no_effect_and_does_not_change(gather_one):
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        results.append(gather_one(options=TrainingOptions(features=True)))
        assert torch.equal(before, torch.get_rng_state())
    same(*results)


def test_runs_side_by_side_equal_runs_alone(gather_one):
    several = gather_one(seeds=(4, 5, 6))
    same(gather_one(), several[1])
    for one, other in zip(several, gather_one(seeds=(4, 5, 6), side_by_side=2), strict=True):
        same(one, other)


def test_seeds_may_be_any_integer_type(gather_one, tmp_path):
    several = gather_one(seeds=np.array([4, 5]), folder=tmp_path, options=OFTEN)
    assert [one.seed for one in several] == [4, 5]
    same(gather_one(), several[1])


def test_every_run_starts_from_a_given_module_which_stays_unchanged(table, labels):
    model = mlp([4, 8, CLASSES])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first, second = gather(table, labels, CLASSES, model, RECIPE, seeds=(0, 1), device="cpu")
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        np.testing.assert_allclose(first.dynamics.logits[0, order[:8]], model(table.values[order[:8]]), rtol=1e-5)
    assert (first.dynamics.logits != second.dynamics.logits).any()


def test_unsuitable_models_are_refused(table, labels):
    shared = mlp([4, CLASSES])
    for model, message in (
        (lambda: shared, "returned the same one twice"),
        (lambda: mlp([4, 5]), r"logits of shape \(8, 5\) for 8 samples of 3 classes"),
        (lambda: mlp([4, 2]), r"logits of shape \(8, 2\) for 8 samples of 3 classes"),
    ):
        with pytest.raises(InputError, match=message):
            gather(table, labels, CLASSES, model, RECIPE, seeds=(0, 1), device="cpu")


def test_invalid_arguments_are_refused(table, labels):
    for arguments, message in (
        ({"seeds": (1, 2, 1)}, "seed1 is listed twice"),
        ({"side_by_side": -1}, "side_by_side must be at least 1"),
        ({"side_by_side": 0}, "side_by_side must be at least 1"),
    ):
        with pytest.raises(InputError, match=message):
            gather(table, labels, CLASSES, (8,), RECIPE, device="cpu", **arguments)


def test_out_of_memory_continues_with_fewer_runs_side_by_side(table, labels, tmp_path, capsys):
    jobs = in_sample_jobs(SAMPLES, RECIPE, tuple(range(5)))
    make = executor_for((8,), table, labels, CLASSES, "cpu")
    sizes, reported = [], []

    def make_at_most_two(group):
        sizes.append(len(group))
        executor = make(group)
        if len(group) > 2:
            train_epoch = executor.train_epoch

            def train_until_memory_is_out(epoch):
                if epoch == 2:
                    raise torch.cuda.OutOfMemoryError("simulated")
                return train_epoch(epoch)

            executor.train_epoch = train_until_memory_is_out
        return executor

    results = train(jobs, labels, make_at_most_two, OFTEN, tmp_path, progress=reported.append)
    assert sizes == [5, 3, 2, 2, 1]
    assert capsys.readouterr().err.splitlines() == [
        "errata: out of GPU memory; continuing with 3 runs side by side",
        "errata: out of GPU memory; continuing with 2 runs side by side",
    ]
    assert sum(reported) == 5 * RECIPE.epochs
    for job, result in zip(jobs, results, strict=True):
        assert result.job is job
        (alone,) = train([job], labels, make, OFTEN)
        np.testing.assert_array_equal(result.dynamics.logits, alone.dynamics.logits)
        np.testing.assert_array_equal(result.dynamics.swa_logits, alone.dynamics.swa_logits)
    assert not list(tmp_path.glob("*.checkpoint"))

    def never(group):
        raise torch.cuda.OutOfMemoryError("simulated")

    with pytest.raises(torch.cuda.OutOfMemoryError):
        train(jobs, labels, never, OFTEN)


class StopError(Exception):
    pass


def stop_after(epochs):
    def stop(done):
        stop.reported += done
        if stop.reported >= epochs:
            raise StopError

    stop.reported = 0
    return stop


@pytest.mark.parametrize("width", [1, 2, 3])
def test_runs_may_resume_in_groups_of_another_size(gather_one, tmp_path, width):
    seeds = (4, 5, 6)
    unhurt = gather_one(seeds=seeds)
    with pytest.raises(StopError):
        gather_one(seeds=seeds, folder=tmp_path, options=OFTEN, progress=stop_after(6))
    reported = []
    with pytest.raises(StopError):
        gather_one(seeds=seeds, folder=tmp_path, options=OFTEN, side_by_side=width, progress=stop_after(5))
    resumed = gather_one(seeds=seeds, folder=tmp_path, options=OFTEN, progress=reported.append)
    assert sum(reported) == 9
    for one, other in zip(unhurt, resumed, strict=True):
        same(one, other)
    assert not list(tmp_path.glob("*.checkpoint"))


def test_a_finished_run_is_unchanged_when_others_resume(gather_one, tmp_path, monkeypatch):
    """The process stops between writing the results of two runs: the first stays finished."""
    from errata.training import job_runs

    save = job_runs.save_state

    def save_one_result(path, state):
        if path.name == job_runs.RESULT and path.parent.name == "seed5":
            raise StopError
        save(path, state)

    monkeypatch.setattr(job_runs, "save_state", save_one_result)
    with pytest.raises(StopError):
        gather_one(seeds=(4, 5), folder=tmp_path, options=OFTEN)
    monkeypatch.setattr(job_runs, "save_state", save)
    with pytest.raises(StopError):
        gather_one(seeds=(4, 5), folder=tmp_path, options=OFTEN, progress=stop_after(4))
    assert Dynamics.open(tmp_path / "seed4" / "dynamics").epochs == RECIPE.epochs
    for one, other in zip(
        gather_one(seeds=(4, 5)), gather_one(seeds=(4, 5), folder=tmp_path, options=OFTEN), strict=True
    ):
        same(one, other)


def test_many_runs_side_by_side_have_one_checkpoint(table, labels, tmp_path):
    """A file name that lists forty runs would be too long for the file system."""
    recipe = Recipe(epochs=1, batch_size=22, learning_rate=0.1)
    seeds = range(10)
    results = gather(
        table, labels, CLASSES, (4,), recipe, folds=4, seeds=seeds, folder=tmp_path, options=OFTEN, device="cpu"
    )
    assert len(results) == 10


def test_an_interrupted_merge_of_folds_is_repeated(table, labels, tmp_path, monkeypatch):
    from errata.dynamics.recorder import Recorder

    arguments = {"folder": tmp_path, "device": "cpu"}
    unhurt = gather(table, labels, CLASSES, (8,), RECIPE, folds=4, device="cpu")[0]
    end_epoch = Recorder.end_epoch

    def stop_while_merging(self, **options):
        end_epoch(self, **options)
        if len(self._recorded) == SAMPLES and self.epoch == 2:
            raise StopError

    monkeypatch.setattr(Recorder, "end_epoch", stop_while_merging)
    with pytest.raises(StopError):
        gather(table, labels, CLASSES, (8,), RECIPE, folds=4, **arguments)
    monkeypatch.setattr(Recorder, "end_epoch", end_epoch)
    for _ in range(2):
        resumed = gather(table, labels, CLASSES, (8,), RECIPE, folds=4, **arguments)[0]
        np.testing.assert_array_equal(resumed.dynamics.logits, unhurt.dynamics.logits)
        np.testing.assert_array_equal(resumed.dynamics.fold, unhurt.dynamics.fold)


@pytest.mark.parametrize("finished", [True, False])
def test_a_folder_of_another_run_is_refused(table, labels, tmp_path, finished):
    def train_again(recipe=RECIPE, given=labels, options=OFTEN, **arguments):
        gather(table, given, CLASSES, (8,), recipe, options=options, folder=tmp_path, device="cpu", **arguments)

    if finished:
        train_again()
    else:
        with pytest.raises(StopError):
            train_again(progress=stop_after(2))
    faster = Recipe(epochs=3, batch_size=8, learning_rate=0.03)
    relabelled = np.where(np.arange(SAMPLES) == 3, 1, labels)
    for arguments, name in (
        ({"recipe": faster}, "learning_rate"),
        ({"given": relabelled}, "labels"),
        ({"options": TrainingOptions(features=True)}, "features"),
        ({"watched": np.array([1, 2])}, "when"),
    ):
        with pytest.raises(StoreError, match=f"seed0 holds a run with a different {name}. Use another folder"):
            train_again(**arguments)
    train_again(options=TrainingOptions(checkpoint_seconds=7))


def test_a_broken_checkpoint_gives_a_clear_error(table, labels, tmp_path):
    arguments = {"options": OFTEN, "folder": tmp_path, "device": "cpu"}
    with pytest.raises(StopError):
        gather(table, labels, CLASSES, (8,), RECIPE, progress=stop_after(2), **arguments)
    (checkpoint,) = tmp_path.glob("*.checkpoint")
    whole = checkpoint.read_bytes()
    for part in (whole[:0], whole[: len(whole) // 2], b"something else"):
        checkpoint.write_bytes(part)
        with pytest.raises(StoreError, match=r"is not a complete checkpoint\. Delete it to restart"):
            gather(table, labels, CLASSES, (8,), RECIPE, **arguments)


def test_ctrl_c_after_the_last_step_still_interrupts(gather_one, tmp_path):
    reported = []

    def press_in_the_last_epoch(done):
        reported.append(done)
        if sum(reported) == RECIPE.epochs:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        gather_one(folder=tmp_path, options=OFTEN, progress=press_in_the_last_epoch)
    same(gather_one(), gather_one(folder=tmp_path, options=OFTEN))


COMMON = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np, torch
from torch import nn
torch.set_num_threads(1)
from errata.training.model_inputs import Images, TableInputs
from errata.training.jobs import TrainingOptions
from errata.training.gather import gather
from errata.training.recipes import Recipe
from errata.training.transforms import PadCropFlip

rng = np.random.default_rng(0)
labels = np.arange(40) % 3
recipe = Recipe(epochs=10, batch_size=8, learning_rate=0.01, weight_decay=0.01)
often = TrainingOptions(checkpoint_seconds=0)

def network():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout2d(0.4), nn.Flatten(),
                         nn.Linear(144, 3))

def stacked(folder, **arguments):
    inputs = TableInputs(np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32))
    return gather(inputs, labels, 3, (8,), recipe, folds=4, seeds=(0, 1), options=often, folder=folder, device="cpu",
                  **arguments)

def images(folder, **arguments):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 3, 8, 8), dtype=np.uint8)
    inputs = Images(pixels, [0.5] * 3, [0.25] * 3, augment=PadCropFlip(2))
    return gather(inputs, labels, 3, network, recipe, seeds=(0, 1), options=often, folder=folder, device="cpu",
                  **arguments)

train = {"stacked": stacked, "images": images}[sys.argv[1]]
folder = Path(sys.argv[2])
"""

KILLED = (
    COMMON
    + """
start = time.monotonic()
train(folder / "unhurt")
train(folder / "warm")
whole = (time.monotonic() - start) / 2
moments = random.Random(int(sys.argv[3]))
kills = 0
while True:
    child = os.fork()  # nothing is on threads here: the child starts at once, without importing everything again
    if child == 0:
        train(folder / "killed")
        os._exit(0)
    if kills < 12:
        time.sleep(moments.uniform(0, whole / 8))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        kills += 1
        continue
    assert status == 0, status
    break
print(kills)
"""
)

INTERRUPTED = (
    COMMON
    + """
def report(done):
    print("epoch", flush=True)

for name in sys.argv[2:]:
    train(Path(name), progress=report)
"""
)


def run_python(script, *arguments):
    return [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]


def same_folders(one, other):
    """Every array of every run is the same, bit for bit, and no partial file is left."""
    names = sorted(path.relative_to(one) for path in one.rglob("*.npy"))
    assert names
    assert names == sorted(path.relative_to(other) for path in other.rglob("*.npy"))
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert not [path for path in other.rglob(".*") if path.is_file() or path.suffix == ".unmerged"]
    assert not list(other.glob("*.checkpoint"))


@pytest.mark.parametrize("kind", ["stacked", "images"])
def test_training_killed_at_any_moment_resumes_bit_for_bit(tmp_path, kind):
    done = subprocess.run(run_python(KILLED, kind, tmp_path, 1), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) >= 3
    same_folders(tmp_path / "unhurt", tmp_path / "killed")


def test_an_interrupted_process_exits_and_resumes(tmp_path):
    with subprocess.Popen(
        run_python(INTERRUPTED, "images", tmp_path / "interrupted"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for _ in range(4):  # two reports before the first epoch and two epochs, so that the first is checkpointed
            assert process.stdout.readline() == "epoch\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode != 0
    assert errors.rstrip().endswith("KeyboardInterrupt")
    interrupted = Dynamics.open(tmp_path / "interrupted" / "seed0" / "dynamics").epochs
    assert 1 <= interrupted < 10
    both = run_python(INTERRUPTED, "images", tmp_path / "unhurt", tmp_path / "interrupted")
    subprocess.run(both, capture_output=True, check=True)
    same_folders(tmp_path / "unhurt", tmp_path / "interrupted")
