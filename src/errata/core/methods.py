"""Methods: names in the paper's grammar, of a gathering, an aggregation and a measure, or of confident learning.

Mean-LM    MeanProb-CE/JS    Last-LM (OOS)    LateStopping(k=2)-CPD    CL-PBNR (IS)    Unmixed-kNN-EarlyProb-LM
"""

import difflib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from errata.core import confident_learning
from errata.core.aggregations import Last
from errata.core.checks import Floats, Labels
from errata.core.folds import AGGREGATIONS, Aggregation, Fold, State, VectorAggregation, Verdict, shared_fold
from errata.core.measures import LM, MEASURES, LabelledRows, Measure
from errata.core.neighbourhood import KNN, Blend, Space
from errata.core.unmixing import Unmix
from errata.errors import InputError

Gathering = Literal["in-sample", "out-of-sample"]
PAPER_METHOD = "MeanProb-LM"
"""The paper's best single method."""
# The paper asks whether held-out epochs help these two; the rest of the taxonomy it evaluates in-sample only.
_OUT_OF_SAMPLE_IN_PAPER = (("Last", "LM"), ("Mean", "LM"))


@dataclass(frozen=True)
class Composed:
    """A method of the taxonomy: how the epochs are gathered, measured and aggregated.

    Beyond the paper, whether neighbours count (smoothing), and whether the noise that was learned is taken out
    (unmixing): both work on the probability vectors of all samples, before these are measured.
    """

    aggregation: Aggregation
    measure: Measure
    gathering: Gathering = "in-sample"
    smoothing: KNN | None = None
    unmixing: Unmix | None = None

    def __post_init__(self) -> None:
        if not self.aggregation.one_vector and (self.smoothing is not None or self.unmixing is not None):
            what = "neighbours smooth" if self.smoothing is not None else "unmixing takes"
            raise InputError(
                f"{self.name}: {what} one probability vector a sample; {self.aggregation.name} yields none"
            )

    @property
    def looks_around(self) -> bool:
        """Whether other samples have a say in the probabilities of a sample."""
        return self.aggregation.looks_around or self.smoothing is not None or self.unmixing is not None

    @cached_property
    def name(self) -> str:
        """Its name in the grammar; in-sample goes without saying."""
        around = "".join(f"{step.name}-" for step in (self.unmixing, self.smoothing) if step is not None)
        gathering = " (OOS)" if self.gathering != "in-sample" else ""
        return f"{around}{self.aggregation.name}-{self.measure.name}{gathering}"

    @property
    def paper_name(self) -> str:
        """Its name in the paper's tables, where CE and JS share a row if they rank alike."""
        return self.name.replace("-CE", "-CE/JS") if self.aggregation.one_vector else self.name

    @property
    def known_from(self) -> tuple[str, ...]:
        """The published detectors it stands for."""
        return () if self.looks_around else tuple(self.aggregation.known_from.get(self.measure.name, ()))

    @property
    def left_out(self) -> str:
        """Why the paper does not evaluate it, or nothing if it does."""
        left_out = self.aggregation.left_out
        if left_out is None or self.looks_around:
            return "not a method of the paper"
        if self.measure.name in left_out:
            return left_out[self.measure.name]
        pair = (self.aggregation.name, self.measure.name)
        if self.gathering == "in-sample" or pair in _OUT_OF_SAMPLE_IN_PAPER:
            return ""
        return "out-of-sample is evaluated for Last-LM, Mean-LM and confident learning only"

    @property
    def fold(self) -> Fold:
        """What it takes in epoch by epoch."""
        return shared_fold(self.aggregation, self.measure)

    def rows(self, state: State, labels: Labels, epochs: int) -> State:
        """What its verdict needs of each sample."""
        if not self.looks_around:
            return self.aggregation.rows(state, self.measure, labels, epochs)
        assert isinstance(self.aggregation, VectorAggregation)
        return {"log_probabilities": self.aggregation.log_probabilities(state)}

    def verdict(self, rows: State, labels: Labels, budget: int | None, space: Space) -> Verdict:
        """Its scores for all samples, whose neighbours are in `space`."""
        if not self.looks_around:
            return self.aggregation.verdict(rows, self.measure, labels, budget)
        return Verdict(self.judged(self.believed(rows, labels, space), labels), None)

    def judged(self, believed: Floats, labels: Labels) -> Floats:
        """Scores (N,) of what is believed, (N, K)."""
        return np.asarray(self.measure.of(LabelledRows(believed, labels).statistic(self.measure.statistic)))

    def believed(self, rows: State, labels: Labels, space: Space) -> Floats:
        """Log-probabilities (N, K) after neighbours and unmixing, where there are any; rows need not sum to 1."""
        assert isinstance(self.aggregation, VectorAggregation)
        blend = Blend(self.aggregation.settle(rows["log_probabilities"], labels, space), None)
        if self.smoothing is not None:
            blend = self.smoothing.blend(blend.log_probabilities, labels, space)
        if self.unmixing is None:
            return blend.log_probabilities
        return self.unmixing.unmix(blend.log_probabilities, labels, blend.heard)


