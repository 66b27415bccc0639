"""A CSV file with strings and dates
=================================

``errata find orders.csv --label status``, here in Python. Strings become categories, and dates become numbers. Orders
of Japan were late in the first half of the time, and those of other countries in the second half; 5 % of the labels
are wrong.
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
# Each point is an order, coloured by its given label. Circles mark the first samples of the ranking, as many as errata
# estimates to be wrong:

first = found.ranking["id"].to_numpy(dtype=int)[: found.expected]
height = pd.factorize(country, sort=True)[0] + rng.uniform(-0.3, 0.3, N)
plt.figure(figsize=(7, 3.5))
for status, colour in (("in time", "#1f5fa8"), ("late", "#e08214")):
    rows = orders["status"] == status
    plt.scatter(day[rows], height[rows], 8, colour, label=status)
plt.scatter(day[first], height[first], 70, facecolors="none", edgecolors="black", label="named by errata")
plt.yticks(range(3), sorted(set(country)))
plt.xlabel("day of the order")
_ = plt.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
