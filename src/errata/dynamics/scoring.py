"""From dynamics to scores, flags, a ranking and an estimate of how many labels are wrong."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.core import rates
from errata.core.checks import Floats
from errata.core.folds import Verdict
from errata.core.methods import Composed, Method, paper_methods
from errata.core.metrics import budget_count
from errata.core.replay import Progress
from errata.core.suggest import Suggestion, likeliest
from errata.core.windows import Window
from errata.dynamics.default import ask_run, find_method
from errata.dynamics.ids import portable_ids
from errata.dynamics.store import Dynamics
from errata.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

IN_WORDS = {"confident joint": "confident joint", "mixture": "two groups of scores", "sign": "the model's preference"}


def score(
    source: Any,
    *args: Any,
    window: Window | None = None,
    budget: int | float | None = None,
    classes: Sequence[Any] | None = None,
) -> Floats:
    """Scores (N,) of one method, higher = more suspicious.

    score(dynamics, "MeanProb-LM") or, from arrays, score(logits, labels, "Mean-CE") with logits (E, N, K) or (N, K).
    Without a method it is the default one. `window` limits the epochs to (start, end), both included; `budget` is how
    many samples will be inspected, which only CTRL asks for.
    """
    return _verdict(source, args, window, budget, classes)[1].scores


def flags(
    source: Any, *args: Any, window: Window | None = None, classes: Sequence[Any] | None = None
) -> NDArray[np.bool_]:
    """Flags (N,) at the operating point that confident learning and CTRL choose by themselves; called like score()."""
    method, verdict = _verdict(source, args, window, None, classes)
    if verdict.flags is None:
        raise InputError(f"{method.name} ranks samples and has no operating point of its own; inspect its top scores")
    return verdict.flags


def score_many(
    dynamics: Dynamics,
    methods: Iterable[str | Method] | None = None,
    *,
    window: Window | None = None,
    budget: int | float | None = None,
    progress: Progress | None = None,
) -> "pd.DataFrame":
    """Scores of several methods in one pass over the logits: a row a sample (index: id), a column a method.

    Without `methods`: all of the paper's that these dynamics can answer.
    """
    import pandas as pd

    columns = {
        name: verdict.scores
        for name, verdict in verdicts(dynamics, methods, window=window, budget=budget, progress=progress).items()
    }
    return pd.DataFrame(columns, index=pd.Index(dynamics.ids, name="id", tupleize_cols=False))


def verdicts(
    dynamics: Dynamics,
    methods: Iterable[str | Method] | None = None,
    *,
    window: Window | None = None,
    budget: int | float | None = None,
    progress: Progress | None = None,
) -> dict[str, Verdict]:
    """Scores of several methods by name, in one pass over the logits, and flags of those that decide by themselves."""
    if isinstance(methods, str):
        raise InputError(f"methods must be a list of names, not {methods!r}")
    _require_dynamics(dynamics, "score_many")
    count = _count(budget, dynamics)
    chosen = applicable(dynamics, window) if methods is None else [find_method(dynamics, name) for name in methods]
    told = ask_run(dynamics, chosen, window, progress)
    return {
        method.name: method.verdict(rows, dynamics.labels, count, dynamics.space)
        for method, rows in zip(chosen, told, strict=True)
    }


def applicable(dynamics: Dynamics, window: Window | None = None) -> list[Method]:
    """The paper's methods that these dynamics can answer."""
    seen = dynamics.window(window)
    return [
        method
        for method in paper_methods()
        if method.gathering == (dynamics.gathering or "in-sample")
        and (method.fold.aggregation.reads != "no epoch" or seen.swa_logits is not None)
        and (seen.reducers is None or seen.reducers.answers(method))
    ]


def rank(
    dynamics: Dynamics,
    method: str | Method | None = None,
    *,
    window: Window | None = None,
    budget: int | float | None = None,
) -> "pd.DataFrame":
    """All samples, most suspicious first: id, label, suggested, score, rank and the probabilities of both labels.

    `suggested` is the class that a method which looks around believes in most, of any other the one with the largest
    mean probability over the epochs; running sums that do not hold it are ranked without. Equal scores are put in an
    order that depends on the ids alone, not on the order of the rows.
    """
    import pandas as pd

    _require_dynamics(dynamics, "rank")
    own, count = find_method(dynamics, method), _count(budget, dynamics)
    if isinstance(own, Composed) and own.looks_around:
        (told,) = ask_run(dynamics, [own], window)
        believed = own.believed(told, dynamics.labels, dynamics.space)
        verdict = Verdict(own.judged(believed, dynamics.labels), None)
        suggestion = likeliest(believed, dynamics.labels)
    else:
        suggests = dynamics.reducers is None or dynamics.reducers.answers(Suggestion())
        told, *alone = ask_run(dynamics, [own, Suggestion()] if suggests else [own], window)
        verdict = own.verdict(told, dynamics.labels, count, dynamics.space)
        suggestion = alone[0] if alone else {}
    names = pd.Index([dynamics.class_name(number) for number in range(dynamics.num_classes)], tupleize_cols=False)
    columns = {"id": dynamics.ids, "label": names.take(dynamics.labels)}
    table = pd.DataFrame(columns | {"score": verdict.scores})
    if suggestion:
        table.insert(2, "suggested", names.take(suggestion["suggested"]))
        table["label_probability"] = suggestion["label_probability"]
        table["suggested_probability"] = suggestion["suggested_probability"]
    if verdict.flags is not None:
        table["flag"] = verdict.flags
    shuffled = pd.util.hash_array(portable_ids(dynamics.ids))
    table = table.iloc[np.lexsort((shuffled, -verdict.scores))].reset_index(drop=True)
    table.insert(list(table.columns).index("score") + 1, "rank", np.arange(1, len(table) + 1))
    return table


