import numpy as np
import pytest
import torch
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier, __version__
from skorch.dataset import Dataset
from skorch.helper import predefined_split

import errata
from errata.errors import InputError
from errata.integrations import SkorchRecorder

EPOCHS = 3


class Network(torch.nn.Module):
    """Identifies samples by their pixels, and stores its own training outputs for comparison."""

    def __init__(self, witness=None, inputs=(), outputs=10, last=None):
        super().__init__()
        torch.manual_seed(0)
        hidden = [torch.nn.Linear(64, 32), torch.nn.Dropout(0.2), torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*hidden, torch.nn.Linear(32, outputs))
        self.last = last or torch.nn.Identity()
        self.witness = witness
        self.rows = {pixels.tobytes(): row for row, pixels in enumerate(inputs)}

    def forward(self, X):
        logits = self.layers(X)
        if self.training and self.witness:
            self.witness.saw(np.array([self.rows[pixels.tobytes()] for pixels in X.numpy()]), logits)
        return self.last(logits)


def net(recorder, kind=NeuralNetClassifier, **options):
    usual = {"max_epochs": EPOCHS, "batch_size": 32, "verbose": 0, "train_split": None, "lr": 0.1}
    usual |= {"criterion": torch.nn.CrossEntropyLoss, "iterator_train__shuffle": True, "callbacks": [recorder]}
    torch.manual_seed(1)
    return kind(options.pop("module", Network), **(usual | options))


class BeginsEpochs(SkorchRecorder):
    """Also passes its outputs to the witness."""

    def on_epoch_begin(self, net, **others):
        net.module_.witness.begin_epoch()
        super().on_epoch_begin(net, **others)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_logits_of_the_training_pass_are_recorded(digits, witness, workers):
    inputs, labels, names = digits
    own, recorder = witness(), BeginsEpochs(ids=names, quiet=True)
    module = {"module__witness": own, "module__inputs": inputs, "iterator_train__num_workers": workers}
    net(recorder, **module).fit(inputs, labels)
    dynamics = recorder.finish()
    np.testing.assert_array_equal(dynamics.logits, own.logits)
    np.testing.assert_array_equal(dynamics.labels, labels)
    assert dynamics.ids.tolist() == names
    assert dynamics.settings["trainer"] == f"skorch {__version__}"


def test_recording_does_not_change_the_net(digits):
    inputs, labels, _ = digits
    plain, recorded = net(None, callbacks=None), net(SkorchRecorder(quiet=True))
    for one in (plain, recorded):
        torch.manual_seed(2)
        one.fit(inputs, labels)
    for name, weights in plain.module_.state_dict().items():
        assert torch.equal(weights, recorded.module_.state_dict()[name])
    assert "get_iterator" not in vars(recorded)


def test_probabilities_are_recorded_as_their_logarithms(digits, witness):
    inputs, labels, _ = digits
    own, recorder = witness(), BeginsEpochs(quiet=True)
    module = {"module__witness": own, "module__inputs": inputs, "module__last": torch.nn.Softmax(dim=1)}
    net(recorder, criterion=torch.nn.NLLLoss, **module).fit(inputs, labels)
    expected = torch.log_softmax(torch.from_numpy(own.logits), dim=2).numpy()
    np.testing.assert_allclose(recorder.finish().logits, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("last", "criterion"), [(None, torch.nn.BCEWithLogitsLoss), (torch.nn.Sigmoid(), torch.nn.BCELoss)]
)
def test_one_logit_of_two_classes(digits, witness, last, criterion):
    inputs, labels, _ = digits
    own, recorder = witness(classes=1), BeginsEpochs(labels=np.where(labels % 2, "odd", "even"), quiet=True)
    module = {"module__witness": own, "module__inputs": inputs, "module__outputs": 1, "module__last": last}
    net(recorder, NeuralNetBinaryClassifier, criterion=criterion, **module).fit(inputs, (labels % 2).astype("float32"))
    dynamics = recorder.finish()
    assert dynamics.classes == ("even", "odd")
    assert (dynamics.logits[:, :, 0] == 0).all()
    np.testing.assert_allclose(dynamics.logits[:, :, 1:], own.logits, rtol=0, atol=1e-4)


def test_separate_validation_samples_and_a_dataset_without_y(digits):
    inputs, labels, _ = digits
    data = Dataset(inputs, labels)
    recorder = SkorchRecorder(labels=labels, quiet=True)
    net(recorder, train_split=predefined_split(data)).fit(data, y=None)
    assert recorder.finish().logits.shape == (EPOCHS, len(labels), 10)
    with pytest.raises(InputError, match="pass the given labels as labels="):
        net(SkorchRecorder()).fit(data, y=None)


def test_more_epochs_by_partial_fit_into_a_folder(digits, tmp_path):
    inputs, labels, _ = digits
    recorder = SkorchRecorder(tmp_path / "run", quiet=True)
    trained = net(recorder).fit(inputs, labels)
    trained.partial_fit(inputs, labels)
    dynamics = recorder.finish()
    assert dynamics.epochs == 2 * EPOCHS
    dynamics.verify()
    with pytest.raises(InputError, match="make a new one"):
        trained.fit(inputs, labels)


def test_an_interrupted_epoch_is_left_out(digits):
    inputs, labels, _ = digits

    class Interrupting(SkorchRecorder):
        batches = 0

        def on_batch_end(self, *given, **step):
            super().on_batch_end(*given, **step)
            type(self).batches += 1
            if self.batches == 17:  # seven batches an epoch
                raise KeyboardInterrupt

    recorder = Interrupting(quiet=True)
    net(recorder).fit(inputs, labels)  # skorch catches the interrupt
    with pytest.warns(UserWarning, match="epoch 2 was interrupted"):
        dynamics = recorder.finish()
    assert dynamics.epochs == 2
    assert len(errata.rank(dynamics)) == len(labels)


def test_what_cannot_be_recorded_is_refused(digits):
    inputs, labels, _ = digits
    usual = NeuralNetClassifier(Network, criterion=torch.nn.CrossEntropyLoss, callbacks=[SkorchRecorder()], verbose=0)
    with pytest.raises(InputError, match="validates on the others; set train_split=None"):
        usual.fit(inputs, labels)
    with pytest.raises(InputError, match="there are 200 labels for 203 samples"):
        net(SkorchRecorder(labels=labels[:200])).fit(inputs, labels)
    with pytest.raises(InputError, match="only a torch DataLoader can be recorded"):
        net(SkorchRecorder(), iterator_train=lambda data, **options: iter(())).fit(inputs, labels)
    with pytest.raises(InputError, match="pass the recorder to the trainer in callbacks"):
        SkorchRecorder().finish()
