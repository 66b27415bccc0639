"""Lightning
=========

``LightningRecorder`` is a callback. The last item of a batch is the sample id.
"""

import logging
import warnings

import matplotlib.pyplot as plt
import torch
from lightning import LightningModule, Trainer
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import errata
from errata.integrations import LightningRecorder

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Network(LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

    def forward(self, inputs):
        return self.layers(inputs)

    def training_step(self, batch, batch_idx):
        inputs, labels, _ids = batch
        return cross_entropy(self(inputs), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


X, y = load_digits(return_X_y=True)
noisy = errata.noise.symmetric(y, 0.1, num_classes=10, seed=0)
inputs, labels = torch.tensor(X).float() / 16, torch.tensor(noisy.labels)
recorder = LightningRecorder(labels=labels)
loader = DataLoader(TensorDataset(inputs, labels, torch.arange(len(labels))), 128, shuffle=True)
quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
Trainer(max_epochs=8, accelerator="cpu", callbacks=[recorder], **quiet).fit(Network(), loader)
dynamics = recorder.finish()
print(errata.rank(dynamics).head().to_string())

# %%
# Correct labels are learned early, wrong ones late:

rows = torch.arange(len(labels))
shares = torch.tensor(dynamics.logits).softmax(-1)[:, rows, labels]
plt.figure(figsize=(6, 3))
plt.plot(shares[:, ~noisy.truth].mean(1), label="correct labels")
plt.plot(shares[:, noisy.truth].mean(1), label="wrong labels")
plt.xlabel("epoch")
plt.ylabel("mean probability of the given label")
_ = plt.legend(frameon=False)
