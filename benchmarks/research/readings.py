"""Readings of the paper, tried on one small setting each (docs/results.md, As published). Prints Markdown tables.

python benchmarks/research/readings.py tables        # scaling, class weights and networks on Cardiotocography
python benchmarks/research/readings.py evaluation    # dropout and batch-norm statistics in evaluation, on digits
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from errata.bench.evaluation import published
from errata.bench.evaluation.compare import BAND_POINTS, BAND_RELATIVE
from errata.bench.running.cell_training import FOLDS, setting_inputs
from errata.core import metrics
from errata.core.held_out_models import assign_folds
from errata.core.measures import LM, LabelledLogits
from errata.core.methods import paper_methods
from errata.datasets.loading import load_setting
from errata.dynamics.scoring import method_results
from errata.training.gather import gather
from errata.training.jobs import TrainingOptions
from errata.training.recipes import Recipe

SETTING = "cardiotocography-symmetric-20"
NETWORKS = ((32, 16, 16), (42, 21, 10))  # nearest in test accuracy without the other readings; of CTRL's grid
SHOWN = ("Last-CE", "Mean-CE", "SWA-CE", "CTRL-CE", "CL-PBC (IS)", "Last-LM (OOS)", "Mean-LM (OOS)")
EPOCHS, NOISE, DROPOUT, SEEDS = 30, 0.2, 0.25, 3


def tables() -> Iterator[list[str]]:
    """One row per reading: cells inside the band, and FNR (%) of some methods."""
    labelled = load_setting(SETTING)
    wrong = labelled.truth.astype(np.bool_)
    paper = published.fnr_at_noise_rate().query("setting == @SETTING").set_index("method")["fnr_percent"]
    yield ["columns", "weights", "network", "inside", *SHOWN]
    yield ["", "", "paper", "", *(f"{paper[name]:.1f}" for name in SHOWN)]
    for in_unit, weights, widths in product((False, True), (None, "balanced"), NETWORKS):
        recipe = labelled.setting.recipe
        assert isinstance(recipe, Recipe)
        found = {}
        for folds in (None, FOLDS):
            options = TrainingOptions(swa=folds is None, class_weights=weights)  # type: ignore[arg-type]
            inputs = setting_inputs(labelled, "train", as_published=in_unit)
            arguments = inputs, labelled.given, labelled.data.num_classes, None, replace(recipe, widths=widths)
            (result,) = gather(*arguments, folds=folds, options=options, device="cpu")
            assert result.dynamics is not None
            gathering = "in-sample" if folds is None else "out-of-sample"
            names = [method.name for method in paper_methods() if method.gathering == gathering]
            for name, one in method_results(result.dynamics, names, budget=int(wrong.sum())).items():
                found[name] = 100 * metrics.fnr(one.scores, wrong)
        inside = sum(abs(found[name] - paper[name]) <= max(BAND_POINTS, BAND_RELATIVE * paper[name]) for name in found)
        reading = "0..1" if in_unit else "standardised", "of classes" if weights else "of samples"
        network = "-".join(map(str, widths))
        yield [*reading, network, f"{inside} of {len(found)}", *(f"{found[name]:.1f}" for name in SHOWN)]


class Drop(nn.Module):
    """Dropout of whole channels, in evaluation only if `always` is set."""

    always = False

    def forward(self, x: Tensor) -> Tensor:
        """Some channels are 0, the others are scaled up."""
        return nn.functional.dropout2d(x, DROPOUT, training=self.training or Drop.always)


def network() -> nn.Module:
    """Five convolutions for 8 x 8 images, arranged as in cnn9."""
    layers: list[nn.Module] = []
    for inputs, outputs, last in ((1, 16, False), (16, 16, True), (16, 32, False), (32, 32, True), (32, 32, False)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.01)]
        layers += [nn.MaxPool2d(2), Drop()] if last else []
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


@torch.no_grad()
def logits(model: nn.Module, images: Tensor, how: str) -> NDArray[np.float64]:
    """Logits (n, 10) in evaluation mode: as usual, with "dropout", or with the "batch" statistics of 64 images."""
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    model.eval()
    Drop.always = how == "dropout"
    for layer in norms if how == "batch" else []:
        layer.train().momentum = 0.0  # the stored statistics do not change
    found = torch.cat([model(batch) for batch in images.split(64)])
    Drop.always = False
    for layer in norms:
        layer.momentum = 0.1
    return found.double().numpy()


def train(images: Tensor, labels: Tensor, seed: int, end_epoch: Callable[[nn.Module], None]) -> None:
    """Train for EPOCHS; `end_epoch` is called after each."""
    torch.manual_seed(seed)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    for epoch in range(EPOCHS):
        optimizer.param_groups[0]["lr"] = 2e-3 if epoch < 0.75 * EPOCHS else 2e-4
        model.train()
        for batch in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            cross_entropy(model(images[batch]), labels[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        end_epoch(model)


def evaluation() -> Iterator[list[str]]:
    """One row per way to evaluate: accuracy and FNR (%) out of sample, mean over seeds of noise and training."""
    data = load_digits()
    images, truth = torch.tensor(data.images, dtype=torch.float32)[:, None] / 8 - 1, data.target
    ways = {"stored": "stored statistics, no dropout", "dropout": "stored statistics, dropout"}
    ways |= {"batch": "statistics of the batch, no dropout"}
    rows: dict[str, list[list[float]]] = {way: [] for way in ways}
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        flipped = (truth + rng.integers(1, 10, len(truth))) % 10
        given = np.where(rng.random(len(truth)) < NOISE, flipped, truth)
        fold = assign_folds(given, FOLDS)
        recorded: dict[str, list[NDArray[np.float64]]] = {
            way: [np.empty((len(truth), 10)) for _ in range(EPOCHS)] for way in ways
        }
        for k in range(FOLDS):
            rows_in, rows_out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            epochs = iter(range(EPOCHS))

            def record(
                model: nn.Module, held_out: NDArray[np.int64] = rows_out, epochs: Iterator[int] = epochs
            ) -> None:
                epoch = next(epochs)
                for way in ways:
                    recorded[way][epoch][held_out] = logits(model, images[held_out], way)  # noqa: B023

            train(images[rows_in], torch.from_numpy(given[rows_in]), seed, record)
        for way, found in recorded.items():
            margins = [LabelledLogits(one, given).measure(LM) for one in found]
            accuracy = float(np.mean(found[-1].argmax(axis=1) == truth))
            fnrs = (metrics.fnr(scores, given != truth) for scores in (margins[-1], np.mean(margins, axis=0)))
            rows[way].append([100 * accuracy, *(100 * value for value in fnrs)])
    yield ["evaluation", "accuracy (%)", "Last-LM (OOS)", "Mean-LM (OOS)"]
    for way, title in ways.items():
        yield [title, *(f"{value:.2f}" for value in np.mean(rows[way], axis=0))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tables", "evaluation"])
    for number, cells in enumerate({"tables": tables, "evaluation": evaluation}[parser.parse_args().what]()):
        print(f"| {' | '.join(cells)} |", *(["|" + " --- |" * len(cells)] if number == 0 else []), sep="\n", flush=True)
