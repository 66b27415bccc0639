"""Scoring shards on a real local Ray cluster of three nodes, one of which is killed."""

import sys
import time

import numpy as np
import pandas as pd
import pytest
import ray
from ray.cluster_utils import Cluster
from typer.testing import CliRunner

from errata.cli.app import app
from errata.dynamics import ray_shards
from errata.dynamics.ray_shards import ray_mapper
from errata.dynamics.scoring import chosen_methods, method_results
from errata.dynamics.sharded import process_shard, score_shards
from errata.dynamics.shards import write_shard
from errata.dynamics.store import Dynamics
from errata.errors import InputError

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not import tests
METHODS = ["MeanProb-LM", "CL-PBNR (IS)", "Unmixed-MeanProb-LM"]
MEMORY = 200 * 1024**2


@pytest.fixture(scope="module")
def cluster():
    """A head node without processors, and two nodes that compute."""
    nodes = {"object_store_memory": 100 * 1024**2, "memory": MEMORY}
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **nodes})
    for _ in range(2):
        started.add_node(num_cpus=1, **nodes)
    started.wait_for_nodes()
    yield started
    ray.shutdown()
    started.shutdown()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = str(tmp_path_factory.mktemp("run"))
    for number in range(6):
        logits = rng.normal(size=(3, 50, 4))
        ids = np.arange(50) + 50 * number
        write_shard(folder, f"{number}", run_id="r", ids=ids, labels=rng.integers(0, 4, 50), logits=logits)
    return folder


def slow(task):
    """Long enough that a node can be killed while it computes."""
    time.sleep(1)
    return process_shard(task)


def test_the_command_writes_the_same_scores_with_and_without_ray(cluster, place, tmp_path):
    names = [argument for name in METHODS for argument in ("--method", name)]
    for out, extra in (("alone.parquet", []), ("ray.parquet", ["--ray", cluster.address])):
        result = CliRunner().invoke(app, ["score", place, "--out", str(tmp_path / out), *names, *extra])
        assert result.exit_code == 0, result.output
    alone, on_ray = (pd.read_parquet(tmp_path / name) for name in ("alone.parquet", "ray.parquet"))
    pd.testing.assert_frame_equal(alone, on_ray, check_exact=True)


def test_a_cluster_without_enough_memory_is_refused(cluster, place, monkeypatch):
    monkeypatch.setattr(ray_shards, "MEMORY_PER_BYTE", 10**6)
    with pytest.raises(InputError, match=r"no node of the Ray cluster has more than 0\.2 GB"):
        ray_mapper(cluster.address, Dynamics.open(place))


def test_a_node_killed_during_scoring_changes_nothing(cluster, place):
    dynamics = Dynamics.open(place)
    mapper = ray_mapper(cluster.address, dynamics)
    killed = []

    def killing(function, tasks):
        for result in mapper(slow, tasks):
            if not killed:
                killed.append(cluster.list_all_nodes()[-1])
                cluster.remove_node(killed[0], allow_graceful=False)
            yield result

    parts = [results for _, results in score_shards(dynamics, chosen_methods(dynamics, METHODS), killing)]
    assert len([node for node in ray.nodes() if node["Alive"]]) == 2
    for name, expected in method_results(dynamics, METHODS).items():
        assert np.concatenate([part[name].scores for part in parts]).tobytes() == expected.scores.tobytes()
