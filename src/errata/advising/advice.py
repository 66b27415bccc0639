"""errata.advise: which method to trust on these dynamics, and why."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.advising.audits import Audit
from errata.advising.comparing import compare, first, methods_compared
from errata.advising.memorising import Memorising, memorising
from errata.advising.tuning import Tuned, tune
from errata.advising.words import about_audit, from_audit, from_signs
from errata.core.methods import Method, parse
from errata.core.metrics import budget_count
from errata.core.windows import Window
from errata.dynamics.scoring import score
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.finding.ranking import estimated_rate

if TYPE_CHECKING:
    import pandas as pd

    from errata.review.applying.decisions import Decisions


@dataclass(frozen=True, eq=False)
class Advice:
    """Which method to trust, over which window (None: the whole run), and why.

    verdict: two sentences. notes: what else there is to say. table: a row a method: method, agreement, stability.
    budget: how many samples were compared at. memorising: its signs, where there are any. tuned: what an audit says.
    """

    method: str
    window: Window | None
    verdict: str
    notes: tuple[str, ...]
    table: "pd.DataFrame"
    budget: int
    memorising: Memorising | None
    tuned: Tuned | None

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        tuned = None
        if self.tuned is not None:
            tuned = vars(self.tuned) | {"table": _records(self.tuned.table), "window": list(self.tuned.window)}
        return vars(self) | {
            "window": None if self.window is None else list(self.window),
            "notes": list(self.notes),
            "table": _records(self.table),
            "memorising": None if self.memorising is None else asdict(self.memorising),
            "tuned": tuned,
        }


def advise(
    dynamics: Dynamics,
    *,
    methods: Iterable[str | Method] | None = None,
    budget: int | float | None = None,
    audit: "str | Path | pd.DataFrame | Decisions | None" = None,
    seed: int = 0,
) -> Advice:
    """Compare methods without truth and say which to trust; with an audit, choose method and window on it.

    methods: those to compare with the default one, else all the dynamics can answer but CTRL. budget: how many samples
    will be inspected, else as many as labels are estimated to be wrong. audit: decisions on a random sample, as a file
    or a table with the columns id, label, decision and new_label (`errata.advising.draw` draws one). seed: of the
    resamples that the uncertainty of an audit's gain comes from.
    """
    if not isinstance(dynamics, Dynamics):
        raise InputError(
            f"advise() takes Dynamics, not {type(dynamics).__name__}: open a folder with Dynamics.open(folder)"
        )
    if isinstance(methods, str):
        raise InputError(f"methods must be a list of names, not {methods!r}")
    named = None if methods is None else [parse(name) for name in methods]
    shown = methods_compared(dynamics, named)
    judged = None if audit is None else Audit.of(audit, dynamics)
    count = _count(dynamics, budget)
    table = compare(dynamics, shown, count)
    scores = score(dynamics, shown[0], budget=count)
    signs = memorising(dynamics, first(scores, count))
    advice = Advice(shown[0].name, None, from_signs(table, signs, count), (), table, count, signs, None)
    if judged is None:
        return advice
    random = judged.looks_random(scores)
    advice = replace(advice, notes=about_audit(judged, count / dynamics.samples, random=random))
    if not random or judged.lack():
        return advice
    tuned = tune(dynamics, judged, None if named is None else shown, seed=seed)
    advice = replace(advice, verdict=from_audit(tuned, advice.method), tuned=tuned)
    return replace(advice, method=tuned.method, window=tuned.window) if tuned.better else advice


def _count(dynamics: Dynamics, budget: int | float | None) -> int:
    if budget is not None:
        count = budget_count(budget, dynamics.samples)
        if not count:
            raise InputError("the budget is 0 samples, and methods are compared by those they put first")
        return count
    rate = estimated_rate(dynamics)
    if np.isnan(rate.rate):
        raise InputError(f"how many labels are wrong cannot be estimated here, {rate.how}: give a budget")
    count = round(rate.rate * dynamics.samples)
    if not count:
        raise InputError("no label is estimated to be wrong: give a budget to compare methods at")
    return count


def _records(table: "pd.DataFrame") -> list[dict[str, Any]]:
    import pandas as pd

    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in table.astype(object).to_dict("records")
    ]
