"""Shards on a Ray cluster: one task per shard, with Ray Data. A task of a lost node is run again elsewhere."""

import logging
import pickle
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from errata.core.jit import limit_cpus
from errata.errors import ErrataError
from errata.ray_cluster import LostJobError, Needs, RayCluster
from errata.wording import one_line

if TYPE_CHECKING:
    from errata.dynamics.sharded import Mapper, ShardedDynamics

MEMORY_PER_BYTE = 12
"""Memory of a task per byte of its shard. With a shard of 22 MB, a run of `benchmarks/scale.py` has a peak of 0.39 GB,
and Python with its libraries takes 0.19 GB of them: the rest is 9 times the shard."""

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
    """The results in the order of the tasks; an error of errata in a task is raised here."""
    import ray

    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_max_block_size = BLOCK_BYTES
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors are raised, and said once
    dumps: Callable[[Any], bytes] = ray.cloudpickle.dumps
    rows = [{"task": dumps(task)} for task in tasks]
    cores = int(ray.cluster_resources().get("CPU", 1))
    data = ray.data.from_items(rows, override_num_blocks=min(len(rows), TASKS_PER_CORE * cores))
    shared = dumps(function)  # it holds what is known of the whole run, and is stored once for all tasks
    results = data.map(run_task, fn_args=(shared,), num_cpus=1, memory=memory).iter_rows()
    try:
        for row in results:
            result = pickle.loads(row["result"])
            if isinstance(result, ErrataError):
                raise result
            yield result
    except ray.exceptions.RayError as error:
        raise LostJobError(f"the Ray cluster cannot score the shards: {one_line(error)}") from error


def run_task(row: dict[str, Any], function: bytes) -> dict[str, Any]:
    """Call a pickled function with the task of a row, on a node of the cluster; its result, or an error of errata."""
    limit_cpus(1)
    try:
        return {"result": pickle.dumps(pickle.loads(function)(pickle.loads(row["task"])))}
    except ErrataError as error:
        return {"result": pickle.dumps(type(error)(f"{error} (on node {socket.gethostname()})"))}
