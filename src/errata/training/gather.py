"""Gathering: who trains on whom, and which logits of whom are kept.

In-sample, a sample's logits come from the training pass itself, before the update. Out-of-sample, they come from the
model of the fold that left the sample out, after every epoch.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel

from errata.dynamics.recorder import Recorder
from errata.dynamics.store import Dynamics

Progress = Callable[[], object]


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: Adam with coupled L2 on shuffled batches, every sample every epoch."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    seed: int = 0


Builder = Callable[[], nn.Module]


def in_sample(
    inputs: NDArray[np.float32],
    labels: NDArray[np.int64],
    num_classes: int,
    build: Builder,
    recipe: Recipe,
    progress: Progress = lambda: None,
) -> Dynamics:
    """Train once on all samples (N, D); logits of the training pass, and those of the weight average at the end."""
    recorder = Recorder(labels=labels, num_classes=num_classes, settings=asdict(recipe), quiet=True)
    x, y = torch.from_numpy(inputs), torch.from_numpy(labels)
    torch.manual_seed(recipe.seed)
    model = build()
    average = AveragedModel(model)
    for batches in _train(model, x, y, recipe):
        for rows, logits in batches:
            recorder.update(rows, logits)
        recorder.end_epoch()
        average.update_parameters(model)
        progress()
    return recorder.finish(swa_logits=_evaluate(average, x))


def out_of_sample(
    inputs: NDArray[np.float32],
    labels: NDArray[np.int64],
    num_classes: int,
    build: Builder,
    recipe: Recipe,
    folds: int = 4,
    progress: Progress = lambda: None,
) -> Dynamics:
    """Train once a fold on the other folds; logits of the fold left out after every epoch, put together as one run."""
    from sklearn.model_selection import StratifiedKFold

    x, y = torch.from_numpy(inputs), torch.from_numpy(labels)
    logits = np.empty((recipe.epochs, len(labels), num_classes), dtype=np.float32)
    fold = np.empty(len(labels), dtype=np.int64)
    splits = StratifiedKFold(folds, shuffle=True, random_state=recipe.seed).split(inputs, labels)
    for number, (others, held_out) in enumerate(splits):
        fold[held_out] = number
        torch.manual_seed(recipe.seed)
        model = build()
        for epoch, batches in enumerate(_train(model, x[others], y[others], recipe)):
            for _ in batches:
                pass
            logits[epoch, held_out] = _evaluate(model, x[held_out]).numpy()
            progress()
    return Dynamics.from_arrays(logits, labels, fold=fold, settings=asdict(recipe))


def _train(model: nn.Module, x: Tensor, y: Tensor, recipe: Recipe) -> Iterator[Iterator[tuple[Tensor, Tensor]]]:
    """For each epoch its batches, as they are trained on: rows and the logits before the update."""
    optimizer = torch.optim.Adam(model.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        model.train()
        for rows in torch.randperm(len(y)).split(recipe.batch_size):  # type: ignore[no-untyped-call]
            logits = model(x[rows])
            optimizer.zero_grad()
            cross_entropy(logits, y[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            yield rows, logits.detach()

    for _ in range(recipe.epochs):
        yield batches()


@torch.no_grad()
def _evaluate(model: nn.Module, x: Tensor) -> Tensor:
    model.eval()
    result: Tensor = model(x)
    return result
