"""The benchmark on a real Ray cluster of several nodes on this machine."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import errata
from errata.bench.results import Results
from errata.datasets.registry import setting

DIGITS = "digits-symmetric-20"
LIMIT_S = 200


@pytest.fixture(scope="module")
def cluster():
    """A head without processors, so that all work is on nodes that can be killed; and the scratch folder of workers."""
    from ray.cluster_utils import Cluster

    scratch = tempfile.mkdtemp(prefix="rj")  # short: Ray makes sockets in it
    changed = {"TMPDIR": scratch, "PYTHONPATH": str(Path(errata.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    store = {"object_store_memory": 100 << 20}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store})
    made.store, made.scratch = store, Path(scratch)
    yield made
    made.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    shutil.rmtree(scratch, ignore_errors=True)


def start(folder, *options, url=None):
    recipe = Results(folder).recipe_path(DIGITS)
    recipe.parent.mkdir(parents=True, exist_ok=True)
    replace(setting(DIGITS).recipe, epochs=8).save(recipe)
    command = [sys.executable, "-m", "errata", "bench", "run", "--setting", DIGITS, "--gathering", "in-sample"]
    return subprocess.Popen(
        [*command, "--seeds", "2", "--out", url or str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    try:
        return process.communicate(timeout=LIMIT_S)[0], process.returncode
    finally:
        process.kill()


def tables(folder):
    return {
        path.name: pd.read_parquet(path).drop(columns="seconds", errors="ignore")
        for path in sorted(folder.glob("cells/*/*.parquet"))
    }


def test_a_node_killed_during_a_cell_changes_no_result(cluster, tmp_path):
    printed, code = finish(start(tmp_path / "one"))
    assert code == 0, printed
    node = cluster.add_node(num_cpus=1, **cluster.store)
    failed = tmp_path / "ray" / "cells" / DIGITS / "in-sample-seed0.failed.json"
    failed.parent.mkdir(parents=True)
    failed.write_text('{"reason": "an earlier failure"}')
    url = f"file://{tmp_path / 'ray'}"
    process = start(tmp_path / "ray", "--ray", cluster.address, url=url)
    deadline = time.monotonic() + LIMIT_S

    def in_training():
        return [path for path in cluster.scratch.glob("errata-*/*/*") if path.parent.name == "work"]

    while not in_training() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    cluster.remove_node(node, allow_graceful=False)
    left = list(cluster.scratch.glob("errata-*"))
    cluster.add_node(num_cpus=1, **cluster.store)
    printed, code = finish(process)
    assert code == 0, printed
    assert left, "the node was killed while it was training"
    assert "2 cells done, 0 reused" in printed
    assert printed.count(": done") == 2
    assert not failed.exists()
    alone, on_ray = tables(tmp_path / "one"), tables(tmp_path / "ray")
    assert list(alone) == list(on_ray)
    for name, table in alone.items():
        pd.testing.assert_frame_equal(on_ray[name], table, check_exact=True)
    printed, code = finish(start(tmp_path / "ray", "--ray", cluster.address, url=url))
    assert (code, "0 cells done, 2 reused" in printed) == (0, True), printed


@pytest.mark.parametrize(("address", "message"), [("127.0.0.1:1", "cannot be reached"), ("nowhere", "HOST:PORT")])
def test_a_cluster_that_is_not_there_is_refused_at_once(tmp_path, address, message):
    printed, code = finish(start(tmp_path, "--ray", address))
    assert code != 0
    assert message in printed
    assert "Traceback" not in printed


def test_a_cluster_without_gpus_is_refused_before_work_starts(cluster, tmp_path):
    from errata.errors import InputError
    from errata.ray_cluster import Needs, RayCluster

    with RayCluster(cluster.address) as connection:
        with pytest.raises(InputError, match=r"digits needs 0\.0 GB of memory and 1 GPU on one node"):
            connection.check({"digits": Needs(gpus=1)})
        with pytest.raises(InputError, match=r"digits needs 1,000\.0 GB of memory"):
            connection.check({"digits": Needs(memory=10**12)})


def test_a_gpu_is_looked_for_on_the_cluster_not_here(cluster, tmp_path):
    printed, code = finish(start(tmp_path, "--device", "cuda", "--ray", cluster.address))
    assert code != 0
    assert "and 1 GPU on one node, but no node of the Ray cluster has both" in printed


def test_a_second_driver_leaves_the_cells_to_the_first(cluster, tmp_path):
    from filelock import FileLock

    (tmp_path / "work").mkdir()
    with FileLock(tmp_path / "work" / f"{DIGITS}-in-sample.lock"):
        printed, code = finish(start(tmp_path, "--ray", cluster.address))
    assert (code, "2 skipped" in printed, "another process works on it" in printed) == (0, True, True), printed
