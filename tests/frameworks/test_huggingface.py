"""Also what two processes execute: see `main`."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import errata
from datasets import Dataset
from errata.errors import InputError
from errata.integrations import HuggingFaceRecorder

EPOCHS, SAMPLES, CLASSES = 2, 61, 3
KINDS = np.array(["question", "number", "place"])


class Padding:
    """Pads token ids, and checks that samples have only columns that the model takes."""

    def __call__(self, samples):
        assert all(set(sample) <= {"input_ids", "label"} for sample in samples), "a column was not taken away"
        longest = max(len(sample["input_ids"]) for sample in samples)
        tokens = [sample["input_ids"] + [0] * (longest - len(sample["input_ids"])) for sample in samples]
        return {"input_ids": torch.tensor(tokens), "labels": torch.tensor([sample["label"] for sample in samples])}


class Watched(BertForSequenceClassification):
    """A tiny BERT that stores its training outputs by input tokens, which are unique."""

    def forward(self, input_ids, labels=None, **others):
        assert not [name for name in others if "row" in name]
        output = super().forward(input_ids=input_ids, labels=labels, **others)
        if self.training:
            for tokens, logits in zip(input_ids.tolist(), output.logits.detach().numpy(), strict=True):
                self.passes.setdefault(tokens[0] * 50 + tokens[1], []).append(logits)
        return output


def sentences():
    """Token ids: the first two identify the sample, the third its class; the length varies."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, SAMPLES)
    tokens = [
        [1 + row // 10, 1 + row % 10, 20 + int(label), *rng.integers(30, 50, rng.integers(0, 6)).tolist()]
        for row, label in enumerate(labels)
    ]
    return tokens, labels


def model():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        num_labels=CLASSES,
    )
    made = Watched(config)
    made.passes = {}
    return made


def dataset():
    tokens, labels = sentences()
    names = [f"s-{row}" for row in range(SAMPLES)]
    return Dataset.from_dict({"input_ids": tokens, "label": labels.tolist(), "guid": names, "text": names})


def trainer_for(data, folder, checked_on=None, **arguments):
    options = {
        "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": 8,
        "use_cpu": True,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_strategy": "no",
        "seed": 3,
    }
    arguments = TrainingArguments(str(folder), **(options | arguments))
    return Trainer(model(), arguments, Padding(), train_dataset=data, eval_dataset=checked_on)


def passes(network, epochs=EPOCHS):
    """The outputs that the model stored: (E, N, K)."""
    tokens, _ = sentences()
    return np.stack([np.stack(network.passes[sample[0] * 50 + sample[1]][:epochs]) for sample in tokens], axis=1)


@pytest.mark.parametrize("changed", [{}, {"dataloader_num_workers": 1}, {"train_sampling_strategy": "group_by_length"}])
def test_the_logits_of_the_training_pass_are_recorded_by_name(tmp_path, changed):
    trainer = trainer_for(dataset(), tmp_path, **changed)
    recorder = HuggingFaceRecorder(trainer, tmp_path / "run", ids="guid", quiet=True)
    trainer.train()
    dynamics = recorder.finish()
    np.testing.assert_array_equal(dynamics.logits, passes(trainer.model))
    np.testing.assert_array_equal(dynamics.labels, sentences()[1])
    assert dynamics.ids.tolist() == dataset()["guid"][:]
    assert dynamics.settings["trainer"].startswith("transformers ")


