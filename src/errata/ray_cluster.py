"""Runs jobs on an existing Ray cluster. A job writes files into a folder; they come back and are written here.

A job that a lost worker or node was running is run again from its start. Only this process writes to the folders of the
caller, so a file is never written twice at the same time.
"""

import os
import re
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import PickleBuffer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errata.errors import ErrataError, InputError
from errata.extras import require
from errata.version import installed_version
from errata.wording import counted, gigabytes, one_line

RETRIES = 3  # how often a job is run again after its worker was lost
CONNECT_SECONDS = 5.0
PROCESS_BYTES = 1 << 30
"""Memory of a process that trains and scores, without its data. A cell of the digits took 0.6 GB in all."""

Files = dict[str, NDArray[np.uint8]]
"""The contents of files by their path in the folder of a job."""


@dataclass(frozen=True)
class Needs:
    """What a job takes of the node that it runs on. memory: bytes."""

    gpus: int = 0
    memory: int = 0


@dataclass(frozen=True, eq=False)
class FolderJob:
    """`function(folder, *arguments)` writes files into an empty folder. An argument may be shared: RayCluster.share."""

    name: str
    function: Callable[..., object]
    arguments: tuple[Any, ...]
    needs: Needs


class LostJobError(ErrataError):
    """The worker of a job was lost again and again."""


class RayCluster:
    """A connection to a Ray cluster, ended by `close` or the end of a `with` block.

    address: HOST:PORT, or "auto" for the cluster of this machine or of the variable RAY_ADDRESS. A process that is
    connected to a cluster already uses that one, and stays connected.
    """

    def __init__(self, address: str) -> None:
        require("ray", "ray", "ray", "--ray")
        import ray

        self._ray, self._connects = ray, not ray.is_initialized()
        if not self._connects:
            return
        _check_reachable(address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error")
        except ConnectionError as error:
            raise InputError(
                f"no Ray cluster was found for {address!r}; start one with `ray start --head`, pass HOST:PORT, or "
                "leave out --ray"
            ) from error
        except RuntimeError as error:
            if "Version mismatch" not in str(error):
                raise
            found = [f"{name} {number}" for name, number in re.findall(r"(Ray|Python): (\S+)", str(error))]
            raise InputError(
                f"the Ray cluster at {address} runs {' and '.join(found[:2])}, but this process "
                f"{' and '.join(found[2:])}; install the same versions"
            ) from error

    def __enter__(self) -> "RayCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; the cluster goes on."""
        if self._connects:
            self._ray.shutdown()

    @property
    def has_gpus(self) -> bool:
        """Whether a node has a GPU."""
        return any(node.get("GPU", 0) for node in self._nodes())

    def check(self, jobs: Mapping[str, Needs]) -> None:
        """Raise InputError if no node has what one of the jobs needs, or if a node has another errata."""
        nodes = self._nodes()
        for name, needs in jobs.items():
            if any(node.get("GPU", 0) >= needs.gpus and node.get("memory", 0) >= needs.memory for node in nodes):
                continue
            gpus = max((node.get("GPU", 0) for node in nodes), default=0)
            memory = gigabytes(max((node.get("memory", 0) for node in nodes), default=0))
            needed, there = gigabytes(needs.memory), f"more than {memory}"
            if needs.gpus:
                needed += f" of memory and {counted(needs.gpus, 'GPU')} on one node"
                there = f"both (at most {memory} and {counted(int(gpus), 'GPU')})"
            else:
                needed += " of memory"
            raise InputError(f"{name} needs {needed}, but no node of the Ray cluster has {there}; use larger nodes")
        self._check_versions()

    def share(self, value: Any) -> Any:
        """A value that several jobs use, stored once in the cluster."""
        return self._ray.put(value)

    def run(self, jobs: Sequence[FolderJob]) -> Iterator[tuple[FolderJob, Files | Exception]]:
        """Run all jobs; each with its files or its error as soon as it is done."""
        from ray.exceptions import NodeDiedError, RayTaskError, WorkerCrashedError

        remote = self._ray.remote(max_retries=RETRIES)(_in_scratch_folder)
        running = {}
        for job in jobs:
            options = {"num_cpus": 1, "num_gpus": job.needs.gpus, "memory": job.needs.memory, "name": job.name}
            running[remote.options(**options).remote(job.function, *job.arguments)] = job
        try:
            while running:
                (done,), _ = self._ray.wait(list(running), num_returns=1)
                job = running.pop(done)
                try:
                    yield job, self._ray.get(done)
                except RayTaskError as error:
                    yield job, error.cause if isinstance(error.cause, ErrataError) else error
                except (NodeDiedError, WorkerCrashedError) as error:
                    yield job, LostJobError(f"the worker of {job.name} was lost {RETRIES + 1} times: {one_line(error)}")
        finally:
            for reference in running:
                self._ray.cancel(reference, force=True)

    def _nodes(self) -> list[dict[str, float]]:
        """The resources of all nodes that are alive."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _check_versions(self) -> None:
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        probe = self._ray.remote(num_cpus=0)(installed_version)
        addresses = self._addresses()
        on_nodes = {node: NodeAffinitySchedulingStrategy(node, soft=False) for node in addresses}
        answers = {node: probe.options(scheduling_strategy=here).remote() for node, here in on_nodes.items()}
        for node, answer in answers.items():
            try:
                found = self._ray.get(answer)
            except RayError as error:
                if node not in self._addresses():
                    continue  # it was lost since
                found = one_line(error)
            if found != installed_version():
                raise InputError(
                    f"node {addresses[node]} of the Ray cluster cannot run errata {installed_version()}; "
                    f"install it there (it has {found})"
                )

    def _addresses(self) -> dict[str, str]:
        """The addresses of all nodes that are alive, by their ids."""
        return {node["NodeID"]: node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]}


def stored_bytes(value: Any) -> int:
    """The size of a value when it is sent to a cluster; large arrays are not copied to measure it."""
    from ray import cloudpickle

    buffers: list[PickleBuffer] = []
    data = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(data) + sum(buffer.raw().nbytes for buffer in buffers)


def _in_scratch_folder(function: Callable[..., object], *arguments: Any) -> Files:
    """Run a job on a worker; the files that it wrote."""
    with tempfile.TemporaryDirectory(prefix="errata-") as scratch:
        folder = Path(scratch)
        function(folder, *arguments)
        return {
            path.relative_to(folder).as_posix(): np.fromfile(path, dtype=np.uint8)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


def _check_reachable(address: str) -> None:
    """Raise InputError if nothing listens at HOST:PORT; Ray itself would try for minutes and then end the process."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", address)
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"--ray must be auto or HOST:PORT, not {one_line(address)!r}")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"the Ray cluster at {address} cannot be reached ({error}); is it running?") from error
