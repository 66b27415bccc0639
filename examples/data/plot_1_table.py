"""A CSV file with strings and dates
=================================

``errata find orders.csv --label status`` in Python. Strings become categories, and dates become numbers.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import errata

rng = np.random.default_rng(0)
N = 800
country = rng.choice(["Brazil", "France", "Japan"], N)
day = rng.integers(0, 300, N)
late = (country == "Japan") ^ (day > 150)
noisy = errata.noise.symmetric(late.astype(int), 0.05, num_classes=2, seed=1)
orders = pd.DataFrame(
    {
        "country": country,
        "ordered": (pd.Timestamp("2025-01-01") + pd.to_timedelta(day, unit="D")).strftime("%Y-%m-%d"),
        "price": rng.normal(50, 10, N).round(2),
        "status": np.where(noisy.labels == 1, "late", "in time"),
    }
)
path = Path(tempfile.mkdtemp()) / "orders.csv"
orders.to_csv(path, index=False)

found = errata.find(path, "status")
print(found.ranking[["id", "label", "suggested", "p_wrong"]].head().to_string())
print(f"estimated: {found.expected} wrong labels; true: {noisy.count}")

# %%
# How many of the wrong labels are among the first samples of the ranking:

wrong = noisy.truth[found.ranking["id"].to_numpy(dtype=int)]
plt.figure(figsize=(6, 3))
plt.plot(np.cumsum(wrong) / noisy.count)
plt.axvline(noisy.count, ls=":", color="grey")
plt.xlabel("samples inspected")
_ = plt.ylabel("wrong labels found")
