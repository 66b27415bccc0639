"""Models that predict the label of every sample without having seen it, from the inputs (N, D).

- Logistic regression and a small network are trained in five folds: each fold is predicted by a model of the others.
- The trees of a random forest predict the samples that they were not grown on (out-of-bag).
- The k nearest neighbours of a sample predict it; the sample itself is not among them.

Each model is tried with a few strengths of regularisation. The one with the lowest log loss of the given labels is
kept: it is the most accurate about labels that were held out. True labels are never used. Before the comparison, the
log-probabilities are multiplied by the factor that minimises the loss, because the pool does so as well.

Sparse inputs, such as TF-IDF terms, are predicted by naive Bayes, neighbours and, unless there are many classes,
logistic regression. Trees and networks are slow there, and no better.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from errata.core.checks import Floats, Labels
from errata.core.jit import over_blocks, usable_cpus
from errata.core.neighbours import label_votes
from errata.core.sample_context import SampleContext
from errata.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

NearestRows = Callable[[int], NDArray[np.int32]]

FOLDS = 5
FEWEST_SAMPLES = 2 * FOLDS
LOWEST_HELD_OUT_LOG_PROBABILITY = -12.0
"""Lower values are cut: a class that no tree voted for is not impossible. Votes of neighbours are never this low."""

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0)  # C of logistic regression: larger is weaker
MAX_ITERATIONS = 100  # of logistic regression
SMOOTHINGS = (0.03, 0.1, 0.3)  # alpha of naive Bayes
MAX_CLASSES_OF_TERMS = 50  # with more, logistic regression of sparse terms takes minutes, and naive Bayes is as good
TREES, LEAF_SAMPLES = 200, 3
NEIGHBOUR_COUNTS = (5, 10, 20, 40, 80)
WIDTHS, LEARNING_RATE, WEIGHT_DECAY = (128, 64), 1e-3, 0.1  # of the network
MAX_EPOCHS, PATIENCE, MAX_STEPS = 60, 6, 4_000
MAX_TRAINING_SAMPLES = 20_000  # of each model; more take longer and change little
MAX_SEARCHED_TERMS = 20_000  # samples; the search for neighbours of sparse inputs compares all pairs
SIMILARITIES = 1 << 22  # of a block of rows to all others, held in memory by each thread
SPARSE_SHARE = 0.1  # inputs with fewer numbers other than zero are stored as sparse matrices


def held_out_predictions(inputs: Any, labels: Labels, classes: int, nearest: NearestRows | None = None) -> list[Floats]:
    """Log-probabilities (N, K) of the given labels by each model, best variant only; rows are normalised.

    inputs: (N, D), dense or sparse. nearest: the rows (N, k) of the k nearest samples of every sample, if they are
    known; neighbours of sparse inputs are found by cosine distance. The result is empty with fewer than FEWEST_SAMPLES
    samples or with a single class, where nothing can be held out, and if no model suits sparse inputs.
    """
    if len(labels) < FEWEST_SAMPLES or len(np.unique(labels)) < 2:
        return []
    from scipy.sparse import csr_matrix, issparse
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    fold = assign_folds(labels, FOLDS)
    sparse = issparse(inputs) or mostly_zeros(inputs)
    with np.errstate(over="ignore"):  # refused below, or by the search for neighbours
        matrix = csr_matrix(inputs, dtype=np.float32) if sparse else np.asarray(inputs, dtype=np.float32)
    if sparse:
        if not np.isfinite(matrix.data).all():
            raise InputError("inputs must be finite numbers of float32; scale them")
        models = []
        if len(labels) <= MAX_SEARCHED_TERMS:
            near = _nearest_by_cosine(matrix, min(NEIGHBOUR_COUNTS[-1], len(labels) - 1))
            models.append(neighbour_votes(labels, classes, lambda _: near))
        if matrix.min() >= 0:
            models.append(_naive_bayes(matrix, labels, classes, fold))
        if classes <= MAX_CLASSES_OF_TERMS:
            models.append(_logistic_regressions((1.0,), matrix, labels, classes, fold))
    else:
        models = [
            neighbour_votes(labels, classes, nearest or partial(SampleContext(inputs=matrix).nearest, "inputs")),
            _logistic_regressions(PENALTIES, matrix, labels, classes, fold),
            _forest(matrix, labels, classes),
            _network(matrix, labels, classes, fold),
        ]
    # One thread, because sums of several are rounded in another order.
    with threadpool_limits(limits=1, user_api="blas"):
        return [best_variant(variants, labels) for variants in models]


def mostly_zeros(inputs: NDArray[Any]) -> bool:
    """Whether few of the numbers are not zero, as in TF-IDF terms."""
    return bool(np.count_nonzero(inputs) < SPARSE_SHARE * inputs.size)


def assign_folds(labels: Labels, folds: int) -> Labels:
    """The fold (N,) of every sample, stratified by label and shuffled with a fixed seed; classes may be of any size."""
    if not 2 <= folds <= len(labels):
        raise InputError(f"{len(labels)} samples cannot be split into {folds} folds")
    shuffled = np.random.default_rng(0).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[by_class] = np.arange(len(labels)) % folds  # continues across classes, so that small classes are spread too
    return fold


def best_variant(variants: Iterable[Floats], labels: Labels) -> Floats:
    """The log-probabilities (N, K) whose log loss of the labels (N,) is the lowest at their best factor."""

    def loss(logs: Floats) -> float:
        return log_loss(np.asarray(log_softmax(pool_weights(logs[None], labels)[0] * logs, axis=1)), labels)

    return min(variants, key=loss)


def log_loss(log_probabilities: Floats, labels: Labels) -> float:
    """The mean negative log-probability of the labels (N,); rows (N, K) are normalised."""
    return -float(log_probabilities[np.arange(len(labels)), labels].mean())


def cut(probabilities: Floats) -> Floats:
    """Log-probabilities (N, K), not below LOWEST_HELD_OUT_LOG_PROBABILITY before rows are normalised."""
    logs = np.log(np.maximum(probabilities, math.exp(LOWEST_HELD_OUT_LOG_PROBABILITY)))
    return np.asarray(log_softmax(logs, axis=1))


def pool_weights(predictions: Sequence[Floats] | Floats, labels: Labels) -> Floats:
    """Weights (M,), not negative, of M log-probabilities (N, K) whose sum has the lowest log loss of the labels (N,).

    The loss is convex in the weights, so there is one minimum.
    """
    from scipy.optimize import minimize

    logs, every, models = np.asarray(predictions), np.arange(len(labels)), len(predictions)
    of_labels = logs[:, every, labels].mean(axis=1)

    def loss(weights: Floats) -> tuple[float, Floats]:
        pool = log_softmax(np.tensordot(weights, logs, axes=1), axis=1)
        expected = np.einsum("nk,mnk->m", np.exp(pool), logs) / len(labels)
        return -float(pool[every, labels].mean()), expected - of_labels

    start = np.full(models, 1 / models)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * models)
    return np.asarray(found.x)


def _logistic_regressions(
    penalties: Sequence[float], inputs: Any, labels: Labels, classes: int, fold: Labels
) -> Iterator[Floats]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    for penalty in penalties:
        model = LogisticRegression(C=penalty, max_iter=MAX_ITERATIONS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # an early stop regularises
            yield cut(_cross_fitted(model, inputs, labels, classes, fold))


def _naive_bayes(terms: "csr_matrix", labels: Labels, classes: int, fold: Labels) -> Iterator[Floats]:
    from sklearn.naive_bayes import MultinomialNB

    for smoothing in SMOOTHINGS:
        yield cut(_cross_fitted(MultinomialNB(alpha=smoothing, fit_prior=False), terms, labels, classes, fold))


def _cross_fitted(model: Any, inputs: Any, labels: Labels, classes: int, fold: Labels) -> Floats:
    """Probabilities (N, K) of each fold by the model, trained on the others."""
    probabilities = np.zeros((len(labels), classes))
    for held_out, rows in _training_rows(fold):
        if len(np.unique(labels[rows])) == 1:
            probabilities[held_out, labels[rows[0]]] = 1
            continue
        model.fit(inputs[rows], labels[rows])
        probabilities[np.ix_(held_out, model.classes_)] = model.predict_proba(inputs[held_out])
    return probabilities


def _training_rows(fold: Labels) -> Iterator[tuple[Labels, Labels]]:
    """Of each fold, its rows, and the rows of the others, at most MAX_TRAINING_SAMPLES, drawn with a fixed seed."""
    rng = np.random.default_rng(0)
    for number in range(FOLDS):
        rows = np.flatnonzero(fold != number)
        if len(rows) > MAX_TRAINING_SAMPLES:
            rows = np.sort(rng.choice(rows, MAX_TRAINING_SAMPLES, replace=False))
        yield np.flatnonzero(fold == number), rows


def neighbour_votes(labels: Labels, classes: int, nearest: NearestRows) -> Iterator[Floats]:
    """Logarithms of the votes of the nearest samples, and of one neighbour more that votes for all classes."""
    farthest = nearest(NEIGHBOUR_COUNTS[-1])
    for count in NEIGHBOUR_COUNTS:
        near = farthest[:, :count]
        yield np.log((label_votes(labels, near, classes) + 1 / classes) / (near.shape[1] + 1))


def _nearest_by_cosine(terms: "csr_matrix", k: int) -> NDArray[np.int32]:
    """The k nearest rows (N, k) of every row of a sparse matrix (N, D) by cosine distance, nearest first."""
    from sklearn.preprocessing import normalize

    unit = normalize(terms)
    near = np.empty((unit.shape[0], k), dtype=np.int32)

    def work(block: slice) -> None:
        similarity = (unit[block] @ unit.T).toarray()
        similarity[np.arange(len(similarity)), np.arange(block.start, block.stop)] = -np.inf  # not the sample itself
        largest = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(similarity, largest, axis=1), axis=1, kind="stable")
        near[block] = np.take_along_axis(largest, order, axis=1)

    over_blocks(len(near), max(1, SIMILARITIES // len(near)), work)
    return near


def _forest(inputs: NDArray[np.float32], labels: Labels, classes: int) -> Iterator[Floats]:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(
        TREES,
        min_samples_leaf=LEAF_SAMPLES,
        max_samples=min(len(labels), MAX_TRAINING_SAMPLES),
        oob_score=lambda *_: 0.0,  # the predictions are needed, not their accuracy
        n_jobs=usable_cpus(),
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about samples that every tree was grown on, which are NaN
        forest.fit(inputs, labels)
    probabilities = np.zeros((len(labels), classes))
    probabilities[:, forest.classes_] = np.nan_to_num(forest.oob_decision_function_, nan=1 / classes)
    yield cut(probabilities)


def _network(inputs: NDArray[np.float32], labels: Labels, classes: int, fold: Labels) -> Iterator[Floats]:
    """The predictions after the epoch with the lowest log loss."""
    from sklearn.neural_network import MLPClassifier

    parts = list(_training_rows(fold))
    batch = min(max(16, min(256, len(labels) // 32)), *(len(rows) for _, rows in parts))
    epochs = max(10, min(MAX_EPOCHS, MAX_STEPS * batch // len(labels)))
    models = [
        MLPClassifier(WIDTHS, alpha=WEIGHT_DECAY, learning_rate_init=LEARNING_RATE, batch_size=batch, random_state=0)
        for _ in parts
    ]
    best, lowest, waited = np.empty(0), math.inf, 0
    for _ in range(epochs):
        probabilities = np.zeros((len(labels), classes))
        for model, (held_out, rows) in zip(models, parts, strict=True):
            model.partial_fit(inputs[rows], labels[rows], classes=np.arange(classes))
            probabilities[held_out] = model.predict_proba(inputs[held_out])
        predicted = cut(probabilities)
        loss, waited = log_loss(predicted, labels), waited + 1
        if loss < lowest:
            best, lowest, waited = predicted, loss, 0
        if waited == PATIENCE:
            break
    yield best
