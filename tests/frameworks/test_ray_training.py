"""Ray on this machine: a TorchTrainer of two workers that record one run, and the folds of `errata find` as tasks."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import ray
import torch
from ray.cluster_utils import Cluster
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import errata
from errata.cli.app import app
from errata.ray_cluster import RayCluster

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not import tests
SAMPLES, EPOCHS = 41, 3  # an odd number: the sampler repeats a sample


@pytest.fixture(scope="module")
def cluster():
    changed = {"PYTHONPATH": str(Path(errata.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    with pytest.MonkeyPatch.context() as environment:
        for name, value in changed.items():
            environment.setenv(name, value)
        environment.setenv("RAY_TRAIN_V2_ENABLED", "1")
        started = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 3, "object_store_memory": 100 << 20, "include_dashboard": False},
        )
        yield started
        ray.shutdown()
        started.shutdown()


@pytest.mark.parametrize("model", ["mlp", "boosting"])
def test_folds_on_ray_give_the_same_results(cluster, tmp_path, model):
    inputs, labels = load_digits(return_X_y=True)
    rows = np.arange(150)
    table = pd.DataFrame(inputs[rows]).assign(label=(labels % 3)[rows])
    table.to_csv(tmp_path / "digits.csv", index=False)
    torch.set_num_threads(1)
    for out, extra in (("alone", []), ("on ray", ["--ray", cluster.address])):
        command = ["find", str(tmp_path / "digits.csv"), "--label", "label", "--folds", "2", "--model", model]
        result = CliRunner().invoke(app, [*command, "--out", str(tmp_path / out), *extra])
        assert result.exit_code == 0, result.output
    alone, on_ray = (errata.Dynamics.open(tmp_path / out) for out in ("alone", "on ray"))
    assert alone.logits.tobytes() == on_ray.logits.tobytes()
    assert alone.fold.tolist() == on_ray.fold.tolist()
    assert (tmp_path / "alone/ranking.csv").read_bytes() == (tmp_path / "on ray/ranking.csv").read_bytes()


def test_both_passes_on_ray_give_the_same_results(cluster, monkeypatch):
    inputs, labels = load_digits(return_X_y=True)
    labels = labels[:150] % 3
    labels[::5] = (labels[::5] + 1) % 3  # with few wrong labels, there is no second pass
    torch.set_num_threads(1)
    alone = errata.find(inputs[:150], labels, model="mlp", looks=2)
    run, functions = RayCluster.run, []
    monkeypatch.setattr(
        RayCluster, "run", lambda self, jobs: functions.extend(job.function.__name__ for job in jobs) or run(self, jobs)
    )
    on_ray = errata.find(inputs[:150], labels, model="mlp", looks=2, ray=cluster.address)
    assert functions == ["train_into", "_second_pass"]
    assert alone.dynamics.logits.tobytes() == on_ray.dynamics.logits.tobytes()
    assert on_ray.summary["passes"] == 2
    pd.testing.assert_frame_equal(alone.ranking, on_ray.ranking, check_exact=True)


def test_a_cluster_that_cannot_be_reached_is_refused_before_a_model_is_chosen(tmp_path):
    inputs, labels = load_digits(return_X_y=True)
    with pytest.raises(errata.InputError, match=r"the Ray cluster at 127\.0\.0\.1:1 cannot be reached"):
        errata.find(inputs[:150], labels[:150], folds=2, ray="127.0.0.1:1", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def train_worker(settings):
    """One of two workers."""
    import ray.train.torch
    from torch.utils.data import DataLoader, TensorDataset

    from errata.integrations import DistributedRecorder

    torch.manual_seed(0)
    labels = torch.arange(SAMPLES) % 4
    dataset = TensorDataset(torch.eye(SAMPLES), labels, torch.arange(SAMPLES))
    loader = ray.train.torch.prepare_data_loader(DataLoader(dataset, batch_size=8, shuffle=True))
    model = ray.train.torch.prepare_model(torch.nn.Linear(SAMPLES, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rec = DistributedRecorder(settings["folder"], labels=labels, num_classes=4, quiet=True)
    seen = []
    for epoch in range(EPOCHS):
        loader.sampler.set_epoch(epoch)
        for inputs, targets, ids in loader:
            logits = model(inputs)
            rec.update(ids, logits)
            seen.append(np.column_stack([np.full(len(ids), epoch), ids, logits.detach()]))
            torch.nn.functional.cross_entropy(logits, targets).backward()
            optimizer.step()
            optimizer.zero_grad()
        rec.end_epoch()
    assert rec.finish().epochs == EPOCHS
    rank = ray.train.get_context().get_world_rank()
    np.save(f"{settings['folder']}-rank{rank}.npy", np.concatenate(seen))


def test_two_workers_of_a_torch_trainer_record_one_run(cluster, tmp_path):
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    ray.init(address=cluster.address, log_to_driver=False, logging_level="error", ignore_reinit_error=True)
    TorchTrainer(
        train_worker,
        train_loop_config={"folder": str(tmp_path / "run")},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=str(tmp_path / "ray"), name="two"),
    ).fit()
    ray.shutdown()
    dynamics = errata.Dynamics.open(tmp_path / "run")
    assert [shard.name for shard in dynamics.shards] == ["part-00000", "part-00001"]
    expected = np.full((EPOCHS, SAMPLES, 4), np.nan)
    for rank in (1, 0):  # a repeated sample counts on the lower rank
        seen = np.load(tmp_path / f"run-rank{rank}.npy")
        assert len(seen) == EPOCHS * 21
        for row in seen[::-1]:
            expected[int(row[0]), int(row[1])] = row[2:]
    np.testing.assert_array_equal(dynamics.in_memory().logits, expected.astype(np.float32))
