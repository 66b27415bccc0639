"""Coming from cleanlab
====================

Left the code for cleanlab, right the code for errata, on 900 digits with 20 % wrong labels. cleanlab needs
out-of-sample probabilities, here of five trainings. errata trains one network, and small models on parts of the data
that predict the labels of the other parts. :doc:`Measurements </measurements>` has more datasets.

.. grid:: 1 1 2 2
   :gutter: 3

   .. grid-item::

      .. literalinclude:: plot_6_cleanlab.py
         :pyobject: with_cleanlab

   .. grid-item::

      .. literalinclude:: plot_6_cleanlab.py
         :pyobject: with_errata

Both are executed here:
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import errata

# sphinx_gallery_start_ignore


def with_cleanlab(X, labels):
    from cleanlab.filter import find_label_issues
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    probabilities = cross_val_predict(
        LogisticRegression(max_iter=200),
        X / 16,
        labels,
        method="predict_proba",
    )
    return find_label_issues(
        labels,
        probabilities,
        return_indices_ranked_by="self_confidence",
    )


def with_errata(X, labels):
    import errata

    found = errata.find(X, labels, model="mlp")
    return found.ranking["id"][: found.expected]


# sphinx_gallery_end_ignore
X, y = (part[:900] for part in load_digits(return_X_y=True))
noisy = errata.noise.symmetric(y, 0.2, num_classes=10, seed=0)  # we know which labels are wrong
named = {
    "cleanlab": np.asarray(with_cleanlab(X, noisy.labels)),
    "errata": np.asarray(with_errata(X, noisy.labels)),
}
for name, samples in named.items():
    wrong = noisy.truth[samples].sum()
    print(f"{name}: {len(samples)} samples named, {wrong} of {noisy.count} wrong labels among them")

# %%

plt.figure(figsize=(6, 3.5))
for name, samples in named.items():
    plt.plot(np.cumsum(~noisy.truth[samples]), np.cumsum(noisy.truth[samples]), label=name)
plt.axhline(noisy.count, ls=":", color="grey")
plt.xlabel("correct labels named")
plt.ylabel("wrong labels named")
_ = plt.legend(frameon=False)

# %%
# If you have out-of-sample probabilities already, ``errata.compat.find_label_issues`` takes the arguments of cleanlab
# and flags the same samples (:doc:`exports </exports>`).
