"""Two reviewers
=============

``errata review`` serves the review page and prints a link for each reviewer. In a real review, people open the links.
Here a script sends verdicts as the page does: Ana and Ben judge the same 40 samples, and Ben is wrong on a few.
"""

import json
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from urllib.request import Request, urlopen

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

import errata
from errata.review.agreement import cohen_kappa

X, y = load_wine(return_X_y=True)
noisy = errata.noise.symmetric(y, 0.2, num_classes=3, seed=0)
folder = Path(tempfile.mkdtemp()) / "errata-out"
found = errata.find(X, noisy.labels, model="mlp", out=folder)

with socket.socket() as free:  # the usual port may be taken
    free.bind(("127.0.0.1", 0))
    port = str(free.getsockname()[1])
command = [sys.executable, "-m", "errata", "review", str(folder)]
reviewers = ["--reviewer", "ana", "--reviewer", "ben", "--overlap", "100%", "--port", port]
server = subprocess.Popen([*command, *reviewers], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
links = {}
for line in server.stdout:
    name, _, link = line.strip().partition(": ")
    if link.startswith("http"):
        links[name] = link
    if len(links) == 2:
        break

rng = np.random.default_rng(0)
for name, link in links.items():
    events = []
    for row in found.ranking.iloc[:80:2].itertuples():
        wrong = noisy.truth[row.id] ^ (name == "ben" and rng.random() < 0.1)
        verdict = "accept" if wrong and row.suggested != row.label else "keep"
        events.append(
            {
                "key": uuid.uuid4().hex,
                "sample": str(row.id),
                "label": str(row.label),
                "suggestion": str(row.suggested),
                "rank": row.rank,
                "verdict": verdict,
                "new_label": str(row.suggested) if verdict == "accept" else "",
                "seconds": 2,
            }
        )
    origin = link.partition("/review/")[0]
    headers = {"Content-Type": "application/json", "Origin": origin}
    urlopen(Request(f"{link}/verdicts", json.dumps({"events": events}).encode(), headers)).close()
server.terminate()
server.wait()

# %%
# All verdicts in one file, with the agreement of the two:

subprocess.run([*command, "--export", str(folder / "decisions.csv")], check=True, capture_output=True)
decisions = pd.read_csv(folder / "decisions.csv", dtype=str).fillna("")
both = decisions.pivot(index="id", columns="reviewer", values="decision").dropna()
kappa = cohen_kappa(both["ana"].tolist(), both["ben"].tolist())
print(pd.crosstab(both["ana"], both["ben"]))
print(f"Cohen's kappa: {kappa.value:.2f} on {len(both)} samples")

# %%

counts = decisions.groupby(["reviewer", "decision"]).size().unstack(fill_value=0)
counts.plot.barh(stacked=True, figsize=(6, 2))
plt.xlabel("verdicts")
_ = plt.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
