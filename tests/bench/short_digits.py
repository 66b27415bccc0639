"""Shared by the tests of the benchmark: a setting that needs no files, a plugin method, progress, and processes."""

import multiprocessing
import os
import signal

import torch

DIGITS = "digits-symmetric-20"
EPOCHS = 8

PLUGIN = '''
from dataclasses import dataclass

import numpy as np

from errata.core.method_parts import Aggregation
from errata.core.method_registry import register


@register
@dataclass(frozen=True)
class Largest(Aggregation):
    """The measure at the epoch where it is largest."""

    def start(self, samples, classes, epochs):
        return {"largest": np.full(samples, -np.inf)}

    def update(self, state, batch, measure):
        np.maximum(state["largest"], batch.measure(measure), out=state["largest"])

    def sample_arrays(self, state, measure, labels, epochs):
        return {"scores": state["largest"]}


METHODS = ["Largest-LM"]
'''


class RecordedProgress:
    """Keeps the messages and the number of epochs of a campaign."""

    def __init__(self):
        self.lines, self.planned, self.epochs = [], 0, 0

    def say(self, line):
        self.lines.append(line)

    def total(self, epochs):
        self.planned = epochs

    def begin(self, name, epochs):
        pass

    def advance(self, epochs):
        self.epochs += epochs


class KillingProgress(RecordedProgress):
    """Kills its process when that many epochs are done, or when a line starts with a text."""

    def __init__(self, epochs=10**9, line="nothing"):
        super().__init__()
        self.last, self.last_line = epochs, line

    def begin(self, name, epochs):
        self._kill_if(self.last == 0)

    def say(self, line):
        self._kill_if(line.startswith(self.last_line))

    def advance(self, epochs):
        super().advance(epochs)
        self._kill_if(self.epochs >= self.last)

    def _kill_if(self, due):
        if due:
            os.kill(os.getpid(), signal.SIGKILL)


def begun(work):
    """Begin work in a forked process. It starts at once, because everything is imported."""

    def in_one_thread():
        torch.set_num_threads(1)  # the threads of torch do not survive the fork
        work()

    process = multiprocessing.get_context("fork").Process(target=in_one_thread)
    process.start()
    return process


def exit_code(process):
    """The exit code of a process when it has ended; negative if a signal killed it."""
    process.join()
    return process.exitcode
