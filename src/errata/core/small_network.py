"""A small classifier in NumPy.

It computes the same bits as scikit-learn's MLPClassifier with `partial_fit` and a fixed seed, whose checks of arguments
take most of the time if there are few samples.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from errata.core.checks import Labels

DECAYS, EPSILON = (0.9, 0.999), 1e-8  # of Adam
SEED = 0

Values = NDArray[np.float32]


class SmallNetwork:
    """A fully connected network with ReLU and an L2 penalty, trained by Adam.

    widths: of the inputs and the hidden layers. Two classes have one output, which is that of class 1.
    """

    def __init__(self, widths: Sequence[int], classes: int, learning_rate: float, penalty: float, batch: int) -> None:
        self.learning_rate, self.penalty, self.batch = learning_rate, penalty, batch
        self._outputs = np.arange(classes) if classes > 2 else np.ones(1, dtype=np.int64)
        self._sizes = list(pairwise([*widths, len(self._outputs)]))
        size = sum((width + 1) * outputs for width, outputs in self._sizes)
        self._parameters, self._gradient = np.empty(size, np.float32), np.empty(size, np.float32)
        self._moments, self._steps = np.zeros((2, size), np.float32), 0
        self._layers, self._gradients = self._views(self._parameters), self._views(self._gradient)
        self._random = np.random.RandomState(SEED)
        for weights, bias in self._layers:
            bound = np.sqrt(6 / sum(weights.shape))
            weights[:] = self._random.uniform(-bound, bound, weights.shape)
            bias[:] = self._random.uniform(-bound, bound, bias.shape)

    def train_epoch(self, inputs: Values, labels: Labels, rows: Labels) -> None:
        """Train on some rows of inputs (N, D) and labels (N,)."""
        order = np.arange(len(rows))
        self._random.shuffle(order)
        self._random = np.random.RandomState(SEED)  # as scikit-learn: the second and all later epochs have one order
        for start in range(0, len(rows), self.batch):
            chosen = rows[order[start : start + self.batch]]
            self._backpropagate(self._activations(inputs[chosen]), labels[chosen])
            self._update()

    def probabilities(self, inputs: Values) -> Values:
        """Probabilities (N, K)."""
        found = self._activations(inputs)[-1]
        return np.concatenate([1 - found, found], axis=1) if found.shape[1] == 1 else found

    def _views(self, flat: Values) -> list[tuple[Values, Values]]:
        """Weights (inputs, outputs) and bias (outputs,) of every layer, in one array."""
        ends = accumulate(size for inputs, outputs in self._sizes for size in (inputs * outputs, outputs))
        parts = np.split(flat, list(ends)[:-1])
        return [
            (weights.reshape(size), bias)
            for size, weights, bias in zip(self._sizes, parts[::2], parts[1::2], strict=True)
        ]

    def _activations(self, inputs: Values) -> list[Values]:
        """The inputs (n, D), the values of every hidden layer, and the probabilities of the outputs."""
        found = [inputs]
        for weights, bias in self._layers:
            if len(found) > 1:
                np.maximum(found[-1], 0, out=found[-1])
            found.append(found[-1] @ weights)
            found[-1] += bias
        outputs = found[-1]
        if outputs.shape[1] == 1:
            expit(outputs, out=outputs)
        else:
            np.exp(outputs - outputs.max(axis=1, keepdims=True), out=outputs)
            outputs /= outputs.sum(axis=1, keepdims=True)
        return found

    def _backpropagate(self, activations: list[Values], labels: Labels) -> None:
        """Write the gradient of the mean loss."""
        change: Any = activations[-1] - (labels[:, None] == self._outputs)
        for layer in reversed(range(len(self._layers))):
            weights, _ = self._layers[layer]
            of_weights, of_bias = self._gradients[layer]
            np.matmul(activations[layer].T, change, out=of_weights)
            of_weights += self.penalty * weights
            of_weights /= len(labels)
            np.divide(change.sum(axis=0), len(labels), out=of_bias)
            if layer:
                change = change @ weights.T
                change[activations[layer] == 0] = 0

    def _update(self) -> None:
        """A step of Adam."""
        self._steps += 1
        for moment, decay, value in zip(self._moments, DECAYS, (self._gradient, self._gradient**2), strict=True):
            moment *= decay
            moment += (1 - decay) * value
        first, second = self._moments
        rate = self.learning_rate * np.sqrt(1 - DECAYS[1] ** self._steps) / (1 - DECAYS[0] ** self._steps)
        self._parameters += -rate * first / (np.sqrt(second) + EPSILON)
