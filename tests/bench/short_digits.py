"""Shared by the tests of the benchmark: a setting that needs no files, a plugin method, and a progress recorder."""

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
