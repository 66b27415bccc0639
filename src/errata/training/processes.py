"""Run functions in forked processes of one thread each. Threads of one process wait for Python's global lock."""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from errata.errors import ErrataError

Report = Callable[[int], object]

MAX_PROCESSES = 16
PR_SET_PDEATHSIG = 1  # of Linux: the signal that a process gets when its parent dies


def available_processes() -> int:
    """How many processes may compute at the same time; 1 where processes with threads cannot be forked safely."""
    return min(MAX_PROCESSES, torch.get_num_threads()) if sys.platform == "linux" else 1


def in_processes(tasks: Sequence[Callable[[Report], Any]], report: Report) -> list[Any]:
    """The results of all tasks, each computed in a process of its own; the first error of a task is raised.

    A task gets a function whose argument is passed to `report` in this process. If this process ends for whatever
    reason, so do the others.
    """
    context = multiprocessing.get_context("fork")
    results: dict[int, Any] = {}
    numbers: dict[Any, int] = {}
    processes = []
    try:
        for number, task in enumerate(tasks):
            receiver, sender = context.Pipe(duplex=False)
            numbers[receiver] = number
            process = context.Process(target=_run, args=(task, sender, os.getpid()))
            with warnings.catch_warnings():
                # Since Python 3.12. The new process computes with one thread, and waits for no lock of another.
                warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork", DeprecationWarning)
                process.start()
            processes.append(process)
            sender.close()
        while numbers:
            for ready in wait(list(numbers)):
                kind, value = _received(ready)
                if kind == "report":
                    report(value)
                elif kind == "error":
                    raise value
                else:
                    results[numbers.pop(ready)] = value
    finally:
        for process in processes:
            process.terminate()
            process.join()
    return [results[number] for number in range(len(tasks))]


def _received(receiver: Any) -> tuple[str, Any]:
    try:
        kind, value = pickle.loads(receiver.recv_bytes())
    except EOFError:
        return "error", ErrataError("a process that trained a part of the models was killed; start again to resume")
    return kind, value


def _run(task: Callable[[Report], Any], sender: Connection, parent: int) -> None:
    """Compute a task in a new process, and send its result or its error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent then ends the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before
        return
    torch.set_num_threads(1)
    outcome: tuple[str, Any]
    try:
        outcome = "result", task(lambda number: sender.send_bytes(pickle.dumps(("report", number))))
    except Exception as error:
        outcome = "error", error
    sender.send_bytes(pickle.dumps(outcome))
