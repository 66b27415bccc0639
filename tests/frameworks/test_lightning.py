"""Also what two processes execute: see `main`."""

import sys
import warnings
from pathlib import Path

import lightning
import numpy as np
import pytest
import torch
from lightning import LightningModule, Trainer
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, StackDataset, TensorDataset

import errata
from errata.errors import InputError, StoreError
from errata.integrations import LightningRecorder

EPOCHS = 3
QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Network(LightningModule):
    """A typical module: batches are (inputs, labels, ids), and the step returns its loss."""

    def __init__(self, witness=None, returns=lambda loss, logits: loss):
        super().__init__()
        torch.manual_seed(0)
        self.body = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Dropout(0.2), torch.nn.ReLU())
        self.head = torch.nn.Linear(32, 10)
        self.witness, self.returns = witness, returns

    def forward(self, inputs):
        return self.head(self.body(inputs))

    def on_train_epoch_start(self):
        if self.witness:
            self.witness.begin_epoch()

    def training_step(self, batch, batch_idx):
        inputs, labels, ids = batch
        logits = self(inputs)
        if self.witness:
            self.witness.saw(ids, logits)
        return self.returns(cross_entropy(logits, labels), logits)

    def validation_step(self, batch, batch_idx):
        self(batch[0])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def loader(digits, ids=None):
    inputs, labels, _ = digits
    ids = torch.arange(len(labels)) if ids is None else ids
    data = TensorDataset(torch.from_numpy(inputs), torch.from_numpy(labels), ids)
    return DataLoader(data, batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(1))


