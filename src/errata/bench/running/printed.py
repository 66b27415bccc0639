"""The networks of the paper's tables: it prints their rates, epochs and test accuracy, but not their widths."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from errata.bench.running.cell_training import table
from errata.datasets.loading import LabelledSetting
from errata.training.recipes import Recipe

if TYPE_CHECKING:
    import pandas as pd

SEEDS = (0, 1, 2)


def choose_printed(
    labelled: LabelledSetting, recipe: Recipe, accuracy: float, device: str, progress: Callable[[float], object]
) -> "pd.DataFrame":
    """Train every candidate network by the printed recipe; a row a network, nearest to the printed accuracy first.

    Columns: widths, test_accuracy (the mean of three seeds over the last ten epochs) and difference. A reproduction may
    look at test labels like this: it is not what is compared with the paper afterwards, the errors that are missed.
    """
    import pandas as pd

    from errata.training.choose import candidate_widths

    train = table(labelled, "train")
    networks = candidate_widths(train.values.shape[1], labelled.data.num_classes)
    rows = []
    for widths in networks:
        reached = _test_accuracy(labelled, replace(recipe, widths=widths), device)
        rows.append({"widths": widths, "test_accuracy": reached, "difference": reached - accuracy})
        progress(1 / len(networks))
    found = pd.DataFrame(rows)
    return found.sort_values("difference", key=abs, kind="stable", ignore_index=True)


def _test_accuracy(labelled: LabelledSetting, recipe: Recipe, device: str) -> float:
    import torch

    from errata.training.engine import train
    from errata.training.gather import executor_for
    from errata.training.jobs import TrainingJob
    from errata.training.model_inputs import TableInputs
    from errata.training.tracks import TrainingOptions
    from errata.training.validation import check_device, rolling_mean

    parts = [table(labelled, "train").values, table(labelled, "test").values]
    labels = np.concatenate([labelled.given, labelled.data.test_labels])
    learned, tested = np.split(np.arange(len(labels)), [len(labelled.given)])
    jobs = [TrainingJob(f"seed{seed}", recipe.with_seed(seed), learned, tested) for seed in SEEDS]
    classes = labelled.data.num_classes
    make = executor_for(recipe.widths, TableInputs(torch.cat(parts)), labels, classes, check_device(device))
    reached = []
    for trained in train(jobs, labels, classes, make, TrainingOptions(when="after epoch", swa=False)):
        if trained.stopped is not None:
            return float("nan")
        assert trained.dynamics is not None
        assert trained.dynamics.logits is not None
        right = (trained.dynamics.logits.argmax(axis=2) == labels[tested]).mean(axis=1)
        reached.append(rolling_mean(right)[-1])
    return float(np.mean(reached))
