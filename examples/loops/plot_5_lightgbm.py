"""LightGBM
========

A boosting round counts as an epoch. The recorder is a callback of ``lightgbm.train``.
"""

import lightgbm as lgb
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import errata
from errata.integrations import LightGBMRecorder

X, y = load_digits(return_X_y=True)
noisy = errata.noise.symmetric(y, 0.1, num_classes=10, seed=0)
recorder = LightGBMRecorder()
parameters = {
    "objective": "multiclass",
    "num_class": 10,
    "learning_rate": 0.1,
    "num_leaves": 8,
    "verbose": -1,
    "num_threads": 2,
}
lgb.train(parameters, lgb.Dataset(X, noisy.labels), 40, callbacks=[recorder])
dynamics = recorder.finish(inputs=X / 16)
print(errata.rank(dynamics).head().to_string())

# %%
# Three methods on the same recording:

names = ["Last-CE", "MeanProb-LM", "default"]
missed = [errata.metrics.fnr(errata.score(dynamics, name), noisy.truth) for name in names]
plt.figure(figsize=(6, 2))
plt.barh(names, missed)
_ = plt.xlabel(f"share of {noisy.count} wrong labels missed")
for name, share in zip(names, missed, strict=True):
    print(f"{name}: {share:.1%} missed")
