"""Shards on a Ray cluster: one task per shard, with Ray Data. A task of a lost node is run again elsewhere."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from errata.core.jit import limit_cpus
from errata.ray_cluster import Needs, RayCluster

if TYPE_CHECKING:
    from errata.dynamics.sharded import Mapper, ShardedDynamics

MEMORY_PER_BYTE = 12
"""Memory of a task per byte of its shard. Ray measured 10.8 for Unmixed-MeanProb-LM and 100,000 samples."""

TASKS_PER_CORE = 4
"""Tasks of a pass per core. With one task per shard, two workers took twice as long (docs/scale.md)."""

BLOCK_BYTES = 4 << 20
"""What Ray Data reserves for the result of a task; with its own 128 MiB, a small object store allows few tasks."""


def ray_mapper(cluster: RayCluster, dynamics: "ShardedDynamics") -> "Mapper":
    """Calls functions on the cluster; refuses a cluster without the memory for the largest shard."""
    size = max(sum(size for size, _ in shard.manifest["files"].values()) for shard in dynamics.shards)
    needs = Needs(memory=size * MEMORY_PER_BYTE)
    cluster.check({"the largest shard": needs})
    return lambda function, tasks: _map(function, tasks, needs.memory)


def _map(function: Callable[[Any], Any], tasks: Sequence[Any], memory: int) -> Iterator[Any]:
    """The results in the order of the tasks."""
    import ray

    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    context.target_max_block_size = BLOCK_BYTES
    dumps: Callable[[Any], bytes] = ray.cloudpickle.dumps
    rows = [{"task": dumps((function, task))} for task in tasks]
    cores = int(ray.cluster_resources().get("CPU", 1))
    data = ray.data.from_items(rows, override_num_blocks=min(len(rows), TASKS_PER_CORE * cores))
    for row in data.map(run_task, num_cpus=1, memory=memory).iter_rows():
        yield pickle.loads(row["result"])


def run_task(row: dict[str, Any]) -> dict[str, Any]:
    """Call the function of a row with its task, on a node of the cluster."""
    limit_cpus(1)
    function, task = pickle.loads(row["task"])
    return {"result": pickle.dumps(function(task))}
