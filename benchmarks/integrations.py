"""Recorded training compared with plain training in every framework: 6,000 letters, 20 % symmetric noise.

ERRATA_DATA=... python benchmarks/integrations.py [name ...]
"""

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import errata
from common import Row, print_rows
from errata.datasets.loading import load_setting

SAMPLES, EPOCHS, BATCH, ROUNDS, REPEAT = 6000, 4, 128, 30, 2
IN_THE_PASS, PASS_OF_ITS_OWN = 0.4, 0.6  # highest allowed overhead of recording
Trained = Callable[[Path | None], object]


def network(inputs: int, classes: int) -> torch.nn.Module:
    torch.manual_seed(0)
    hidden = [torch.nn.Linear(inputs, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU()]
    return torch.nn.Sequential(*hidden, torch.nn.Linear(256, classes))


def pytorch(X: Any, y: Any, classes: int) -> Trained:
    batches = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(y), torch.arange(len(y))), BATCH, shuffle=True)

    def train(path: Path | None) -> None:
        recorder = None if path is None else errata.Recorder(path, labels=y, num_classes=classes, quiet=True)
        model = network(X.shape[1], classes)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(EPOCHS):
            for inputs, labels, ids in batches:
                logits = model(inputs)
                if recorder:
                    recorder.update(ids, logits)
                cross_entropy(logits, labels).backward()
                optimizer.step()
                optimizer.zero_grad()
            if recorder:
                recorder.end_epoch()

    return train


def lightning(X: Any, y: Any, classes: int) -> Trained:
    from lightning import LightningModule, Trainer

    from errata.integrations import LightningRecorder

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network(X.shape[1], classes)

        def forward(self, inputs: Any) -> Any:
            return self.network(inputs)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            inputs, labels, _ = batch
            return cross_entropy(self(inputs), labels)

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters())

    batches = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(y), torch.arange(len(y))), BATCH, shuffle=True)
    shown = ("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger")

    def train(path: Path | None) -> None:
        callbacks = [] if path is None else [LightningRecorder(path, labels=y, quiet=True)]
        quiet: dict[str, Any] = dict.fromkeys(shown, False)
        Trainer(accelerator="cpu", max_epochs=EPOCHS, callbacks=callbacks, **quiet).fit(Model(), batches)

    return train


def huggingface(X: Any, y: Any, classes: int) -> Trained:
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    from errata.integrations import HuggingFaceRecorder

    tokens = np.clip(np.round((X[:1000] - X.min()) * 8), 0, 99).astype(np.int64)
    items = [{"input_ids": row, "label": label} for row, label in zip(tokens.tolist(), y[:1000].tolist(), strict=True)]
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}

    def train(path: Path | None) -> None:
        torch.manual_seed(0)
        model = BertForSequenceClassification(BertConfig(vocab_size=100, num_labels=classes, **sizes))
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder,
                num_train_epochs=EPOCHS,
                per_device_train_batch_size=32,
                use_cpu=True,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
                logging_strategy="no",
            )
            trainer = Trainer(model, arguments, train_dataset=items)
            if path is not None:
                HuggingFaceRecorder(trainer, path, labels=y[:1000], quiet=True)
            trainer.train()

    return train


