"""The paper's CIFAR-10 rows, run for real: in-sample dynamics of cnn9, FNR of eleven methods beside the paper's.

    python benchmarks/paper_cifar.py FOLDER --out OUT [--setting worse] [--seeds 3] [--epochs 2]

FOLDER holds mosaics of 5,000 images (train_00.webp ..., test_00.webp ...) and labels.npz with clean, test, aggregate
and worse labels. OUT receives one CSV a setting.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image

import errata
from errata.core.methods import paper_methods
from errata.training.data import Images
from errata.training.engine import Options
from errata.training.executors import evaluate
from errata.training.gather import in_sample
from errata.training.models import cnn9
from errata.training.recipes import Recipe
from errata.training.transforms import PadCropFlip

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
RECIPES = {
    "worse": Recipe(35, 64, 3e-4, 2e-4, schedule=((0, 1.0), (25, 0.1))),
    "symmetric-20": Recipe(63, 64, 5e-5, 0.02, schedule=((0, 1.0), (50, 0.1))),
    "pairflip-20": Recipe(63, 128, 1e-3, 1e-4, schedule=((0, 1.0), (50, 0.1))),
    "aggregate": Recipe(100, 64, 3e-5, 0.03, schedule=((0, 1.0), (50, 0.1), (80, 0.01))),
}
# FNR % at the noise rate, from the paper's table.
PAPER = {
    "Last-CE": (15.79, 9.024, 13.28),
    "Last-LM": (14.99, 9.43, 11.72),
    "Mean-CE": (17.18, 7.52, 15.60),
    "Mean-JS": (16.15, 7.60, 10.35),
    "Mean-LM": (13.12, 7.06, 8.27),
    "Mean-CPD": (12.84, 7.62, 5.58),
    "MeanProb-CE": (15.39, 7.63, 8.15),
    "MeanProb-LM": (12.61, 7.18, 6.12),
    "SWA-CE": (17.48, 11.11, 18.59),
    "SWA-LM": (15.62, 12.13, 13.53),
    "LateStopping-CPD": (29.99, 19.15, 22.01),
}


def images(folder: Path, split: str) -> Images:
    """All images of a split, from its mosaics of 50 x 100."""
    Image.MAX_IMAGE_PIXELS = None
    parts = []
    for path in sorted(folder.glob(f"{split}_*.webp")):
        pixels = np.asarray(Image.open(path).convert("RGB")).reshape(50, 32, 100, 32, 3)
        parts.append(pixels.transpose(0, 2, 4, 1, 3).reshape(5000, 3, 32, 32))
    return Images(np.concatenate(parts), MEAN, STD, augment=PadCropFlip(4))


def noisy_labels(setting: str, labels: dict[str, np.ndarray]) -> np.ndarray:
    """Given labels of a setting: human ones, or synthetic ones drawn once."""
    if setting in labels:
        return labels[setting]
    draw = errata.noise.pairflip if setting.startswith("pairflip") else errata.noise.symmetric
    return draw(labels["clean"], 0.2, num_classes=10, seed=0).labels


def run(setting: str, folder: Path, seeds: int, epochs: int | None, out: Path) -> pd.DataFrame:
    """Train and score one setting; returns FNR % of every method, ours and the paper's."""
    labels = dict(np.load(folder / "labels.npz"))
    given = noisy_labels(setting, labels)
    truth = given != labels["clean"]
    recipe = RECIPES[setting] if epochs is None else Recipe(epochs, RECIPES[setting].batch_size, 3e-4)
    train, test = images(folder, "train"), images(folder, "test")
    options = Options(swa=True, features=False)
    start = time.perf_counter()
    gathered = in_sample(train, given, 10, lambda: cnn9(10), recipe, seeds=range(seeds), options=options)
    seconds = time.perf_counter() - start
    methods = [method.name for method in paper_methods() if method.gathering == "in-sample"]
    methods = [name for name in methods if name in PAPER]
    rows = []
    placed = test.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    for result in gathered:
        assert result.dynamics is not None, result.stopped
        scores = errata.score_many(result.dynamics, methods)
        model = cnn9(10).to(placed.device)
        model.load_state_dict(result.weights[0])
        predicted = evaluate(model, placed, torch.arange(len(placed), device=placed.device)).argmax(1).cpu().numpy()
        accuracy = float((predicted == labels["test"]).mean())
        rows += [
            {"seed": result.seed, "method": name, "fnr": 100 * errata.metrics.fnr(scores[name], truth)}
            for name in methods
        ]
        rows.append({"seed": result.seed, "method": "test accuracy", "fnr": 100 * accuracy})
    table = pd.DataFrame(rows).groupby("method", sort=False)["fnr"].agg(["mean", lambda v: v.std(ddof=0), "count"])
    table.columns = ["ours", "std", "seeds"]
    table["paper"] = [PAPER.get(name, (np.nan,) * 3)[_column(setting)] for name in table.index]
    per_epoch = seconds / recipe.epochs / seeds
    print(f"{setting}: {int(truth.sum())} noisy, {seeds} seeds, {seconds:.0f} s, {per_epoch:.3f} s a model-epoch")
    print(table.round(2).to_string(), flush=True)
    table.round(4).to_csv(out / f"cifar10-{setting}.csv")
    timing = {
        "setting": setting,
        "seeds": seeds,
        "epochs": recipe.epochs,
        "seconds": seconds,
        "per_model_epoch": per_epoch,
    }
    (out / f"cifar10-{setting}.json").write_text(json.dumps(timing))
    return table


def _column(setting: str) -> int:
    order = ("worse", "symmetric-20", "pairflip-20")
    return order.index(setting) if setting in order else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--setting", action="append", choices=sorted(RECIPES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="shorter than the paper's, to try it out")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for wanted in arguments.setting or ["worse", "symmetric-20", "pairflip-20"]:
        run(wanted, arguments.folder, arguments.seeds, arguments.epochs, arguments.out)
