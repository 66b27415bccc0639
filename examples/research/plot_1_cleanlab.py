"""
Coming from cleanlab
====================

``errata.compat.find_label_issues`` takes the arguments of cleanlab and flags the same samples.
"""

import matplotlib.pyplot as plt
from cleanlab.filter import find_label_issues
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import errata

X, y = load_digits(return_X_y=True)
noisy = errata.noise.symmetric(y, 0.2, num_classes=10, seed=0)
model = LogisticRegression(max_iter=200)
probabilities = cross_val_predict(model, X / 16, noisy.labels, method="predict_proba")

theirs = find_label_issues(noisy.labels, probabilities)
ours = errata.compat.find_label_issues(noisy.labels, probabilities)
print(f"cleanlab: {theirs.sum()} flags, errata: {ours.sum()} flags, equal: {(theirs == ours).all()}")

# %%
# ``errata.find`` needs no folds. Here both inspect as many samples as there are wrong labels:

rank_theirs = find_label_issues(noisy.labels, probabilities, return_indices_ranked_by="self_confidence")
found = errata.find(X, noisy.labels)
counts = [noisy.truth[rank_theirs[: noisy.count]].sum()]
counts.append(noisy.truth[found.ranking["id"].to_numpy()[: noisy.count]].sum())
plt.figure(figsize=(5, 2))
plt.barh(["cleanlab, 5 folds", "errata.find, 1 training"], counts, color=["grey", "#1f5fa8"])
plt.axvline(noisy.count, ls=":", color="black")
_ = plt.xlabel(f"wrong labels found, of {noisy.count}")
print(counts)
