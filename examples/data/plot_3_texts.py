"""Texts
=====

``errata find reviews.csv --label topic`` in Python. Without a pretrained model, errata learns from words and parts of words.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import errata

WORDS = {
    "sport": "match goal team player coach season score league win stadium",
    "cooking": "oven salt butter recipe onion bake taste sauce dinner knife",
    "travel": "train hotel ticket beach museum flight luggage city map border",
}
COMMON = ["the", "a", "we", "they", "and", "but", "very", "good", "long", "first", "last", "people", "day", "time"]
rng = np.random.default_rng(0)
topics = np.array(list(WORDS))
true_topics = rng.integers(0, 3, 300)
noisy = errata.noise.symmetric(true_topics, 0.1, num_classes=3, seed=2)
texts = [
    " ".join(rng.permutation([*rng.choice(WORDS[topics[true]].split(), 3), *rng.choice(COMMON, 9)]))
    for true in true_topics
]
reviews = pd.DataFrame({"text": texts, "topic": topics[noisy.labels]})

found = errata.find(reviews, "topic")
first = found.ranking.head(5)
for row in first.itertuples():
    print(f"{row.label} → {row.suggested}: {reviews['text'][row.id]}")

# %%
# Given and suggested topics among the estimated errors:

table = found.confusions.pivot(index="label", columns="suggested", values="count").fillna(0)
figure, ax = plt.subplots(figsize=(4, 3))
ax.imshow(table, cmap="Blues")
for (y, x), count in np.ndenumerate(table.to_numpy()):
    ax.text(x, y, f"{count:.0f}", ha="center", va="center")
ax.set(xticks=range(len(table.columns)), xticklabels=table.columns, xlabel="suggested", ylabel="given")
_ = ax.set_yticks(range(len(table)), table.index)
