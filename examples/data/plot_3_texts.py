"""Texts
=====

``errata find reviews.csv --label topic``, here in Python. Without a pretrained model, errata learns from words and
parts of words. A tenth of the labels is wrong.
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
# The estimated probability that a label is wrong, in the order of the ranking:

ranking = found.ranking.head(60)
wrong = noisy.truth[ranking["id"].to_numpy(dtype=int)]
plt.figure(figsize=(7, 2.8))
for mask, colour, name in ((wrong, "#b3261e", "label is wrong"), (~wrong, "#1f5fa8", "label is correct")):
    plt.bar(ranking["rank"][mask], ranking["p_wrong"][mask], color=colour, label=name)
plt.xlabel("rank")
plt.ylabel("p_wrong")
_ = plt.legend(frameon=False)
