"""Keras
=====

``KerasRecorder`` is a callback for Keras 3 on torch. ``with_rows`` adds the row number of each sample to the inputs.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import errata
from errata.integrations import KerasRecorder

X, y = (part[:900] for part in load_digits(return_X_y=True))
noisy = errata.noise.symmetric(y, 0.1, num_classes=10, seed=0)
keras.utils.set_random_seed(0)
layers = [keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, activation="softmax")]
model = keras.Sequential([keras.Input((64,)), *layers])
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
recorder = KerasRecorder(model, labels=noisy.labels)
model.fit(recorder.with_rows(X / 16), noisy.labels, batch_size=64, epochs=8, verbose=0, callbacks=[recorder])
dynamics = recorder.finish()
print(errata.rank(dynamics).head().to_string())

# %%
# The share of wrong labels missed, by the number of samples inspected:

curve = errata.metrics.budget_curve(errata.score(dynamics), noisy.truth)
plt.figure(figsize=(6, 2.5))
plt.plot(curve["inspected"], curve["fnr"])
plt.xlabel("samples inspected")
_ = plt.ylabel("wrong labels missed")
