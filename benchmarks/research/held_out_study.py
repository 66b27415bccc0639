"""Which parts of the default for tables earn their place? Candidates on the tables of the suite `wild`.

ERRATA_DATA=... python benchmarks/research/held_out_study.py --out results/research [--seeds 2]

To the noises of beside_cleanlab.py, two are added that differ between classes (`class_dependent`). Every candidate sees
the same run of `errata find` and the same held-out predictions of other models. held_out.csv has the FNR of every
candidate on every dataset, noise and seed; held_out.md the means by noise, as a share of the misses of MeanProb-LM.
"with ..." replaces the distance of the neighbours in the pool by one of distances.py. Nothing is chosen on the dataset
it is measured on in the rows "..., chosen on the other datasets", and "a detector learned on the other datasets", a
logistic regression over statistics of samples that do not identify a dataset.
"""

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression

import errata
from beside_cleanlab import noises
from distances import held_out_votes
from errata.core import unmixing
from errata.core.held_out_models import held_out_predictions, pool_weights
from errata.core.measures import LM, LabelledLogits
from errata.core.neighbours import label_votes, nearest
from errata.datasets.locations import data_dir
from errata.datasets.sets.wild import DATASETS

Array = NDArray[np.float64]
MODELS = ("neighbours", "logistic regression", "forest", "network")
WEIGHTS = (0.3, 0.4, 0.5, 0.7)
SHARES, TYPICAL, FACTORS = (0.5, 0.7, 0.8, 0.9, 1.0), (0.05, 0.1, 0.2, 0.5), (1, 20, 100, 1000)
CONSTANTS = {
    "a": [f"a = {weight}" for weight in WEIGHTS],
    "share of T by the counts": [f"{share:.0%} of T by the counts" for share in SHARES],
    "share of typical samples": [f"T from the typical {share:.0%}" for share in TYPICAL],
    "Bayes factor": [f"T if {factor} times more probable" for factor in FACTORS],
}
KEY = ["dataset", "noise", "seed"]


@dataclass(frozen=True, eq=False)
class Run:
    """A run of find. mean, early, last: log-probabilities (N, K) of the whole run, its first quarter and last epoch.

    models: held-out log-probabilities (N, K) of each of MODELS. votes: logarithms of the votes of 10 neighbours (N, K).
    distances: what replaces those of the neighbours, by the name of the distance.
    """

    labels: NDArray[np.int64]
    truth: NDArray[np.bool_]
    mean: Array
    early: Array
    last: Array
    models: list[Array]
    votes: Array
    distances: dict[str, Array]
    beats_pool: bool

    @cached_property
    def pool(self) -> Array:
        """The pool of all models."""
        return self.pooled(range(len(self.models)))

    def pooled(self, which: "range | list[int]") -> Array:
        """The pool (N, K) of some models."""
        chosen = [self.models[number] for number in which]
        return normalised(np.tensordot(pool_weights(chosen, self.labels), np.stack(chosen), axes=1))

    def margin(self, log_probabilities: Array) -> Array:
        """LM of log-probabilities (N, K)."""
        return LabelledLogits(log_probabilities, self.labels).measure(LM)

    def fnr(self, scores: Array) -> float:
        """FNR in percent."""
        return 100 * float(errata.metrics.fnr(scores, self.truth))


def normalised(log_probabilities: Array) -> Array:
    """Rows (N, K) that sum to 1."""
    return np.asarray(log_softmax(log_probabilities, axis=1))


def recorded(frame: pd.DataFrame, labels: NDArray[np.int64], truth: NDArray[np.bool_], seed: int) -> Run:
    """One run of find on a table."""
    given = frame.assign(label=[f"class {number:03d}" for number in labels])
    dynamics = errata.find(given, "label", seed=seed).dynamics
    probabilities = softmax(np.asarray(dynamics.logits, dtype=np.float64), axis=2)
    quarter = max(1, round(len(probabilities) / 4))
    near = nearest(dynamics.inputs, 10).index
    classes = dynamics.num_classes
    return Run(
        dynamics.labels,
        truth,
        np.log(probabilities.mean(axis=0)),
        np.log(probabilities[:quarter].mean(axis=0)),
        np.log(np.maximum(probabilities[-1], 1e-12)),
        held_out_predictions(dynamics.inputs, dynamics.labels, classes),
        np.log((label_votes(dynamics.labels, near, classes) + 1 / classes) / 11),
        held_out_votes(frame, dynamics.labels, classes),
        bool(dynamics.settings.get("beats_held_out")),
    )


