"""A Ray cluster
=============

Many processes may write one run, each a shard of it. A Ray cluster scores the shards and gives the scores of one
machine, bit for bit. The command is ``errata score FOLDER --method MeanProb-LM --ray HOST:PORT``. The cluster here
has one node.
"""

import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from ray.cluster_utils import Cluster

import errata
from errata.dynamics.shards import write_shard

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
for shard in range(4):
    labels = rng.integers(0, 5, 500)
    logits = rng.normal(size=(6, 500, 5)) + np.linspace(0, 3, 6)[:, None, None] * np.eye(5)[labels]
    part = errata.Dynamics.from_arrays(logits, labels, ids=np.arange(500) + 500 * shard)
    write_shard(str(folder / "run"), str(shard), part, run_id="example")

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 100 * 1024**2})
options = ["--method", "Unmixed-MeanProb-LM", "--out", str(folder / "scores.parquet"), "--ray", cluster.address]
subprocess.run(["errata", "score", str(folder / "run"), *options], check=True, capture_output=True)
cluster.shutdown()

scores = pd.read_parquet(folder / "scores.parquet").iloc[:, -1].to_numpy()
alone = errata.score(errata.Dynamics.open(str(folder / "run")), "Unmixed-MeanProb-LM")
print("equal to the scores of one process:", np.array_equal(scores, alone))

# %%

plt.figure(figsize=(6, 2.5))
plt.hist(scores, 40)
_ = plt.xlabel("score of 2,000 samples in 4 shards")