@dataclass(frozen=True)
class ConfidentLearning:
    """Confident learning on the probabilities of the last epoch: flags, and the flagged ranked by self-confidence."""

    variant: str
    gathering: Gathering = "in-sample"
    cleanlab: bool = False

    known_from = ("confident learning",)
    left_out = ""
    looks_around = False

    @cached_property
    def name(self) -> str:
        """Its name in the grammar; both gatherings are said."""
        parameters = "(cleanlab=1)" if self.cleanlab else ""
        return f"CL-{self.variant}{parameters} ({'IS' if self.gathering == 'in-sample' else 'OOS'})"

    @property
    def paper_name(self) -> str:
        """Its name in the paper's tables."""
        return self.name

    @property
    def fold(self) -> Fold:
        """The last epoch's logits."""
        return shared_fold(Last(), LM)

    def rows(self, state: State, labels: Labels, epochs: int) -> State:
        """Probabilities (n, K) of the last epoch."""
        from scipy.special import softmax

        return {"probabilities": softmax(state["logits"], axis=-1)}

    def verdict(self, rows: State, labels: Labels, budget: int | None, space: Space) -> Verdict:
        """Flags, and scores that put the flagged first."""
        flagged = confident_learning.flags(rows["probabilities"], labels, self.variant, cleanlab=self.cleanlab)
        return Verdict(confident_learning.scores(flagged, rows["probabilities"], labels), flagged)


Method = Composed | ConfidentLearning

_NAME = re.compile(
    r"((?P<unmixing>Unmixed)(\((?P<rounds>[^()]*)\))?\s*-\s*)?"
    r"((?P<smoothing>kNN)(\((?P<near>[^()]*)\))?\s*-\s*)?"
    r"(?P<head>[A-Za-z]\w*)(\((?P<early>[^()]*)\))?\s*-\s*(?P<tail>[A-Za-z/]+)(\((?P<late>[^()]*)\))?"
    r"(\s*\((?P<gathering>IS|OOS)\))?",
    re.IGNORECASE,
)


