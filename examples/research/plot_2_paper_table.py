"""A table of the paper beside our stored results
==============================================

The share of wrong labels missed (FNR) at the true number of errors, for Satellite with 20 % symmetric noise, trained
with the paper's printed recipe. Nothing is trained here: the script reads the results in the repository. ``errata data
fetch satellite`` and ``errata bench run --as-published --setting satellite-symmetric-20 --out again`` measure them
again, and ``errata bench compare --results results/as-published`` compares all settings.
"""

import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

folders = [Path.cwd(), *Path.cwd().parents]
root = next((folder for folder in folders if (folder / "results" / "as-published").exists()), None)
if root is None:
    raise SystemExit("Run this script in a copy of the errata repository: it reads results/as-published.")
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
