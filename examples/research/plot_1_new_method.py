"""A new method in one file
========================

A measure is one function. Registered, it makes a method with every aggregation. This one is the absolute error, ``1 -
p`` of the given label. In a package with an entry point (:doc:`contributing </contributing>`), it also appears in
``errata methods`` and in the benchmark.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import errata
from errata.core.measures import measure
from errata.core.method_registry import register
from errata.integrations import SklearnRecorder


@register
@measure(statistic="log_odds", half=0.5)
def MAE(log_odds):
    """1 - p of the given label: the absolute error."""
    return (1 + np.tanh(log_odds / 2)) / 2


X, y = load_digits(return_X_y=True)
noisy = errata.noise.pairflip(y, 0.3, num_classes=10, seed=0)
model = MLPClassifier((64,), random_state=0)
recorder = SklearnRecorder(X / 16, labels=noisy.labels)
for _epoch in range(25):
    model.partial_fit(X / 16, noisy.labels, classes=range(10))
    recorder.record(model)
dynamics = recorder.finish()

names = ["Last-MAE", "Mean-MAE", "Mean-CE", "MeanProb-LM"]
missed = {name: errata.metrics.fnr(errata.score(dynamics, name), noisy.truth) for name in names}
for name, share in missed.items():
    print(f"{name}: {share:.1%} missed")

# %%

plt.figure(figsize=(6, 2))
plt.barh(list(missed), list(missed.values()))
_ = plt.xlabel(f"share of {noisy.count} wrong labels missed")
