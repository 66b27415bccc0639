"""Reproducing a table of the paper
================================

The share of wrong labels missed (FNR) at the true number of errors, for Satellite with 20 % symmetric noise, trained
with the paper's printed recipe. ``errata bench run --as-published --setting satellite-symmetric-20`` measured the
cells, which are stored in ``results/as-published``. ``errata bench compare --results results/as-published`` compares
all settings.
"""

import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

root = next(folder for folder in [Path.cwd(), *Path.cwd().parents] if (folder / "results" / "as-published").exists())
target = Path(tempfile.mkdtemp()) / "comparison.csv"
command = ["errata", "bench", "compare", "--results", str(root / "results" / "as-published"), "--out", str(target)]
subprocess.run(command, check=True, capture_output=True)
table = pd.read_csv(target)
table = table[(table["setting"] == "satellite-symmetric-20") & (table["gathering"] == "in-sample")]
print(table[["method", "ours", "std", "paper", "paper_std"]].round(2).to_string(index=False))

# %%

figure, ax = plt.subplots(figsize=(5, 5))
ax.scatter(table["paper"], table["ours"])
limits = [0, table[["paper", "ours"]].to_numpy().max() * 1.05]
ax.plot(limits, limits, ls=":", color="grey")
_ = ax.set(xlabel="FNR in the paper (%)", ylabel="FNR measured with errata (%)", xlim=limits, ylim=limits)
