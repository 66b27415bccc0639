"""Training runs in reduced form, without the truth."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import digests
from errata.core.checks import Floats, Labels
from errata.core.methods import parse
from errata.core.neighbours import SpaceName
from errata.core.replay import replay_arrays
from errata.core.sample_context import SampleContext
from errata.dynamics.scoring import method_results
from errata.dynamics.store import Dynamics

DEVELOPMENT = {
    "digits-symmetric-20": "digits",
    "satellite-symmetric-20": "Satellite",
    "cardiotocography-symmetric-20": "Cardiotocography",
    "credit_fraud-symmetric-20": "Credit Fraud",
    "sensorless_drive-symmetric-20": "Sensorless Drive",
    "letter-symmetric-20": "Letter",
    "cifar10n-worse": "CIFAR-10N worse",
    "cifar10-pairflip-20": "CIFAR-10 pairflip 20",
    "cifar10-symmetric-50": "CIFAR-10 symmetric 50",
}
"""Titles of the settings used for development. Held out: CIFAR-100, Human Activity, Mushroom, TREC."""

BY_A_RULE = {
    "digits-asymmetric-40": "digits asymmetric 40",
    "digits-pairflip-20": "digits pairflip 20",
    "digits-instance-20": "digits instance 20",
}
"""Also used when unmixing was chosen: wrong labels follow a rule."""

LED_TO_A_SIGN = (
    "letter-asymmetric-40",
    "cifar10-symmetric-20-transformer",
    "cifar10n-worse-transformer",
    "cifar10-asymmetric-40",
    "cifar10-openset-20",
)
"""Networks that memorise, and two that do not: used to choose the statistics of memorisation."""

EPOCH_METHODS = ("Mean-CE", "Mean-LM", "Mean-CPD", "Last-LM", "EMA-LM")
QUARTERLY_METHODS = ("Mean-CE", "Mean-CPD")
PARTS = 16
NEIGHBOURS = 100
# Its smoothing starts from the logarithm of the mean probabilities of a window, which does not underflow.
LOG_MEAN = parse("kNN-MeanProb-LM")


class KeptSpaces(SampleContext):
    """Spaces whose neighbours are searched once for all candidates, and stored in a folder if there is one."""

    def __init__(self, features: Any, inputs: Any, stem: Path | None = None) -> None:
        super().__init__(features, inputs)
        self._stem = stem
        self._nearest: dict[SpaceName, NDArray[np.int32]] = {}

    def nearest(self, points: SpaceName, k: int) -> NDArray[np.int32]:
        """The k nearest neighbours of every sample, (N, k); k is at most NEIGHBOURS."""
        if points not in self._nearest:
            path = None if self._stem is None else Path(f"{self._stem}.{points}.{NEIGHBOURS}.npy")
            if path is not None and path.exists():
                self._nearest[points] = np.load(path)
            else:
                self._nearest[points] = super().nearest(points, NEIGHBOURS)
                if path is not None:
                    np.save(path, self._nearest[points])
        return self._nearest[points][:, :k]


@dataclass(frozen=True, eq=False)
class Run:
    """One training run on N samples with labels (N,).

    log_parts (P, N, K): logarithms of the probabilities averaged over consecutive parts of the epochs, with the limits
    `bounds` (P + 1,). agreement (E,): the share of samples whose given label each epoch predicts. scores: by
    name, of methods that need more than the parts. recipe: how the run was trained, if known.
    """

    setting: str
    seed: int
    labels: Labels
    log_parts: Floats
    bounds: NDArray[np.int64]
    agreement: Floats
    context: SampleContext
    scores: Mapping[str, Floats]
    recipe: dict[str, Any] = field(default_factory=dict)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(self.log_parts.shape[2])

    @property
    def is_table(self) -> bool:
        """Whether there are neighbours in input space."""
        return "inputs" in self.context.points

    def log_mean(self, weights: Floats) -> Floats:
        """The logarithm (N, K) of the probabilities averaged with epoch weights (E,), uniform within a part."""
        from scipy.special import log_softmax, logsumexp

        by_part = np.add.reduceat(weights, self.bounds[:-1])
        seen = by_part > 0
        means = logsumexp(self.log_parts[seen] + np.log(by_part[seen])[:, None, None], axis=0)
        return np.asarray(log_softmax(means, axis=1))


def read_runs(results: Path, digested: Path, cache: Path | None) -> Iterator[list[Run]]:
    """The runs of each development setting, from stored dynamics or digests, one per seed."""
    for setting in (*DEVELOPMENT, *BY_A_RULE):
        kept = sorted((results / "work" / f"{setting}-in-sample").glob("seed*/dynamics"))
        if kept:
            yield [_of_dynamics(setting, folder, cache) for folder in kept]
            continue
        runs = of_digests(setting, digested, cache)
        if runs:
            yield runs


def of_digests(setting: str, folder: Path, cache: Path | None) -> list[Run]:
    """The runs of one setting from their digests, one per seed."""
    return [_of_digest(setting, path, cache) for path in sorted(folder.glob(f"{setting}.seed*.npz"))]


def reduce_run(dynamics: Dynamics) -> dict[str, NDArray[Any]]:
    """The reduced form of dynamics: log_parts, bounds, agreement, and scores by name."""
    assert dynamics.logits is not None
    bounds = _bounds(dynamics.epochs, PARTS)
    windows = [(int(start), int(end) - 1) for start, end in pairwise(bounds)]
    log_parts = [
        replay_arrays(dynamics.window(window).replayable(), [LOG_MEAN])[0]["log_probabilities"] for window in windows
    ]
    agreement = [float((epoch.argmax(axis=1) == dynamics.labels).mean()) for epoch in dynamics.logits]
    methods = [replace(parse(name), gathering=dynamics.gathering or "in-sample") for name in EPOCH_METHODS]
    values = [verdict.scores for verdict in method_results(dynamics, methods).values()]
    scores = dict(zip(EPOCH_METHODS, values, strict=True))
    return {"log_parts": np.stack(log_parts), "bounds": bounds, "agreement": np.array(agreement)} | scores


def run_of(
    setting: str, seed: int, labels: Labels, kept: Mapping[str, Any], context: SampleContext, recipe: Any = None
) -> Run:
    """A Run from the result of `reduce_run`."""
    scores = {name: kept[name] for name in EPOCH_METHODS if name in kept}
    return Run(
        setting, seed, labels, kept["log_parts"], kept["bounds"], kept["agreement"], context, scores, recipe or {}
    )


def _of_dynamics(setting: str, folder: Path, cache: Path | None) -> Run:
    dynamics, seed = Dynamics.open(folder), int(folder.parent.name.removeprefix("seed"))
    stem = None if cache is None else cache / f"{setting}.{seed}"
    context = KeptSpaces(dynamics.features, dynamics.inputs, stem)
    path = None if stem is None else Path(f"{stem}.run.npz")
    if path is not None and path.exists():
        with np.load(path) as stored:
            kept: Mapping[str, Any] = dict(stored)
    else:
        kept = reduce_run(dynamics)
        if path is not None:
            np.savez(path, allow_pickle=False, **kept)
    return run_of(setting, seed, dynamics.labels, kept, context, dynamics.settings)


def _of_digest(setting: str, path: Path, cache: Path | None) -> Run:
    digest, seed = digests.read(path), int(path.name.split(".seed")[1].removesuffix(".npz"))
    context = KeptSpaces(digest.features, digest.inputs, None if cache is None else cache / f"{setting}.{seed}")
    log_parts = digest.log_parts.astype(np.float64)
    # A digest has four quarters only: blends use the measures of the quarters, which is an approximation.
    quarters = Dynamics.from_arrays(log_parts, digest.labels)
    kept: dict[str, Any] = {
        name: verdict.scores for name, verdict in method_results(quarters, QUARTERLY_METHODS).items()
    }
    kept |= {"log_parts": log_parts, "bounds": _bounds(digest.epochs, len(log_parts)), "agreement": digest.agreement}
    return run_of(setting, seed, digest.labels, kept, context)


def _bounds(epochs: int, parts: int) -> NDArray[np.int64]:
    return np.linspace(0, epochs, min(parts, epochs) + 1).astype(np.int64)


def ensemble(runs: Sequence[Run]) -> Run:
    """Runs of the same samples combined: mean probabilities by part, neighbours of the first run."""
    from scipy.special import logsumexp

    first = runs[0]
    log_parts = logsumexp(np.stack([run.log_parts for run in runs]), axis=0) - np.log(len(runs))
    agreement = np.mean([run.agreement for run in runs], axis=0)
    return Run(
        first.setting, first.seed, first.labels, np.asarray(log_parts), first.bounds, agreement, first.context, {}
    )
