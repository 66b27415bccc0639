"""All candidates of the study, by name and family."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import candidates
import evidence
from candidates import BASELINE, Score, Weights
from errata.core.neighbours import SpaceName
from errata.core.smoothing import KNN
from runs import EPOCH_METHODS


@dataclass(frozen=True)
class Candidate:
    """A detector. tables: it needs inputs or all epochs, which only the runs on tables have."""

    name: str
    family: str
    score: Score
    tables: bool = False


WINDOWS: dict[str, Weights] = {
    "the first quarter of the epochs": partial(evidence.share_of_epochs, start=0, end=0.25),
    "the first half": partial(evidence.share_of_epochs, start=0, end=0.5),
    "the last half": partial(evidence.share_of_epochs, start=0.5, end=1),
    "the last quarter": partial(evidence.share_of_epochs, start=0.75, end=1),
    "later epochs count more (RampProb)": evidence.ramp,
    "until it agrees more than neighbours": evidence.until_memorising,
    "the later half until then": evidence.late_unless_memorising,
    "while neighbours' labels are foretold better (EarlyProb)": evidence.early_share,
    "until it turns against its convictions (EarlyProb, no inputs)": evidence.early_share_alone,
}


def all_candidates() -> Iterator[Candidate]:
    """Every candidate that needs no further training, the baseline first."""
    yield Candidate(BASELINE, "the sample alone", candidates.alone)
    for name in EPOCH_METHODS:
        yield Candidate(name, "the sample alone", partial(candidates.measured, name=name), tables=True)
    for name, weights in WINDOWS.items():
        yield Candidate(name, "windows", partial(candidates.alone, weights=weights))
    yield from _probabilities()
    yield from _labels()
    yield from _iterations()
    yield from _families()
    yield from _calibrations()
    yield from _blends()
    yield from _unmixings()
    yield Candidate("the default", "what errata ranks by", candidates.default)


def _knn(family: str, knn: KNN, window: str = "") -> Candidate:
    mixed = f", labels {knn.labels}" if knn.labels not in (0, 1) else ""
    name = f"{knn.k} nearest {knn.space}, a = {knn.a}{mixed}" + (f", {window}" if window else "")
    weights = WINDOWS[window] if window else candidates.flat
    return Candidate(name, family, partial(candidates.smoothed, knn=knn, weights=weights), knn.space == "inputs")


def _probabilities() -> Iterator[Candidate]:
    family = "neighbours' probabilities"
    spaces: tuple[SpaceName, SpaceName] = ("features", "inputs")
    for points in spaces:
        for k in (5, 10, 20, 50, 100):
            yield _knn(family, KNN(k, 0.5, 0.0, points))
        for own in (0.0, 0.3, 0.7, 0.85):
            yield _knn(family, KNN(10 if points == "inputs" else 50, own, 0.0, points))
    for window in ("the last half", "later epochs count more (RampProb)", "until it agrees more than neighbours"):
        yield _knn(family, KNN(50, 0.5, 0.0, "features"), window)
    yield _knn(family, KNN(10, 0.7, 0.0, "inputs"), "later epochs count more (RampProb)")


def _labels() -> Iterator[Candidate]:
    family = "neighbours' labels"
    for points in ("features", "inputs"):
        for k in (5, 10, 20, 50):
            yield _knn(family, KNN(k, 0.7, 1.0, points))
        for own in (0.0, 0.5, 0.85):
            yield _knn(family, KNN(10, own, 1.0, points))
        yield _knn(family, KNN(10, 0.7, 0.5, points))
    yield _knn(family, KNN(50, 0.5, 0.25, "features"))
    yield _knn(family, KNN(10, 0.7, 1.0, "inputs"), "later epochs count more (RampProb)")
    yield Candidate("10 nearest inputs and 10 nearest features, a = 0.7", family, candidates.both_spaces, tables=True)
    yield Candidate("nearer ones count more", family, candidates.nearer_labels)
    yield Candidate("trusted ones count more", family, candidates.trusted_labels)
    yield Candidate("space and k that predict labels best", family, candidates.likeliest_labels)
    yield Candidate("the default on mean logarithms of probabilities", family, candidates.geometric_with_labels)


def _iterations() -> Iterator[Candidate]:
    family = "iterated smoothing of probabilities"
    yield Candidate("one round", family, partial(candidates.iterated, rounds=1))
    yield Candidate("two rounds", family, partial(candidates.iterated, rounds=2))
    yield Candidate("to convergence", family, partial(candidates.iterated, rounds=None))
    yield Candidate("neighbours of neighbours", family, candidates.twice_removed)


def _families() -> Iterator[Candidate]:
    family = "neighbours' labels alone (SimiFeat)"
    for points in ("features", "inputs"):
        for name, rule in (("vote", evidence.simifeat_vote), ("rank", evidence.simifeat_rank)):
            for k in (evidence.VOTES, 50):
                scoring = partial(candidates.simifeat, points=points, rule=rule, k=k)
                yield Candidate(f"{name}, k = {k}, {points}", family, scoring, points == "inputs")


def _calibrations() -> Iterator[Candidate]:
    family = "calibration by class"
    for knn, of in ((False, BASELINE), (True, "the default")):
        yield Candidate(
            f"{of}, centred by class", family, partial(candidates.calibrated, knn=knn, rule=evidence.centred_by_class)
        )
        yield Candidate(
            f"{of}, quantile in class", family, partial(candidates.calibrated, knn=knn, rule=evidence.quantile_in_class)
        )
    for knn, of in ((False, BASELINE), (True, "kNN-MeanProb-LM")):
        yield Candidate(f"{of}, without the prior", family, partial(candidates.reweighted, knn=knn, change="prior"))
        yield Candidate(
            f"{of}, transition posterior", family, partial(candidates.reweighted, knn=knn, change="transition")
        )


def _blends() -> Iterator[Candidate]:
    for names in (
        (BASELINE, "Mean-CPD"),
        (BASELINE, "Mean-CE"),
        (BASELINE, "Mean-CE", "Mean-CPD"),
        ("default", "Mean-CE"),
        ("default", "Mean-CPD"),
    ):
        for title, rule in (("ranks", evidence.rank_mean), ("z-scores", evidence.z_mean)):
            scoring = partial(candidates.blended, names=names, rule=rule)
            yield Candidate(f"mean of {title}: {', '.join(names)}", "blends of measures", scoring)


def _unmixings() -> Iterator[Candidate]:
    family = "the noise that was learned, taken out"
    yield Candidate("neighbours, and nothing taken out", family, candidates.not_unmixed)
    yield Candidate("MeanProb-LM, two rounds", family, candidates.unmixed_alone)
    for rounds, title in ((1, "one round"), (3, "three rounds"), (10, "ten rounds")):
        yield Candidate(f"neighbours, {title}", family, partial(candidates.unmixed_by, rounds=rounds))
    two = "neighbours, two rounds, transitions counted by"
    yield Candidate(f"{two} sample and neighbours", family, partial(candidates.unmixed_by, by_all=True))
    yield Candidate(f"{two} arg max", family, partial(candidates.unmixed_by, count=evidence.counted_by_arg_max))
    yield Candidate(f"{two} probability", family, partial(candidates.unmixed_by, count=evidence.counted_by_probability))
    name = "neighbours, two rounds, and how likely the given label is"
    yield Candidate(name, family, partial(candidates.unmixed_by, own_label=True))
    yield Candidate("two rounds, then neighbours", family, candidates.unmixed_first)