def class_dependent(labels: NDArray[np.int64], seed: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Labels with other noise in each class, by name.

    uneven: the shares of wrong labels of the classes go from 5 to 55 %, the directions are random. half-40: 40 % of the
    labels of every other class become the next class.
    """
    classes = labels.max() + 1
    for name in ("uneven", "half-40"):
        rng = np.random.default_rng(100 + seed)
        rates = np.where(np.arange(classes) % 2 == 0, 0.4, 0.0)
        directions = np.roll(np.eye(classes), 1, axis=1)
        if name == "uneven":
            rates = rng.permutation(np.linspace(0.05, 0.55, classes))
            directions = rng.dirichlet(np.full(classes, 0.5), classes)
        directions = (directions + 1e-9) * (1 - np.eye(classes))
        directions /= directions.sum(axis=1, keepdims=True)
        given = labels.copy()
        for row in np.flatnonzero(rng.random(len(labels)) < rates[labels]):
            given[row] = rng.choice(classes, p=directions[labels[row]])
        yield name, given


def unmixed(run: Run, log_probabilities: Array, evidence: bool = True) -> Array:
    """The margin after unmixing by the typical samples of the pool."""
    T = unmixing.transition_of_typical(unmixing.count_typical(run.pool, run.labels))
    q = unmixing.true_classes(normalised(log_probabilities), T, 2)
    return run.margin(q + unmixing.label_evidence(T)[:, run.labels].T if evidence else q)


def unmixed_by(run: Run, log_probabilities: Array, transition: Array) -> Array:
    """The margin after unmixing with T, without the evidence of the label, as in 0.1.0."""
    if len(run.labels) < log_probabilities.shape[1] ** 2:
        return run.margin(log_probabilities)
    return run.margin(unmixing.true_classes(normalised(log_probabilities), transition, 2))


def with_constants(run: Run, log_probabilities: Array, share: float, factor: float) -> Array:
    """The margin after unmixing with another share of typical samples, and another Bayes factor."""
    usual = unmixing.TYPICAL_SHARE, unmixing.DECISIVE
    unmixing.TYPICAL_SHARE, unmixing.DECISIVE = share, factor
    try:
        return unmixed(run, log_probabilities)
    finally:
        unmixing.TYPICAL_SHARE, unmixing.DECISIVE = usual


def with_share_of_counts(run: Run, log_probabilities: Array, share: float) -> Array:
    """The margin after unmixing with another share of T that depends on the class."""
    usual, unmixing.SHARE_OF_COUNTS = unmixing.SHARE_OF_COUNTS, share
    try:
        return unmixed(run, log_probabilities)
    finally:
        unmixing.SHARE_OF_COUNTS = usual


def transition_of_typical_half(run: Run) -> Array:
    """T from all labels of the half of each predicted class that the pool is most confident about."""
    usual, unmixing.TYPICAL_SHARE = unmixing.TYPICAL_SHARE, 0.5
    try:
        return unmixing.as_transition(unmixing.count_typical(run.pool, run.labels))
    finally:
        unmixing.TYPICAL_SHARE = usual


def blended(run: Run, weight: float, others: Array | None = None) -> Array:
    """The run and held-out predictions."""
    return weight * run.mean + (1 - weight) * (run.pool if others is None else others)


def shrunk(run: Run) -> Array:
    """Neighbours count less where they disagree among each other: their weight is 0.3 times their largest share."""
    weight = 0.3 * np.exp(run.votes.max(axis=1, keepdims=True))
    return (1 - weight) * run.mean + weight * run.votes


def candidates(run: Run) -> Iterator[tuple[str, Array]]:
    """Scores (N,) of every candidate."""
    yield "MeanProb-LM", run.margin(run.mean)
    joint = unmixing.transition_of_joint(np.exp(run.votes), run.labels)
    yield "10 neighbours (the default of 0.1)", unmixed_by(run, 0.7 * run.mean + 0.3 * run.votes, joint)
    yield "10 neighbours, less where they disagree", unmixed_by(run, shrunk(run), joint)
    yield "run and pool (the default)", unmixed(run, blended(run, 0.7 if run.beats_pool else 0.4))
    for weight in WEIGHTS:
        yield f"a = {weight}", unmixed(run, blended(run, weight))
    yield "pool alone", unmixed(run, run.pool)
    yield "equal weights in the pool", unmixed(run, blended(run, 0.4, normalised(np.mean(run.models, axis=0))))
    for left_out, name in enumerate(MODELS):
        rest = [number for number in range(len(MODELS)) if number != left_out]
        yield f"without {name}", unmixed(run, blended(run, 0.4, run.pooled(rest)))
    for distance, votes in run.distances.items():
        other = replace(run, models=[votes, *run.models[1:]])
        yield f"with {distance}", unmixed(other, blended(other, 0.4))
    blend = blended(run, 0.4)
    yield "not unmixed", run.margin(blend)
    yield "without the evidence of the label", unmixed(run, blend, evidence=False)
    yield (
        "always unmixed, T from the confident joint",
        unmixed_by(run, blend, unmixing.transition_of_joint(np.exp(run.pool), run.labels)),
    )
    yield "always unmixed, T from the typical half", unmixed_by(run, blend, transition_of_typical_half(run))
    for share in TYPICAL:
        yield f"T from the typical {share:.0%}", with_constants(run, blend, share, unmixing.DECISIVE)
    for share in SHARES:
        yield f"{share:.0%} of T by the counts", with_share_of_counts(run, blend, share)
    for factor in FACTORS:
        yield f"T if {factor} times more probable", with_constants(run, blend, unmixing.TYPICAL_SHARE, factor)


def statistics(run: Run) -> Array:
    """Per-sample statistics (N, S) that do not identify a dataset: margins, scaled and as quantiles of their class."""
    columns = []
    sources = [run.mean, run.early, run.last, run.pool, *run.models, run.votes]
    for scores in (unmixed(run, blended(run, 0.4)), *(run.margin(one) for one in sources)):
        columns += [scores / scores.std(), rankdata(scores) / len(scores)]
        within = np.empty(len(scores))
        for label in np.unique(run.labels):
            rows = run.labels == label
            within[rows] = rankdata(scores[rows]) / rows.sum()
        columns.append(within)
    return np.column_stack(columns)


def learned(runs: dict[tuple[str, str, int], Run]) -> dict[tuple[str, str, int], float]:
    """FNR of the learned detector on each run, trained on the runs of all other datasets."""
    described = {key: statistics(run) for key, run in runs.items()}
    found = {}
    for dataset in {key[0] for key in runs}:
        others = [key for key in runs if key[0] != dataset]
        weights = np.concatenate([np.full(len(runs[key].truth), 1 / len(runs[key].truth)) for key in others])
        model = LogisticRegression(C=0.1, max_iter=500).fit(
            np.concatenate([described[key] for key in others]),
            np.concatenate([runs[key].truth for key in others]),
            sample_weight=weights / weights.mean(),
        )
        found |= {key: runs[key].fnr(model.decision_function(described[key])) for key in runs if key[0] == dataset}
    return found


def chosen_elsewhere(rows: pd.DataFrame, columns: list[str]) -> pd.Series:
    """FNR of the candidate that is best on the other datasets."""
    result = pd.Series(index=rows.index, dtype=float)
    for dataset, own in rows.groupby("dataset"):
        best = rows[rows["dataset"] != dataset][columns].mean().idxmin()
        result[own.index] = own[best]
    return result


def table(rows: pd.DataFrame) -> str:
    """Mean FNR by noise, and the share of the misses of MeanProb-LM, in Markdown."""
    names = [name for name in rows.columns if name not in KEY]
    means = rows.groupby(["noise", "dataset"])[names].mean()
    by_noise = means.groupby(level="noise").mean()
    lines = ["| candidate | " + " | ".join(by_noise.index) + " | share |", "|---|" + "---:|" * (len(by_noise) + 1)]
    for name in names:
        share = means[name].mean() / means["MeanProb-LM"].mean()
        lines.append(f"| {name} | " + " | ".join(f"{value:.2f}" for value in by_noise[name]) + f" | {share:.3f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all candidates, and write held_out.csv and held_out.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    runs: dict[tuple[str, str, int], Run] = {}
    rows = []
    for name in [one.name for one in DATASETS]:
        frame = pd.read_parquet(data_dir() / "more" / f"{name}.parquet")
        labels = np.unique(frame.pop("label").astype(str), return_inverse=True)[1]
        if frame.shape[1] == 1:  # texts
            continue
        for seed in range(1, options.seeds + 1):
            given = [(noise, noisy.labels) for noise, noisy in noises(labels, seed)]
            for noise, noisy in [*given, *class_dependent(labels, seed)]:
                run = runs[name, noise, seed] = recorded(frame, noisy, noisy != labels, seed)
                rows.append(
                    dict(zip(KEY, (name, noise, seed), strict=True)) | {one: run.fnr(s) for one, s in candidates(run)}
                )
                print(rows[-1], flush=True)
    found = pd.DataFrame(rows)
    for constant, columns in CONSTANTS.items():
        found[f"{constant}, chosen on the other datasets"] = chosen_elsewhere(found, columns)
    detector = learned(runs)
    found["a detector learned on the other datasets"] = [detector[tuple(row)] for row in found[KEY].to_numpy()]
    found.round(3).to_csv(options.out / "held_out.csv", index=False)
    (options.out / "held_out.md").write_text(table(found))
    print(table(found))


if __name__ == "__main__":
    main()
