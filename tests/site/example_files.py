"""The files that commands in the README and the docs name, small enough to run every command."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

import errata
from errata.core.random_part import random_order

RESULTS = Path(__file__).parents[2] / "results"
SETTINGS = ("digits-symmetric-20", "letter-symmetric-20", "satellite-symmetric-20")


def write(folder: Path) -> None:
    """Write tables, texts, pictures, logits, a run, a result of `errata find`, decisions and benchmark results."""
    _tables(folder)
    _texts(folder / "reviews.csv")
    _pictures(folder / "photos")
    _logits(folder)
    _results(folder / "results")


def _tables(folder: Path) -> None:
    from sklearn.datasets import load_iris

    iris = load_iris(as_frame=True)
    flowers = iris.data.assign(species=iris.target_names[iris.target])
    wrong = np.arange(3, 150, 15)
    flowers.loc[wrong, "species"] = np.where(flowers["species"][wrong] == "setosa", "virginica", "setosa")
    for name in ("flowers.csv", "data.csv"):
        flowers.to_csv(folder / name, index=False)
    found = errata.find(folder / "flowers.csv", "species", model="mlp", out=folder / "errata-out")
    true = iris.target_names[iris.target]
    drawn = random_order(150, found.random_seed)[:60]
    judged = pd.unique(np.concatenate([found.ranking["id"].head(12), drawn]))
    given = flowers["species"].to_numpy()[judged]
    right = given == true[judged]
    decisions = {
        "id": judged,
        "label": given,
        "decision": np.where(right, "keep", "relabel"),
        "new_label": np.where(right, "", true[judged]),
        "random": np.where(np.isin(judged, drawn), "yes", ""),
    }
    pd.DataFrame(decisions).to_csv(folder / "decisions.csv", index=False)


def _texts(path: Path) -> None:
    rng = np.random.default_rng(0)
    words = {"good": ["great", "fine", "loved", "superb"], "bad": ["poor", "awful", "hated", "broken"]}
    common = ["the", "film", "and", "its", "story", "were", "for", "me", "that", "day"]
    sentiments = rng.choice(list(words), 80)
    texts = [" ".join(rng.permutation([*rng.choice(words[name], 3), *common])) for name in sentiments]
    pd.DataFrame({"text": texts, "sentiment": sentiments}).to_csv(path, index=False)


def _pictures(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for row in range(24):
        shade = np.full((24, 24, 3), 60 if row % 2 else 190) + rng.integers(-40, 40, (24, 24, 3))
        path = folder / ("dark" if row % 2 else "light") / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(shade.astype(np.uint8)).save(path)


def _logits(folder: Path) -> None:
    species = pd.read_csv(folder / "flowers.csv")["species"].to_numpy()
    classes, labels = np.unique(species, return_inverse=True)
    rng = np.random.default_rng(0)
    logits = (rng.normal(size=(5, 150, 3)) + 2 * np.eye(3)[labels]).astype(np.float32)
    np.save(folder / "logits.npy", logits)
    np.save(folder / "labels.npy", labels)
    np.savez(folder / "logits.npz", logits=logits, labels=labels)
    recorder = errata.Recorder(folder / "runs" / "mine", labels=species, classes=classes.tolist())
    for epoch in logits:
        recorder.update_all(epoch)
        recorder.end_epoch()
    recorder.finish()


def _results(folder: Path) -> None:
    for part in ("cells", "tuning", "recipes", "as-published/cells"):
        (folder / part).mkdir(parents=True)
        for setting in SETTINGS:
            for file in (RESULTS / part).glob(f"{setting}.*"):
                shutil.copy(file, folder / part)
