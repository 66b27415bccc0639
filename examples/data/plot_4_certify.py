"""Review, certify and apply
=========================

A reviewer judges the most suspicious samples and some random ones. ``errata.certify`` says how many labels are wrong,
and ``errata.apply`` writes a corrected copy. The reviewer is simulated here: it knows the true labels.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

import errata
from errata.core.random_part import random_order

digits = load_digits(as_frame=True)
noisy = errata.noise.symmetric(digits.target[:900], 0.1, num_classes=10, seed=0)
folder = Path(tempfile.mkdtemp())
path = folder / "digits.csv"
digits.data[:900].assign(digit=noisy.labels).to_csv(path, index=False)
found = errata.find(path, "digit", model="mlp", out=folder / "found")

# %%
# The reviewer judges the first 120 samples of the ranking, and 60 random ones:

ranked = found.ranking["id"].to_numpy(dtype=int)
random = [row for row in random_order(900, seed=0) if row not in ranked[:120]][:60]
judged = pd.unique(np.concatenate([ranked[:120], random]))
wrong = noisy.truth[judged]
decisions = pd.DataFrame(
    {
        "id": judged,
        "label": noisy.labels[judged],
        "decision": np.where(wrong, "relabel", "keep"),
        "new_label": np.where(wrong, digits.target.to_numpy()[judged].astype(str), ""),
    }
)
decisions.to_csv(folder / "decisions.csv", index=False)
review = errata.certify(found, folder / "decisions.csv", random=random)
print(review)

# %%
# The corrected copy, next to the file:

errata.apply(path, folder / "decisions.csv", label="digit")
corrected = pd.read_csv(folder / "digits.corrected.csv")
before, after = ((labels != digits.target[:900]).sum() for labels in (noisy.labels, corrected["digit"]))
plt.figure(figsize=(5, 2.5))
bars = plt.barh(["after", "before"], [after, before], color=["#1f5fa8", "grey"])
plt.bar_label(bars, padding=3)
_ = plt.xlabel("wrong labels in the file")
print(f"{before} wrong labels before, {after} after")
