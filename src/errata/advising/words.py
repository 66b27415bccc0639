"""Advice in sentences."""

from typing import TYPE_CHECKING, Any

from errata.advising.audits import Audit
from errata.advising.memorising import Memorising
from errata.advising.tuning import Tuned

if TYPE_CHECKING:
    import pandas as pd

SHAKY = 0.5
"""Stability below which a run has not settled whom it suspects."""

ALIKE = 0.97
"""Agreement of the least agreeing method, from which on it matters little which one ranks."""

APART = 0.05
"""By so much less agreement than another's the default stands apart."""

FAR_APART = 0.10
"""By so much less agreement than the default's a method is worth a warning."""


def from_signs(table: "pd.DataFrame", signs: Memorising | None, count: int) -> str:
    """Two sentences: why to trust the default, and what else the signs say.

    The signs tell bad methods from good ones, not the best from the good (docs/advise.md): so it is always the default.
    """
    default, others = table.iloc[0], table.iloc[1:]
    return f"{_trust(default, others, count)} {_second(default, others, signs)}"


def _trust(default: "pd.Series[Any]", others: "pd.DataFrame", count: int) -> str:
    name, agreement = default["method"], default["agreement"]
    said = f"{agreement:.0%} of its first {count:,} are also among those of most methods"
    if len(others) and others["agreement"].max() - agreement >= APART:
        nearest = others.iloc[0]
        return (
            f"Start with {name}, the default, but check it: only {said}, against {nearest['agreement']:.0%} for "
            f"{nearest['method']}; where it stood so far apart in the benchmark it was the better one, but only an "
            "audit can tell."
        )
    if not bool(default.isna()["stability"]):
        stable = default["stability"]
        if stable < SHAKY:
            return (
                f"Take {name}, the default, as a first guess only: {said}, but {stable:.0%} are the same in the first "
                "and the second half of the run, which may have been too short."
            )
        said += f", and {stable:.0%} are the same in the first and the second half of the run"
    return f"Trust {name}, the default: {said}."


def _second(default: "pd.Series[Any]", others: "pd.DataFrame", signs: Memorising | None) -> str:
    if signs is not None and signs.much:
        return (
            f"The model has learned {signs.suspects_learned:.0%} of the labels it should doubt by its last epoch, so "
            "distrust methods that look at that epoch alone (Last, CL)."
        )
    if len(others) and min(default["agreement"], others["agreement"].min()) >= ALIKE:
        return "All methods put nearly the same samples first, so the choice matters little."
    weak = others[others["agreement"] <= default["agreement"] - FAR_APART]["method"].tolist()[::-1]
    if weak:
        more = f" and {len(weak) - 3} more" if len(weak) > 3 else ""
        return (
            f"Distrust {', '.join(weak[:3])}{more}, which share least with the others; the rest cannot be told apart."
        )
    return "Nothing in the signs tells the others apart."


def from_audit(tuned: Tuned, default: str) -> str:
    """Two sentences: what to use, and how sure that is.

    A gain is followed as soon as it is above 0: over many audits that has paid, also where each was unsure.
    """
    start, end = tuned.window
    on_audit = f"{default} over the whole run misses {tuned.default_fnr:.1%} of the errors in the audit"
    gain = f"{tuned.gain:+.1%} of the errors, 95 % interval {tuned.low:+.1%} to {tuned.high:+.1%}, cross-validated"
    if not tuned.better:
        return (
            f"Keep {default} over the whole run: {on_audit}, and choosing another method or window on it brings "
            f"nothing ({gain}). A larger audit could still find a better one."
        )
    sure = (
        f"That it misses {tuned.best_fnr:.1%} in the audit itself flatters it, since it was chosen there."
        if tuned.low > 0
        else "The interval holds 0, so this may be chance: a larger audit would tell."
    )
    return f"Use {tuned.method} over epochs {start} to {end}: {on_audit}, and such a choice finds more ({gain}). {sure}"


def about_audit(audit: Audit, estimated: float, *, random: bool) -> tuple[str, ...]:
    """What an audit says by itself, and why nothing was chosen on it, if so."""
    share, low, high = audit.share
    counted = (
        f"Of {len(audit.wrong):,} labels judged, {audit.errors:,} were wrong: {share:.0%} ({low:.0%} to {high:.0%})"
    )
    if not random:
        return (
            f"{counted}. These are no random sample of all labels: they lie together in the ranking. So they say how "
            "many of the labels you looked at are wrong, not how many errors a method misses, and no window was "
            "chosen on them; `errata advise --draw 200` draws a sample that can say it.",
        )
    counted += f", and {estimated:.0%} are estimated to be."
    lack = audit.lack()
    return (counted, f"Too few to choose a window on: there are {lack}.") if lack else (counted,)