def noise_rates(dynamics: Dynamics, *, window: Window | None = None, confidence: float = 0.95) -> "pd.DataFrame":
    """Three estimates of the share of wrong labels, none of which sees the truth, and first what they say together.

    They go by the probabilities that the default method ranks by, in which neighbours count where they are known. A row
    an estimate: its name, rate, low, high, how it comes about, and its kind, the same for all dynamics.
    """
    import pandas as pd

    _require_dynamics(dynamics, "noise_rates")
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence}, not between 0 and 1")
    probabilities, margins, method = _what_is_believed(dynamics, window)
    made = {
        "confident joint": _attempt(
            lambda: rates.from_confident_joint(probabilities, dynamics.labels, confidence=confidence)
        ),
        "mixture": _attempt(lambda: rates.from_mixture(margins, confidence=confidence)),
        "sign": _attempt(lambda: rates.from_sign(margins, confidence=confidence)),
    }
    found = {kind: estimate for kind, estimate in made.items() if isinstance(estimate, rates.NoiseRate)}
    in_words = [IN_WORDS[kind] for kind in found]
    names = {"mixture": f"mixture on {method.name}", "sign": f"sign of {method.name}"}
    every = {"together": _attempt(lambda: rates.together(list(found.values()), in_words)), **made}
    return pd.DataFrame([{"estimate": names.get(kind, kind), **_row(one), "kind": kind} for kind, one in every.items()])


def _what_is_believed(dynamics: Dynamics, window: Window | None) -> tuple[Floats, Floats, Method]:
    """Probabilities (N, K) of the classes and margins (N,) against the label, by the default method."""
    from scipy.special import softmax

    method = find_method(dynamics, None)
    assert isinstance(method, Composed)
    (told,) = ask_run(dynamics, [method], window)
    believed = method.believed(told, dynamics.labels, dynamics.space)
    return softmax(believed, axis=1), method.judged(believed, dynamics.labels), method


def _attempt(estimate: Callable[[], rates.NoiseRate]) -> rates.NoiseRate | InputError:
    """An estimate or, where the scores do not allow it, why."""
    try:
        return estimate()
    except InputError as error:
        return error


def _row(estimate: rates.NoiseRate | InputError) -> dict[str, Any]:
    """An estimate as a row; one that there is not is a gap with the reason."""
    if isinstance(estimate, InputError):
        return {"rate": np.nan, "low": np.nan, "high": np.nan, "how": f"because {estimate}"}
    return {"rate": estimate.rate, "low": estimate.low, "high": estimate.high, "how": estimate.how}


def _count(budget: int | float | None, dynamics: Dynamics) -> int | None:
    return None if budget is None else budget_count(budget, dynamics.samples)


def _require_dynamics(given: object, function: str) -> None:
    if not isinstance(given, Dynamics):
        raise InputError(
            f"{function}() takes Dynamics, not {type(given).__name__}: make them with "
            "Dynamics.from_arrays(logits, labels) or Dynamics.open(folder)"
        )


def _verdict(
    source: Any, args: tuple[Any, ...], window: Window | None, budget: int | float | None, classes: Sequence[Any] | None
) -> tuple[Method, Verdict]:
    if isinstance(source, Dynamics):
        dynamics, rest = source, args
    elif isinstance(source, str | Path):
        raise InputError(f"{str(source)!r} is a path: open it with Dynamics.open() first")
    elif args and isinstance(args[0], str):
        raise InputError("scores from arrays need logits and labels: score(logits, labels, method)")
    elif args:
        dynamics, rest = Dynamics.from_arrays(source, args[0], classes=classes), args[1:]
    else:
        raise InputError("scores from arrays need logits and labels: score(logits, labels, method)")
    if len(rest) > 1:
        raise InputError(f"score() takes one method, not {len(rest)}: {rest!r}")
    method = find_method(dynamics, rest[0] if rest else None)
    count = _count(budget, dynamics)
    (rows,) = ask_run(dynamics, [method], window)
    return method, method.verdict(rows, dynamics.labels, count, dynamics.space)
