"""Hugging Face Trainer
====================

``HuggingFaceRecorder`` takes the trainer. The transformer is small and starts from random weights, so that nothing is
downloaded.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import errata
from datasets import Dataset
from errata.integrations import HuggingFaceRecorder

# Sentences of 12 words, as numbers. The words 0-9 belong to the first topic, 10-19 to the second; 20-39 to none.
rng = np.random.default_rng(0)
topics = rng.integers(0, 2, 240)
noisy = errata.noise.symmetric(topics, 0.1, num_classes=2, seed=1)
topic_words = rng.integers(0, 10, (240, 4)) + 10 * topics[:, None]
words = np.hstack([topic_words, rng.integers(20, 40, (240, 8))])
dataset = Dataset.from_dict({"input_ids": words, "label": noisy.labels, "name": [f"text-{row}" for row in range(240)]})

config = BertConfig(
    vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_labels=2
)
arguments = TrainingArguments(
    tempfile.mkdtemp(),
    num_train_epochs=5,
    learning_rate=3e-3,
    per_device_train_batch_size=32,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    logging_strategy="no",
    use_cpu=True,
)
trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=dataset)
recorder = HuggingFaceRecorder(trainer, ids="name")
trainer.train()
dynamics = recorder.finish()
print(errata.rank(dynamics).head().to_string())

# %%
# Scores of correct and of wrong labels:

scores = errata.score(dynamics)
plt.figure(figsize=(6, 2.5))
plt.hist([scores[~noisy.truth], scores[noisy.truth]], 30, stacked=True, label=["correct labels", "wrong labels"])
plt.xlabel("score")
_ = plt.legend(frameon=False)
