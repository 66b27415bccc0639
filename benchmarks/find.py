"""`errata.find` with its defaults compared with cleanlab, on the same data with the same errors.

ERRATA_DATA=... python benchmarks/find.py [digits satellite letter trec]

FNR is the share of the errors that are not among the first n samples of the ranking, n being the number of errors.
cleanlab ranks by its label quality score. Its fourth row is `find_label_issues` on out-of-fold probabilities of the
model that find chose: flagged samples first, in their order, then the others by self-confidence.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cleanlab.classification import CleanLearning
from cleanlab.filter import find_label_issues
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import errata
from errata.core.noise import NoisyLabels, symmetric
from errata.datasets.locations import data_dir
from errata.finding.find_options import FindOptions
from errata.finding.model_training import train_model
from errata.readers import open_data
from errata.terminal import NoProgress

FOLDS, RATE, SEED = 5, 0.2, 0
LETTERS = 15_000  # number of first samples, as in the paper


class Task(NamedTuple):
    """Inputs, labels of which 20 % are wrong, and the truth."""

    name: str
    inputs: Any
    noisy: NoisyLabels


class Row(NamedTuple):
    """FNR and seconds of one method."""

    task: str
    contender: str
    fnr: float
    seconds: float


class _Clock(NoProgress):
    """Records when the last training started."""

    last = 0.0

    def begin(self, name: str, epochs: int) -> None:
        self.last = time.perf_counter()


def digits() -> tuple[Any, NDArray[np.int64]]:
    return load_digits(return_X_y=True)


def satellite() -> tuple[Any, NDArray[np.int64]]:
    table = np.loadtxt(data_dir(None) / "satellite" / "sat.trn")
    return table[:, :-1], _numbered(table[:, -1])


def letter() -> tuple[Any, NDArray[np.int64]]:
    lines = _lines("letter/letter-recognition.data")[:LETTERS]
    cells = [line.split(",") for line in lines]
    return np.array([row[1:] for row in cells], dtype=np.float64), _numbered([row[0] for row in cells])


def trec() -> tuple[Any, NDArray[np.int64]]:
    lines = _lines("trec/train_5500.label")
    return [line.split(" ", 1)[1] for line in lines], _numbered([line.split(":", 1)[0] for line in lines])


TASKS: dict[str, Callable[[], tuple[Any, NDArray[np.int64]]]] = {
    "digits": digits,
    "satellite": satellite,
    "letter": letter,
    "trec": trec,
}


def run(names: list[str]) -> Iterator[Row]:
    inputs, labels = load_digits(return_X_y=True)
    errata.find(inputs[:300], labels[:300])  # imports and compilation are not timed
    for name in names:
        inputs, clean = TASKS[name]()
        task = Task(name, inputs, symmetric(clean, RATE, num_classes=int(clean.max()) + 1, seed=SEED))
        features = open_data((inputs, task.noisy.labels)).prepare().matrix
        yield _found(task)
        for model in (LogisticRegression(max_iter=1_000), HistGradientBoostingClassifier(random_state=SEED)):
            yield _clean_learning(task, features, model)
        yield _out_of_fold(task)


def _found(task: Task) -> Row:
    started = time.perf_counter()
    found = errata.find(task.inputs, task.noisy.labels, seed=SEED)
    scores = found.ranking.sort_values("id")["score"].to_numpy()
    seconds = time.perf_counter() - started
    return Row(task.name, f"errata find ({found.summary['model']})", _fnr(scores, task), seconds)


def _clean_learning(task: Task, features: NDArray[np.float32], model: Any) -> Row:
    started = time.perf_counter()
    issues = CleanLearning(model, cv_n_folds=FOLDS, seed=SEED).find_label_issues(features, task.noisy.labels)
    seconds = time.perf_counter() - started
    name = f"CleanLearning ({FOLDS}-fold) around {type(model).__name__}"
    return Row(task.name, name, _fnr(-issues["label_quality"].to_numpy(), task), seconds)


def _out_of_fold(task: Task) -> Row:
    """Out-of-fold probabilities of find's model. The time to choose the model is not counted."""
    data = open_data((task.inputs, task.noisy.labels))
    clock = _Clock()
    learned = train_model(data, FindOptions(folds=FOLDS, seed=SEED), None, clock)
    assert learned.dynamics.logits is not None
    probabilities = softmax(learned.dynamics.logits[-1].astype(np.float64), axis=1)
    flagged = find_label_issues(task.noisy.labels, probabilities, return_indices_ranked_by="self_confidence", n_jobs=1)
    seconds = time.perf_counter() - clock.last
    scores = -probabilities[np.arange(len(probabilities)), task.noisy.labels]
    scores[flagged] += 1.0  # these first
    return Row(task.name, f"find_label_issues on {FOLDS} folds of {learned.model}", _fnr(scores, task), seconds)


def _fnr(scores: NDArray[np.float64], task: Task) -> float:
    return errata.metrics.fnr(scores, task.noisy.truth)


def _lines(name: str) -> list[str]:
    return (data_dir(None) / Path(name)).read_text(encoding="latin-1").splitlines()


def _numbered(values: Any) -> NDArray[np.int64]:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("| data | found by | FNR % | seconds |\n|---|---|---|---|")
    for row in run(sys.argv[1:] or list(TASKS)):
        print(f"| {row.task} | {row.contender} | {100 * row.fnr:.2f} | {row.seconds:.1f} |", flush=True)
