import keras  # after conftest chose the backend
import numpy as np
import pytest
import torch
from keras import layers

import errata
from errata.errors import InputError
from errata.integrations import KerasRecorder

EPOCHS = 3


def network(outputs=10, activation=None, built=True):
    keras.utils.set_random_seed(0)
    first = [keras.Input((64,))] if built else []
    hidden = [layers.Dense(32, activation="relu"), layers.Dropout(0.2)]
    return keras.Sequential([*first, *hidden, layers.Dense(outputs, activation=activation)])


def compiled(model, loss=None):
    model.compile("adam", loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


def fit(model, x, y, *others, **options):
    keras.utils.set_random_seed(1)
    return model.fit(x, y, batch_size=32, epochs=EPOCHS, verbose=0, callbacks=list(others), **options)


class Watched(keras.Model):
    """Identifies samples by their pixels, and stores its own training outputs for comparison."""

    def __init__(self, witness, inputs):
        super().__init__()
        self.inner = network()
        self.witness = witness
        self.rows = {pixels.tobytes(): row for row, pixels in enumerate(inputs)}

    def call(self, x, training=False):
        logits = self.inner(x, training=training)
        if training:
            rows = np.array([self.rows[pixels.tobytes()] for pixels in x.detach().numpy()])
            self.witness.saw(rows, logits)
        return logits


class BeginsEpochs(keras.callbacks.Callback):
    def __init__(self, witness):
        super().__init__()
        self.witness = witness

    def on_epoch_begin(self, epoch, logs=None):
        self.witness.begin_epoch()


def test_the_logits_of_the_training_pass_are_recorded(digits, witness):
    inputs, labels, names = digits
    own = witness()
    model = compiled(Watched(own, inputs))
    recorder = KerasRecorder(model, labels=labels, ids=names, quiet=True)
    fit(model, recorder.with_rows(inputs), labels, BeginsEpochs(own), recorder, validation_data=(inputs, labels))
    dynamics = recorder.finish()
    np.testing.assert_array_equal(dynamics.logits, own.logits)
    assert dynamics.ids.tolist() == names
    assert dynamics.settings["trainer"] == f"keras {keras.__version__}"


@pytest.mark.parametrize("built", [True, False])
def test_recording_does_not_change_the_model(digits, built):
    inputs, labels, _ = digits
    plain, recorded = compiled(network(built=built)), compiled(network(built=built))
    fit(plain, inputs, labels)
    recorder = KerasRecorder(recorded, labels=labels, quiet=True)
    fit(recorded, recorder.with_rows(inputs), labels, recorder)
    for one, other in zip(plain.get_weights(), recorded.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert recorder.finish().epochs == EPOCHS
    fit(recorded, inputs, labels)  # as ever


def test_a_final_softmax_is_recorded_by_its_logits(digits):
    inputs, labels, _ = digits
    with_logits = compiled(network())
    with_softmax = compiled(network(activation="softmax"), "sparse_categorical_crossentropy")
    found = []
    for model in (with_logits, with_softmax):
        recorder = KerasRecorder(model, labels=labels, quiet=True)
        fit(model, recorder.with_rows(inputs), labels, recorder)
        found.append(recorder.finish().logits)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-4)


def test_one_logit_of_two_classes(digits):
    inputs, labels, _ = digits
    odd = np.where(labels % 2, "odd", "even")
    found = []
    for activation in (None, "sigmoid"):
        model = compiled(network(1, activation), keras.losses.BinaryCrossentropy(from_logits=activation is None))
        recorder = KerasRecorder(model, labels=odd, quiet=True)
        fit(model, recorder.with_rows(inputs), labels % 2, recorder)
        found.append(recorder.finish())
    assert found[0].classes == ("even", "odd")
    assert (found[0].logits[:, :, 0] == 0).all()
    np.testing.assert_allclose(found[0].logits, found[1].logits, rtol=0, atol=1e-4)


def test_a_custom_loader_that_yields_rows(digits):
    inputs, labels, _ = digits

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(labels)

        def __getitem__(self, row):
            return {"inputs": inputs[row], "row": row}, labels[row]

    model = compiled(network())
    recorder = KerasRecorder(model, labels=labels, quiet=True)
    loader = torch.utils.data.DataLoader(Rows(), batch_size=50, shuffle=True)
    model.fit(loader, epochs=EPOCHS, verbose=0, callbacks=[recorder])
    dynamics = recorder.finish()
    assert dynamics.logits.shape == (EPOCHS, len(labels), 10)
    assert len(errata.rank(dynamics)) == len(labels)


def test_several_inputs_of_a_functional_model(digits):
    inputs, labels, _ = digits
    left, right = keras.Input((32,), name="left"), keras.Input((32,), name="right")
    model = compiled(keras.Model({"left": left, "right": right}, layers.Dense(10)(layers.concatenate([left, right]))))
    recorder = KerasRecorder(model, labels=labels, quiet=True)
    halves = {"left": inputs[:, :32], "right": inputs[:, 32:]}
    weights = np.linspace(0.5, 1.5, len(labels))
    fit(model, recorder.with_rows(halves), labels, recorder, sample_weight=weights)
    assert recorder.finish().epochs == EPOCHS


def test_an_interrupted_epoch_is_left_out(digits):
    inputs, labels, _ = digits

    class Stop(keras.callbacks.Callback):
        steps = 0

        def on_train_batch_end(self, batch, logs=None):
            self.steps += 1
            self.model.stop_training = self.steps == 10  # seven batches an epoch

    model = compiled(network())
    recorder = KerasRecorder(model, labels=labels, quiet=True)
    fit(model, recorder.with_rows(inputs), labels, Stop(), recorder)
    with pytest.warns(UserWarning, match="epoch 1 was interrupted"):
        assert recorder.finish().epochs == 1


def test_what_cannot_be_recorded_is_refused(digits, monkeypatch):
    inputs, labels, _ = digits
    model = compiled(network())
    recorder = KerasRecorder(model, labels=labels, quiet=True)
    with pytest.raises(InputError, match=r"fit the model on rec\.with_rows\(x\)"):
        fit(model, inputs, labels, recorder)
    with pytest.raises(InputError, match="there are 203 labels for 200 inputs"):
        recorder.with_rows(inputs[:200])
    with pytest.raises(InputError, match=r"pass the recorder to model\.fit in callbacks"):
        recorder.finish()
    model = compiled(network())
    recorder = KerasRecorder(model, labels=labels, quiet=True)
    with pytest.raises(InputError, match="41 samples were not recorded in epoch 0"):
        fit(model, recorder.with_rows(inputs), labels, recorder, validation_split=0.2)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(InputError, match="set KERAS_BACKEND=torch"):
        KerasRecorder(network(), labels=labels)