def test_recording_does_not_change_the_model_and_restores_the_trainer(tmp_path):
    plain, data = trainer_for(dataset(), tmp_path), dataset()
    plain.train()
    recorded = trainer_for(data, tmp_path)
    collate = recorded.data_collator
    HuggingFaceRecorder(recorded, quiet=True)
    recorded.train()
    for one, other in zip(plain.model.parameters(), recorded.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert recorded.train_dataset is data
    assert recorded.data_collator is collate
    assert not recorded.model._forward_hooks
    assert not recorded.model._forward_pre_hooks


def test_evaluation_and_gradient_accumulation_work(tmp_path):
    often = {"eval_strategy": "steps", "eval_steps": 2, "gradient_accumulation_steps": 3}
    trainer = trainer_for(dataset(), tmp_path, checked_on=dataset().select(range(10)), **often)
    recorder = HuggingFaceRecorder(trainer, quiet=True)
    trainer.train()
    np.testing.assert_array_equal(recorder.finish().logits, passes(trainer.model))


def test_any_dataset_with_a_length_and_string_labels(tmp_path):
    tokens, labels = sentences()
    items = [{"input_ids": sample, "label": int(label)} for sample, label in zip(tokens, labels, strict=True)]
    trainer = trainer_for(items, tmp_path)
    with pytest.raises(InputError, match="pass the given labels as labels="):
        HuggingFaceRecorder(trainer)
    recorder = HuggingFaceRecorder(trainer, labels=KINDS[labels], classes=KINDS, quiet=True)
    trainer.train()
    dynamics = recorder.finish()
    assert dynamics.classes == tuple(KINDS)
    np.testing.assert_array_equal(dynamics.logits, passes(trainer.model))
    assert set(errata.rank(dynamics)["label"]) == set(KINDS)


def test_an_interrupted_epoch_is_left_out(tmp_path):
    trainer = trainer_for(dataset(), tmp_path, max_steps=11)  # eight batches an epoch
    recorder = HuggingFaceRecorder(trainer, quiet=True)
    trainer.train()
    with pytest.warns(UserWarning, match="epoch 1 was interrupted and is left out"):
        dynamics = recorder.finish()
    np.testing.assert_array_equal(dynamics.logits, passes(trainer.model, 1))


def test_resuming_from_a_checkpoint(tmp_path):
    def train(epochs, **found):
        trainer = trainer_for(dataset(), tmp_path / "checkpoints", num_train_epochs=epochs, save_strategy="epoch")
        recorder = HuggingFaceRecorder(trainer, tmp_path / "run", resume=True, quiet=True)
        trainer.train(**found)
        return recorder.finish(), passes(trainer.model, epochs)

    _, early = train(1)
    dynamics, late = train(3, resume_from_checkpoint=True)
    np.testing.assert_array_equal(dynamics.logits, np.concatenate([early, late]))


def test_what_cannot_be_recorded_is_refused(tmp_path):
    data = dataset()
    with pytest.raises(InputError, match="streamed train_dataset have no rows"):
        HuggingFaceRecorder(trainer_for(data.to_iterable_dataset(), tmp_path, max_steps=3))
    with pytest.raises(InputError, match="no column 'name'"):
        HuggingFaceRecorder(trainer_for(data, tmp_path), ids="name")
    with pytest.raises(InputError, match="there are 3 labels, but train_dataset has 61 samples"):
        HuggingFaceRecorder(trainer_for(data, tmp_path), labels=[0, 1, 2])
    trainer = trainer_for(data, tmp_path)
    recorder = HuggingFaceRecorder(trainer, ids=["same"] * SAMPLES)
    with pytest.raises(InputError, match="two samples have the id 'same'"):
        trainer.train()
    with pytest.raises(InputError, match=r"make the recorder before trainer.train\(\)"):
        recorder.finish()


def test_two_processes_record_one_run_by_sample_id(run_script, tmp_path):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run_script(__file__, tmp_path / "run", launcher=launcher)
    dynamics = errata.Dynamics.open(tmp_path / "run")
    dynamics.verify()
    assert dynamics.ids.tolist() == dataset()["guid"][:]
    logits = dynamics.in_memory().logits
    seen = [np.load(tmp_path / f"rank{rank}.npz") for rank in range(2)]
    assert 0 < len(seen[0].files) < SAMPLES
    for row, (tokens, recorded) in enumerate(zip(sentences()[0], np.swapaxes(logits, 0, 1), strict=True)):
        key = str(tokens[0] * 50 + tokens[1])
        outputs = np.concatenate([rank[key] for rank in seen if key in rank.files])
        assert all((values == outputs).all(axis=1).any() for values in recorded), row


def main(folder):
    """One of two ranks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = trainer_for(dataset(), folder.parent / "checkpoints", ddp_backend="gloo")
        recorder = HuggingFaceRecorder(trainer, folder, ids="guid", quiet=True)
        trainer.train()
    assert recorder.finish().epochs == EPOCHS
    outputs = {str(key): np.stack(logits) for key, logits in trainer.model.passes.items()}
    np.savez(folder.parent / f"rank{trainer.args.process_index}.npz", **outputs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