def keras(X: Any, y: Any, classes: int) -> Trained:
    import keras
    from keras import layers

    from errata.integrations import KerasRecorder

    def train(path: Path | None) -> None:
        hidden = [layers.Dense(256, activation="relu"), layers.Dense(256, activation="relu")]
        model = keras.Sequential([keras.Input((X.shape[1],)), *hidden, layers.Dense(classes, activation="softmax")])
        model.compile("adam", "sparse_categorical_crossentropy")
        if path is None:
            model.fit(X, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
        else:
            recorder = KerasRecorder(model, path, labels=y, quiet=True)
            model.fit(recorder.with_rows(X), y, batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[recorder])

    return train


def skorch(X: Any, y: Any, classes: int) -> Trained:
    from skorch import NeuralNetClassifier

    from errata.integrations import SkorchRecorder

    def train(path: Path | None) -> None:
        callbacks = [] if path is None else [SkorchRecorder(path, quiet=True)]
        options = {"max_epochs": EPOCHS, "batch_size": BATCH, "train_split": None, "verbose": 0}
        module = network(X.shape[1], classes)
        NeuralNetClassifier(
            module,
            criterion=torch.nn.CrossEntropyLoss,
            optimizer=torch.optim.Adam,
            iterator_train__shuffle=True,
            callbacks=callbacks,
            **options,
        ).fit(X, y)

    return train


def catboost(X: Any, y: Any, classes: int) -> Trained:
    from catboost import CatBoostClassifier, Pool

    from errata.integrations import CatBoostRecorder

    pool = Pool(X, y)

    def train(path: Path | None) -> None:
        model = CatBoostClassifier(iterations=ROUNDS, verbose=False, thread_count=1, allow_writing_files=False)
        model.fit(pool)
        if path is not None:
            recorder = CatBoostRecorder(path, quiet=True)
            recorder.record(model, pool)
            recorder.finish()

    return train


def sklearn_stages(X: Any, y: Any, classes: int) -> Trained:
    from sklearn.ensemble import HistGradientBoostingClassifier

    from errata.integrations import SklearnStageRecorder

    def train(path: Path | None) -> None:
        model = HistGradientBoostingClassifier(max_iter=ROUNDS, early_stopping=False).fit(X, y)
        if path is not None:
            recorder = SklearnStageRecorder(path, labels=y, quiet=True)
            recorder.record(model, X)
            recorder.finish()

    return train


def sklearn_epochs(X: Any, y: Any, classes: int) -> Trained:
    from sklearn.neural_network import MLPClassifier

    from errata.integrations import SklearnRecorder

    def train(path: Path | None) -> None:
        model = MLPClassifier((256, 256), batch_size=BATCH, random_state=0)
        recorder = None if path is None else SklearnRecorder(X, path, labels=y, quiet=True)
        for _ in range(EPOCHS):
            model.partial_fit(X, y, classes=range(classes))
            if recorder:
                recorder.record(model)

    return train


TRAINERS = {
    "PyTorch": (pytorch, IN_THE_PASS),
    "Lightning": (lightning, IN_THE_PASS),
    "Hugging Face": (huggingface, IN_THE_PASS),
    "Keras": (keras, IN_THE_PASS),
    "skorch": (skorch, IN_THE_PASS),
    "CatBoost": (catboost, PASS_OF_ITS_OWN),
    "HistGradientBoosting": (sklearn_stages, PASS_OF_ITS_OWN),
    "MLPClassifier": (sklearn_epochs, PASS_OF_ITS_OWN),
}


def run(names: list[str] | None = None) -> list[Row]:
    torch.set_num_threads(1)
    letter = load_setting("letter-symmetric-20")
    X, y, classes = letter.data.train_inputs[:SAMPLES], letter.given[:SAMPLES], letter.data.num_classes
    rows = []
    for name in names or TRAINERS:
        trainer, most = TRAINERS[name]
        rows.append(_row(name, trainer(X.astype(np.float32), y, classes), most))
        print(f"{name}: {rows[-1].detail}", file=sys.stderr)
    return rows


def _row(name: str, train: Trained, most: float) -> Row:
    """Plain and recorded training in alternation, the fastest of each, in CPU time of this process."""
    plain, recorded = [], []
    _seconds(train, None)  # the first training imports and compiles
    for _ in range(REPEAT):
        plain.append(_seconds(train, None))
        with tempfile.TemporaryDirectory() as folder:
            recorded.append(_seconds(train, Path(folder) / "run"))
    over = min(recorded) / min(plain) - 1
    detail = f"{min(recorded):.2f} s against {min(plain):.2f} s of processor time: {over:+.1%}"
    return Row(f"{name}, recorded to disk", "not recorded", 1 / (1 + over), 1 / (1 + most), detail)


def _seconds(train: Trained, path: Path | None) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        train(path)
        return time.process_time() - start


if __name__ == "__main__":
    print_rows(run(sys.argv[1:]))
