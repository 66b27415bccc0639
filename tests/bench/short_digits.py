"""What the tests of the benchmark share: a setting that needs no file, and a method from outside."""

DIGITS = "digits-symmetric-20"
EPOCHS = 8

PLUGIN = '''
from dataclasses import dataclass

import numpy as np

from errata.core.folds import Aggregation, aggregation


@aggregation
@dataclass(frozen=True)
class Largest(Aggregation):
    """The measure at the epoch where it is largest."""

    title = "largest of all epochs"

    def start(self, samples, classes, epochs):
        return {"largest": np.full(samples, -np.inf)}

    def update(self, state, chunk, measure):
        np.maximum(state["largest"], chunk.measure(measure), out=state["largest"])

    def rows(self, state, measure, labels, epochs):
        return {"scores": state["largest"]}


METHODS = ["Largest-LM"]
'''
