"""Scoring shards on a real local Ray cluster of three nodes, one of which is killed."""

import os
import re
import sys
import threading
import time
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
import ray
from ray.cluster_utils import Cluster
from typer.testing import CliRunner

from errata.cli.app import app
from errata.dynamics.places import Place
from errata.dynamics.ray_shards import ray_mapper
from errata.dynamics.scoring import chosen_methods, method_results
from errata.dynamics.sharded import score_shards
from errata.dynamics.shards import write_shard
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.finding.find import find
from errata.ray_cluster import RayCluster

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not import tests
METHODS = ["default", "MeanProb-LM", "CL-PBNR (IS)", "Unmixed-MeanProb-LM"]
NODE = {"object_store_memory": 100 * 1024**2, "memory": 200 * 1024**2}


@pytest.fixture(scope="module")
def cluster():
    """A head node without processors, and two nodes that compute."""
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **NODE})
    for _ in range(2):
        started.add_node(num_cpus=1, **NODE)
    started.wait_for_nodes()
    yield started
    ray.shutdown()
    started.shutdown()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = str(tmp_path_factory.mktemp("run"))
    for number in range(6):
        ids, labels, logits = np.arange(50) + 50 * number, rng.integers(0, 4, 50), rng.normal(size=(3, 50, 4))
        known = {
            "ids": ids,
            "features": rng.normal(size=(50, 5)),
            "held_out": rng.normal(size=(50, 4)) + np.eye(4)[labels],
        }
        write_shard(folder, f"{number}", Dynamics.from_arrays(logits, labels, **known), run_id="r")
    return folder


def until_killed(function, marks, task):
    """Waits until the doomed node is killed, which has begun a task by then, and which never ends it."""
    doomed, killed = marks / ray.get_runtime_context().get_node_id(), marks / "killed"
    for _ in range(600):
        if doomed.exists():
            (marks / "begun").touch()
        elif killed.exists():
            break
        time.sleep(0.1)
    return function(task)


def test_the_command_writes_the_same_scores_with_and_without_ray(cluster, place, tmp_path):
    names = [argument for name in METHODS for argument in ("--method", name)]
    for out, extra in (("alone.parquet", []), ("ray.parquet", ["--ray", cluster.address])):
        result = CliRunner().invoke(app, ["score", place, "--out", str(tmp_path / out), *names, *extra])
        assert result.exit_code == 0, result.output
    alone, on_ray = (pd.read_parquet(tmp_path / name) for name in ("alone.parquet", "ray.parquet"))
    pd.testing.assert_frame_equal(alone, on_ray, check_exact=True)
    assert alone.columns[1] == "default"


def test_a_cluster_without_enough_memory_for_a_shard_is_refused(cluster, tmp_path):
    """A task takes twelve times the memory of its shard: 20 MB are too much for nodes of 0.2 GB."""
    logits, out = np.zeros((5, 50_000, 20), dtype=np.float32), tmp_path / "scores.csv"
    write_shard(str(tmp_path / "run"), "0", Dynamics.from_arrays(logits, np.arange(50_000) % 20), run_id="r")
    command = ["score", str(tmp_path / "run"), "--method", "MeanProb-LM", "--out", str(out), "--ray", cluster.address]
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, InputError)
    message = r"the largest shard needs 0\.2 GB of memory, but no node of the Ray cluster has more than 0\.2 GB"
    assert re.match(message, str(result.exception))
    assert not out.exists()


def test_a_cluster_without_enough_memory_for_a_training_is_refused(cluster, tmp_path):
    """A process with its libraries alone takes more than the nodes have."""
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"seed0-fold0 needs 1\.1 GB of memory, but no node .* more than 0\.2 GB"):
        find(rng.normal(size=(120, 4)), np.arange(120) % 2, model="mlp", folds=2, ray=cluster.address)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", r"the Ray cluster at 127\.0\.0\.1:1 cannot be reached \(.*\); is it running\?"),
        ("nowhere", r"--ray must be auto or HOST:PORT, not 'nowhere'"),
    ],
)
def test_an_absent_cluster_is_refused(place, tmp_path, address, message):
    out = tmp_path / "scores.csv"
    result = CliRunner().invoke(app, ["score", place, "--method", "MeanProb-LM", "--out", str(out), "--ray", address])
    assert isinstance(result.exception, InputError)
    assert re.search(message, str(result.exception))
    assert not out.exists()


def test_auto_without_a_cluster_is_refused(place, tmp_path, monkeypatch):
    """No process of Ray is found, whatever else runs on this machine."""
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", cache(set))
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda folder: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    out = tmp_path / "scores.csv"
    result = CliRunner().invoke(app, ["score", place, "--method", "MeanProb-LM", "--out", str(out), "--ray", "auto"])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith("no Ray cluster was found for 'auto'; start one with `ray start --head`")
    assert not out.exists()
    assert not ray.is_initialized()


def test_a_cluster_of_other_versions_is_refused(cluster, monkeypatch):
    python = ".".join(map(str, sys.version_info[:3]))
    monkeypatch.setattr("ray._private.utils.compute_version_info", lambda: ("1.13.0", "3.8.2"))
    message = f"runs Ray {ray.__version__} and Python {python}, but this process Ray 1.13.0 and Python 3.8.2; install"
    with pytest.raises(InputError, match=re.escape(message)):
        RayCluster(cluster.address)
    assert not ray.is_initialized()


def test_a_node_with_another_errata_is_refused(cluster, monkeypatch):
    monkeypatch.setattr("errata.ray_cluster.installed_version", lambda: f"0.{os.getpid()}")  # other on every worker
    with (
        RayCluster(cluster.address) as connection,
        pytest.raises(InputError, match=rf"cannot run errata 0\.{os.getpid()}; install it there \(it has 0\.\d+\)"),
    ):
        connection.check({})


def test_a_connection_of_the_caller_stays_open(cluster):
    ray.init(address=cluster.address, logging_level="error")
    with RayCluster("127.0.0.1:1") as connection:
        assert connection.has_gpus is False
    assert ray.is_initialized()
    ray.shutdown()


@pytest.mark.parametrize("names", [METHODS, ["CTRL-CE"], ["kNN-MeanProb-LM"]])
def test_a_node_killed_during_scoring_changes_nothing(cluster, place, tmp_path, names):
    dynamics = Dynamics.open(place)
    connection = RayCluster(cluster.address)
    mapper = ray_mapper(connection, dynamics)
    doomed = cluster.list_all_nodes()[-1]
    (tmp_path / doomed.node_id).touch()

    def kill():
        while not (tmp_path / "begun").exists():
            time.sleep(0.05)
        cluster.remove_node(doomed, allow_graceful=False)
        (tmp_path / "killed").touch()

    threading.Thread(target=kill, daemon=True).start()
    files = Place(str(tmp_path / "neighbours"))
    methods = list(chosen_methods(dynamics, names).values())
    scored = score_shards(
        dynamics, methods, lambda function, tasks: mapper(partial(until_killed, function, tmp_path), tasks), files=files
    )
    parts = [results for _, results in scored]
    assert (tmp_path / "killed").exists(), "the killed node was working on a shard"
    assert len([node for node in ray.nodes() if node["Alive"]]) == 2
    connection.close()
    cluster.add_node(num_cpus=1, **NODE)
    cluster.wait_for_nodes()
    for name, expected in method_results(dynamics, names).items():
        scored_by = methods[0].name if name == "default" else name
        found = np.concatenate([part[scored_by].scores for part in parts])
        assert found.tobytes() == expected.scores.tobytes()
