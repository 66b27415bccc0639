"""A scikit-learn pipeline with cross-validation
=============================================

``ErrataDetector`` finds the wrong labels of each training fold, and trains its estimator without them. The accuracy
is measured on true labels, which only an example knows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import errata

X, y = load_wine(return_X_y=True)
noisy = errata.noise.symmetric(y, 0.2, num_classes=3, seed=0)
plain = make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0))
cleaned = errata.ErrataDetector(model="mlp", estimator=plain)

accuracy = {"all labels": [], "without the errors found": []}
for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, noisy.labels):
    for name, model in zip(accuracy, (plain, cleaned), strict=True):
        model.fit(X[train], noisy.labels[train])
        accuracy[name].append(model.score(X[test], y[test]))
for name, values in accuracy.items():
    print(f"{name}: accuracy {np.mean(values):.3f}")

# %%

plt.figure(figsize=(6, 1.8))
plt.barh(list(accuracy), [np.mean(values) for values in accuracy.values()], color=["grey", "#1f5fa8"])
_ = plt.xlabel("accuracy on true labels, mean of 3 folds")
