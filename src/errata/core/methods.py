"""Methods by name: `[Step-]*Aggregation-Measure [(OOS)]`, or `Detector-Variant (IS|OOS)`.

Mean-LM    MeanProb-CE/JS    Last-LM (OOS)    LateStopping(k=2)-CPD    CL-PBNR (IS)    Unmixed-kNN-RampProb-LM

Names are parsed and generated from the registered parts (errata.core.method_registry). Steps are applied from right to
left: Unmixed-HeldOut-EarlyProb-LM aggregates with EarlyProb, applies HeldOut, then Unmixed, and measures with LM.
"""

import difflib
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from errata.core.composed_method import ComposedMethod
from errata.core.held_out import HeldOut
from errata.core.measures import Measure
from errata.core.method_parts import Aggregation, Detector, MethodPart, VectorAggregation
from errata.core.method_parts import Gathering as Gathering
from errata.core.method_registry import RESERVED, find_part, registered
from errata.core.smoothing import KNN
from errata.core.unmixing import Unmix
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

PAPER_METHOD = "MeanProb-LM"
"""The paper's best single method."""

Method = ComposedMethod | Detector

_WITH_GATHERING = re.compile(r"(.*?)(?:\s*\((IS|OOS)\))?", re.IGNORECASE | re.DOTALL)
_BETWEEN_PARTS = re.compile(r"\s*-\s*(?![^()]*\))")  # a hyphen outside brackets
_PART = re.compile(r"([A-Za-z]\w*|CE/JS|JS/CE)\s*(?:\(([^()]*)\))?", re.IGNORECASE)
_LONGEST = 500  # characters of a name
_Parts = list[tuple[str, str | None]]  # each with the text in its brackets


def parse(name: "str | Method") -> Method:
    """The method of that name.

    Case does not matter. Parameters go in brackets. An unknown name is refused; a similar known name is suggested.
    "default" is refused as well, because it stands for different methods in different runs (errata.core.default).
    Functions that have a run accept it: score(), rank(), score_many() and the commands.
    """
    if isinstance(name, ComposedMethod | Detector):
        return name
    if not isinstance(name, str):
        raise InputError(f"a method must be a name, such as {PAPER_METHOD!r}, not {type(name).__name__}")
    if len(name) > _LONGEST:
        raise InputError(f"unknown method {name[:40]!r}...: its name has {len(name):,} characters")
    if name.strip().lower() == RESERVED:
        raise InputError("'default' depends on the run, and none is known here; name a method from `errata methods`")
    match = _WITH_GATHERING.fullmatch(name.strip())
    assert match is not None
    gathering: Gathering = "out-of-sample" if (match[2] or "").upper() == "OOS" else "in-sample"
    matches = [_PART.fullmatch(part) for part in _BETWEEN_PARTS.split(match[1])]
    parts = [(part[1], part[2]) for part in matches if part is not None]
    if len(parts) < max(2, len(matches)):
        raise _unknown(name)
    is_detector = len(parts) == 2 and find_part("detector", parts[0][0]) is not None
    return (_parse_detector if is_detector else _parse_composed)(name, parts, gathering)


def _parse_detector(name: str, parts: _Parts, gathering: Gathering) -> Detector:
    (head, head_parameters), (tail, parameters) = parts
    kind: type[Detector] = find_part("detector", head)
    variant = next((known for known in kind.variants if known.lower() == tail.lower()), None)
    if variant is None or head_parameters is not None:
        raise _unknown(name)
    return kind(variant, gathering, **_parameters(name, parameters, kind))