def train(model, batches, callbacks, epochs=EPOCHS, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not have many workers.*|.*isinstance.treespec.*")
        Trainer(max_epochs=epochs, callbacks=callbacks, **QUIET, **options).fit(model, batches)
    return model


@pytest.mark.parametrize(
    "returns",
    [
        lambda loss, logits: loss,
        lambda loss, logits: {"loss": loss},
        lambda loss, logits: {"loss": loss, "logits": logits},
    ],
)
def test_the_logits_of_the_training_pass_are_recorded(digits, witness, returns):
    own = witness()
    recorder = LightningRecorder(labels=digits[1], quiet=True)
    train(Network(own, returns), loader(digits), [recorder])
    dynamics = recorder.finish()
    np.testing.assert_array_equal(dynamics.logits, own.logits)
    np.testing.assert_array_equal(dynamics.labels, digits[1])
    assert dynamics.settings["trainer"] == f"lightning {lightning.__version__}"


def test_recording_does_not_change_the_model(digits):
    plain = train(Network(), loader(digits), [])
    recorded = train(Network(), loader(digits), [LightningRecorder(labels=digits[1], quiet=True)])
    for one, other in zip(plain.parameters(), recorded.parameters(), strict=True):
        assert torch.equal(one, other)
    assert not recorded._forward_hooks


def test_ids_in_a_dictionary_and_logits_of_a_submodule(digits):
    inputs, labels, names = digits

    class Named(Dataset):
        def __len__(self):
            return len(labels)

        def __getitem__(self, row):
            return {"inputs": inputs[row], "labels": labels[row], "id": names[row]}

    class Renamed(Network):
        def training_step(self, batch, batch_idx):
            return cross_entropy(self.head(self.body(batch["inputs"])), batch["labels"])

    letters = np.array(list("abcdefghij"))[labels]
    batches = DataLoader(Named(), batch_size=50, shuffle=True)
    recorder = LightningRecorder(labels=letters, ids=names, module="head", quiet=True)
    train(Renamed(), batches, [recorder])
    dynamics = recorder.finish()
    assert dynamics.classes == tuple("abcdefghij")
    np.testing.assert_array_equal(dynamics.labels, labels)
    assert set(errata.rank(dynamics)["id"]) == set(names)
    elsewhere = LightningRecorder(labels=letters, ids=names, module="head", id_in_batch=lambda b: b["id"], quiet=True)
    train(Renamed(), batches, [elsewhere])
    assert elsewhere.finish().epochs == EPOCHS


def test_a_dataset_stacked_with_its_rows(digits, witness):
    class Stacked(Network):
        def training_step(self, batch, batch_idx):
            (inputs, labels), ids = batch
            return super().training_step((inputs, labels, ids), batch_idx)

    inputs, labels, _ = digits
    plain = TensorDataset(torch.from_numpy(inputs), torch.from_numpy(labels))
    own, recorder = witness(), LightningRecorder(labels=labels, quiet=True)
    train(Stacked(own), DataLoader(StackDataset(plain, range(len(plain))), 64, shuffle=True), [recorder])
    np.testing.assert_array_equal(recorder.finish().logits, own.logits)


def test_validation_and_gradient_accumulation_work(digits, witness):
    own, recorder = witness(), LightningRecorder(labels=digits[1], quiet=True)
    model, batches = Network(own), loader(digits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(max_epochs=2, callbacks=[recorder], accumulate_grad_batches=3, val_check_interval=2, **QUIET)
        trainer.fit(model, batches, loader(digits))
    np.testing.assert_array_equal(recorder.finish().logits, own.logits)


def test_an_interrupted_epoch_is_left_out(digits, witness):
    own, recorder = witness(), LightningRecorder(labels=digits[1], quiet=True)
    train(Network(own), loader(digits), [recorder], max_steps=17)  # seven batches an epoch
    with pytest.warns(UserWarning, match="epoch 2 was interrupted and is left out"):
        dynamics = recorder.finish()
    np.testing.assert_array_equal(dynamics.logits, own.logits[:2])


def test_resuming_from_a_checkpoint(digits, witness, tmp_path):
    def fit(epochs, own, **found):
        recorder = LightningRecorder(tmp_path / "run", labels=digits[1], resume=True, quiet=True)
        trainer = Trainer(max_epochs=epochs, callbacks=[recorder], **QUIET)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.fit(Network(own), loader(digits), **found)
            trainer.save_checkpoint(tmp_path / f"{epochs}.ckpt")
        return recorder.finish()

    early, late = witness(), witness()
    fit(2, early)
    dynamics = fit(5, late, ckpt_path=tmp_path / "2.ckpt", weights_only=False)
    np.testing.assert_array_equal(dynamics.logits, np.concatenate([early.logits, late.logits]))
    with pytest.raises(StoreError, match="already holds 5 epochs"):
        train(Network(), loader(digits), [LightningRecorder(tmp_path / "run", labels=digits[1])])


def test_batches_without_ids_are_refused(digits):
    inputs, labels, _ = digits

    class Anonymous(Network):
        def training_step(self, batch, batch_idx):
            return cross_entropy(self(batch[0]), batch[1])

    batches = DataLoader(TensorDataset(torch.from_numpy(inputs), torch.from_numpy(labels)), 32)
    with pytest.raises(InputError, match="a batch has no sample ids; wrap the dataset"):
        train(Anonymous(), batches, [LightningRecorder(labels=labels, quiet=True)])
    with pytest.raises(InputError, match="no 5 to take ids from"):
        train(Anonymous(), batches, [LightningRecorder(labels=labels, id_in_batch=5, quiet=True)])
    with pytest.raises(InputError, match="is twice in epoch 0") as refused:
        train(
            Network(), loader(digits, torch.zeros(len(labels), dtype=torch.int64)), [LightningRecorder(labels=labels)]
        )
    assert "id_in_batch" in refused.value.__notes__[0]
    with pytest.raises(InputError, match="unknown id 1"):
        train(Network(), loader(digits, 1000 + torch.arange(len(labels))), [LightningRecorder(labels=labels)])


def test_ambiguous_logits_are_refused(digits):
    class Twice(Network):
        def training_step(self, batch, batch_idx):
            self(batch[0])
            return super().training_step(batch, batch_idx)

    with pytest.raises(InputError, match="the LightningModule gave logits 2 times in a training_step"):
        train(Twice(), loader(digits), [LightningRecorder(labels=digits[1])])


def test_a_recorder_records_one_training_of_at_least_one_batch(digits):
    recorder = LightningRecorder(labels=digits[1], quiet=True)
    with pytest.raises(InputError, match="no batch was recorded; pass the recorder to the trainer in callbacks"):
        recorder.finish()
    train(Network(), loader(digits), [recorder], epochs=1)
    with pytest.raises(InputError, match="make a new one for every training"):
        train(Network(), loader(digits), [recorder], epochs=1)


def test_the_other_name_of_lightning(run_script, tmp_path):
    script = tmp_path / "other_name.py"
    script.write_text(
        """
import pytorch_lightning as L, torch
from torch.utils.data import DataLoader, TensorDataset
from errata.integrations import LightningRecorder

class Network(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
    def forward(self, inputs):
        return self.layer(inputs)
    def training_step(self, batch, batch_idx):
        return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

labels = torch.arange(30) % 3
recorder = LightningRecorder(labels=labels)
assert isinstance(recorder, L.Callback)
data = TensorDataset(torch.randn(30, 4), labels, torch.arange(30))
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
L.Trainer(max_epochs=2, accelerator="cpu", callbacks=recorder, **quiet).fit(Network(), DataLoader(data, 7))
print(recorder.finish().logits.shape)
"""
    )
    assert "(2, 30, 3)" in run_script(script)


def test_two_processes_record_one_run_by_sample_id(run_script, digits, tmp_path):
    run_script(__file__, tmp_path / "run")
    dynamics = errata.Dynamics.open(tmp_path / "run")
    dynamics.verify()
    assert dynamics.epochs == EPOCHS
    seen = [np.load(tmp_path / f"rank{rank}.npy") for rank in range(2)]
    first = np.where(np.isnan(seen[0]), seen[1], seen[0])  # the sampler repeats a sample: the lower rank counts
    assert np.isnan(seen[0]).any()
    assert np.isnan(seen[1]).any()
    np.testing.assert_array_equal(dynamics.in_memory().logits, first)


def main(folder):
    """One of two ranks: Lightning starts the other with this same script."""
    from sklearn.datasets import load_digits

    from conftest import SAMPLES, Witness

    inputs, labels = load_digits(return_X_y=True)
    digits = ((inputs[:SAMPLES] / 16).astype(np.float32), labels[:SAMPLES], None)
    own, recorder = Witness(), LightningRecorder(folder, labels=digits[1], quiet=True)
    cut = {"max_steps": 4 * EPOCHS + 1}  # four batches an epoch and rank
    model = train(Network(own), loader(digits), [recorder], EPOCHS + 1, strategy="ddp", devices=2, **cut)
    with pytest.warns(UserWarning, match="was interrupted and is left out"):
        assert recorder.finish().epochs == EPOCHS
    np.save(folder.parent / f"rank{model.global_rank}.npy", own.logits[:EPOCHS])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
