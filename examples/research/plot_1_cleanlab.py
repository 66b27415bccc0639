"""Coming from cleanlab
====================

Their code is on the left, ours on the right. Both are executed on this page; the results are below. cleanlab needs out-of-sample
probabilities from five trainings.

.. grid:: 1 1 2 2

   .. grid-item::

      **cleanlab**

      .. literalinclude:: plot_1_cleanlab.py
         :start-after: # theirs
         :end-before: # ours

   .. grid-item::

      **errata**

      .. literalinclude:: plot_1_cleanlab.py
         :start-after: # ours
         :end-before: # results
"""

from sklearn.datasets import load_digits

import errata

X, y = load_digits(return_X_y=True)
noisy = errata.noise.symmetric(y, 0.2, num_classes=10, seed=0)
labels = noisy.labels

# theirs
from cleanlab.filter import find_label_issues
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

model = LogisticRegression(max_iter=200)
probabilities = cross_val_predict(model, X / 16, labels, method="predict_proba")
theirs = find_label_issues(labels, probabilities, return_indices_ranked_by="self_confidence")

# ours
found = errata.find(X, labels)
ours = found.ranking["id"].to_numpy()[: found.expected]

# results
for name, first in (("cleanlab", theirs), ("errata", ours)):
    right = noisy.truth[first].sum()
    print(f"{name}: {len(first)} samples named, {right} of {noisy.count} wrong labels among them")

# %%
# If you have probabilities already, ``errata.compat.find_label_issues`` takes the arguments of cleanlab and flags the same samples:

flags = errata.compat.find_label_issues(labels, probabilities)
print("equal flags:", (flags == find_label_issues(labels, probabilities)).all())

# %%

import matplotlib.pyplot as plt
import numpy as np

plt.figure(figsize=(6, 3))
for name, first in (("cleanlab, 5 trainings", theirs), ("errata, 1 training", ours)):
    plt.plot(np.cumsum(noisy.truth[first]), label=name)
plt.axhline(noisy.count, ls=":", color="grey")
plt.xlabel("samples inspected")
plt.ylabel("wrong labels found")
_ = plt.legend(frameon=False)