def _parse_composed(name: str, parts: _Parts, gathering: Gathering) -> ComposedMethod:
    *before, (head, parameters), (tail, tail_parameters) = parts
    steps = [find_part("step", step) for step, _ in before]
    kind: type[Aggregation] | None = find_part("aggregation", head)
    if kind is None or None in steps or tail_parameters is not None:
        raise _unknown(name)
    aggregation = kind(**_parameters(name, parameters, kind))
    if "/" in tail and not isinstance(aggregation, VectorAggregation):
        raise InputError(f"{name!r}: CE and JS rank alike only for one vector per sample; choose one of them")
    measure: Measure | None = find_part("measure", "CE" if "/" in tail else tail)
    if measure is None:
        raise _unknown(name)
    applied = [step(**_parameters(name, text, step)) for step, (_, text) in zip(steps, before, strict=True)]
    return ComposedMethod(aggregation, measure, gathering, tuple(reversed(applied)))


def _parameters(name: str, text: str | None, kind: type[MethodPart]) -> dict[str, Any]:
    """The parameters that the text between the brackets sets, with the types of the fields of `kind`."""
    parameters: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in (text or "").split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or key not in kind.parameters():
            known = ", ".join(sorted(kind.parameters())) or "none"
            raise InputError(f"{name!r}: {kind.registered_name} has no parameter {key!r}; its parameters are {known}")
        if key in parameters:
            raise InputError(f"{name!r}: the parameter {key} is set twice")
        hint = get_type_hints(kind)[key]
        types = set(get_args(hint)) or {hint}
        if types <= {int, float, bool, type(None)}:
            number = _number(name, key, value)
            parameters[key] = bool(number) if bool in types else number
        else:
            parameters[key] = value
    return parameters


def _number(name: str, key: str, text: str) -> int | float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name!r}: the parameter {key} is {text!r}, not a number")
    return int(number) if number == int(number) and "." not in text else number


def _unknown(name: str) -> InputError:
    names = {known.lower(): known for method in all_methods() for known in (method.name, method.paper_name)}
    published = {known.lower(): method.name for method in reversed(list(all_methods())) for known in method.known_from}
    near = difflib.get_close_matches(name.strip().lower(), names | published, n=1, cutoff=0.5)
    hint = f"; did you mean {(names | published)[near[0]]!r}?" if near else "; `errata methods` lists them"
    return InputError(f"unknown method {name!r}{hint}")


def all_methods() -> Iterator[Method]:
    """Every method at its default parameters: aggregations with measures, detectors, then methods with steps.

    Each step is listed alone, and the two steps of each default together; other combinations can be named as well.
    """
    gatherings: tuple[Gathering, ...] = ("in-sample", "out-of-sample")
    grid = [
        ComposedMethod(kind(), measure, gathering)
        for gathering in gatherings
        for kind in registered("aggregation").values()
        for measure in registered("measure").values()
    ]
    yield from grid
    for gathering in gatherings:
        for detector in registered("detector").values():
            yield from (detector(variant, gathering) for variant in detector.variants)
    single = sorted(registered("step").values(), key=lambda step: step.registered_name.lower())
    with_vector = [method for method in grid if isinstance(method.aggregation, VectorAggregation)]
    for steps in (*((step(),) for step in single), (KNN(), Unmix()), (HeldOut(), Unmix())):
        yield from (replace(method, steps=steps) for method in with_vector)


def paper_methods() -> list[Method]:
    """The 25 methods of the paper's tables."""
    return [method for method in all_methods() if not method.why_not_in_paper]


def methods() -> "pd.DataFrame":
    """Every method at its default parameters, one row per method.

    Columns: method, aggregation, measure, gathering, known_from (published detectors that rank like it), in_paper, and
    left_out (why the paper does not evaluate it).

    >>> import errata
    >>> table = errata.methods()
    >>> int(table["in_paper"].sum())  # the methods of the paper
    25
    """
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "method": method.name,
                "aggregation": method.registered_name if isinstance(method, Detector) else method.aggregation.name,
                "measure": method.variant if isinstance(method, Detector) else method.measure.name,
                "gathering": method.gathering,
                "known_from": ", ".join(method.known_from),
                "in_paper": not method.why_not_in_paper,
                "left_out": method.why_not_in_paper,
            }
            for method in all_methods()
        ]
    )
