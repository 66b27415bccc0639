"""A PyTorch loop
==============

Two lines record a loop: ``update`` after the forward pass, and ``end_epoch`` after the last batch.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import errata

X, y = load_digits(return_X_y=True)
noisy = errata.noise.symmetric(y, 0.1, num_classes=10, seed=0)  # 10 % wrong labels, known to us but not to errata
inputs, labels = torch.tensor(X).float() / 16, torch.tensor(noisy.labels)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

recorder = errata.Recorder(labels=labels, num_classes=10)
for _epoch in range(15):
    for ids in torch.randperm(len(labels)).split(64):
        logits = model(inputs[ids])
        recorder.update(ids, logits)
        torch.nn.functional.cross_entropy(logits, labels[ids]).backward()
        optimizer.step()
        optimizer.zero_grad()
    recorder.end_epoch()
dynamics = recorder.finish(inputs=inputs)

ranking = errata.rank(dynamics)
print(ranking.head().to_string())
print(f"missed: {errata.metrics.fnr(errata.score(dynamics), noisy.truth):.1%} of {noisy.count} wrong labels")

# %%
# The first twelve samples, with the given and the suggested label:

figure, axes = plt.subplots(2, 6, figsize=(8, 3.2))
for ax, row in zip(axes.flat, ranking.itertuples(), strict=False):
    ax.imshow(X[row.id].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{row.label} → {row.suggested}", fontsize=10)
    ax.set_axis_off()