def parse(name: "str | Method") -> Method:
    """The method of that name.

    Case does not matter. Parameters go in brackets. An unknown name is refused, with the nearest known one.
    "default" is refused here as well: which method it stands for depends on the run (errata.core.default). Functions
    that have a run accept it: score(), rank(), score_many() and the commands.
    """
    if isinstance(name, Composed | ConfidentLearning):
        return name
    if not isinstance(name, str):
        raise InputError(f"a method goes by its name, such as {PAPER_METHOD!r}, not by {type(name).__name__}")
    if name.strip().lower() == "default":
        raise InputError("'default' depends on the run, and none is known here; name a method from `errata methods`")
    match = _NAME.fullmatch(name.strip())
    if match is None:
        raise _unknown(name)
    gathering: Gathering = "out-of-sample" if (match["gathering"] or "").upper() == "OOS" else "in-sample"
    head, tail = match["head"].lower(), match["tail"].upper()
    smoothing = KNN(**_parameters(name, match["near"], KNN)) if match["smoothing"] else None
    unmixing = Unmix(**_parameters(name, match["rounds"], Unmix)) if match["unmixing"] else None
    alone = smoothing is None and unmixing is None
    if head == "cl" and tail in confident_learning.VARIANTS and match["early"] is None and alone:
        parameters = _parameters(name, match["late"], ConfidentLearning, {"cleanlab"})
        return ConfidentLearning(tail, gathering, bool(parameters.get("cleanlab", False)))
    kind = next((cls for known, cls in AGGREGATIONS.items() if known.lower() == head), None)
    if kind is None or match["late"] is not None:
        raise _unknown(name)
    aggregation = kind(**_parameters(name, match["early"], kind))
    if tail in ("CE/JS", "JS/CE") and aggregation.one_vector:
        tail = "CE"
    elif tail in ("CE/JS", "JS/CE"):
        raise InputError(f"{name!r}: CE and JS rank alike only where one vector a sample is scored; choose one of them")
    if tail not in MEASURES:
        raise _unknown(name)
    return Composed(aggregation, MEASURES[tail], gathering, smoothing, unmixing)


def _parameters(name: str, text: str | None, kind: type, allowed: set[str] | None = None) -> dict[str, Any]:
    if allowed is None:
        allowed = {field.name for field in fields(kind)}
    parameters: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in (text or "").split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or key not in allowed:
            known = ", ".join(sorted(allowed)) or "none"
            raise InputError(f"{name!r}: {kind.__name__} has no parameter {key!r}; it takes {known}")
        if key in parameters:
            raise InputError(f"{name!r}: parameter {key} is given twice")
        parameters[key] = value if key == "space" else _number(name, key, value)
    return parameters


def _number(name: str, key: str, text: str) -> int | float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name!r}: parameter {key} is {text!r}, not a number")
    return int(number) if number == int(number) and "." not in text else number


def _unknown(name: str) -> InputError:
    names = {known.lower(): known for method in all_methods() for known in (method.name, method.paper_name)}
    published = {known.lower(): method.name for method in reversed(list(all_methods())) for known in method.known_from}
    near = difflib.get_close_matches(name.strip().lower(), names | published, n=1, cutoff=0.5)
    hint = f"; did you mean {(names | published)[near[0]]!r}?" if near else "; `errata methods` lists them"
    return InputError(f"unknown method {name!r}{hint}")


def all_methods() -> Iterator[Method]:
    """Every method at its default parameters: the taxonomy, confident learning, then all that look around."""
    gatherings: tuple[Gathering, ...] = ("in-sample", "out-of-sample")
    grid = [
        Composed(kind(), measure, gathering)
        for gathering in gatherings
        for kind in AGGREGATIONS.values()
        for measure in MEASURES.values()
    ]
    yield from grid
    for gathering in gatherings:
        for variant in confident_learning.VARIANTS:
            yield ConfidentLearning(variant, gathering)
    of_one_vector = [method for method in grid if method.aggregation.one_vector]
    for smoothing, unmixing in ((KNN(), None), (None, Unmix()), (KNN(), Unmix())):
        yield from (replace(method, smoothing=smoothing, unmixing=unmixing) for method in of_one_vector)


def paper_methods() -> list[Method]:
    """The 25 methods of the paper's tables."""
    return [method for method in all_methods() if not method.left_out]


def same_gathering(method: Method, gathering: Gathering | None) -> Method:
    """The method if it suits how the epochs were gathered (None: not known, anything does)."""
    if gathering is not None and method.gathering != gathering:
        raise InputError(f"{method.name} is {method.gathering}, but these dynamics were gathered {gathering}")
    return method


def with_gathering(method: Method, gathering: Gathering) -> Method:
    """The same method for epochs gathered the other way."""
    return replace(method, gathering=gathering)
