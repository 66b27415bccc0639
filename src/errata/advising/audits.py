"""Labels that somebody has looked at: which to look at, and what the decisions say."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from errata.core.checks import Floats, check_seed
from errata.dynamics.ids import portable_ids
from errata.dynamics.scoring import rank
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.review.applying.decisions import Decisions

if TYPE_CHECKING:
    import pandas as pd

ENOUGH = 20
"""Wrong and right labels an audit needs of each, so that every fold of five has four."""

SURPRISE = 0.001  # a random sample is taken for another kind once in a thousand


@dataclass(frozen=True, eq=False)
class Audit:
    """Samples that were judged: their rows (n,) in the dynamics, and whether each label was wrong (n,)."""

    rows: NDArray[np.int64]
    wrong: NDArray[np.bool_]

    @classmethod
    def of(cls, source: "str | Path | pd.DataFrame | Decisions", dynamics: Dynamics) -> "Audit":
        """What decisions say of the samples: keep is right, accept and relabel are wrong, skip is not known."""
        import pandas as pd

        if isinstance(source, str | Path):
            source = Decisions.read(source)
        elif isinstance(source, pd.DataFrame):
            source = Decisions.of(source, "the audit")
        rows = {str(name): row for row, name in enumerate(portable_ids(dynamics.ids).tolist())}
        judged: dict[int, bool] = {}
        for made in source.made:
            if made.id not in rows:
                raise InputError(f"{source.origin}: there is no sample with id {made.id!r} in these dynamics")
            row = rows[made.id]
            label = str(dynamics.class_name(int(dynamics.labels[row])))
            if made.label != label:
                raise InputError(
                    f"{source.origin}: id {made.id!r} was judged with the label {made.label!r}, but these dynamics "
                    f"were trained with {label!r}; audit the labels that were trained on"
                )
            if made.decision != "skip":
                judged[row] = made.changes
        if not judged:
            raise InputError(f"{source.origin} holds no judgement: every decision is skip")
        return cls(np.array(list(judged), dtype=np.int64), np.array(list(judged.values()), dtype=np.bool_))

    @property
    def errors(self) -> int:
        """How many of the labels judged were wrong."""
        return int(self.wrong.sum())

    @property
    def share(self) -> tuple[float, float, float]:
        """The share of wrong labels among the judged, with Wilson's 95 % interval: share, low, high."""
        from scipy.stats import binomtest

        interval = binomtest(self.errors, len(self.wrong)).proportion_ci(0.95, method="wilson")
        return self.errors / len(self.wrong), float(interval.low), float(interval.high)

    def looks_random(self, scores: Floats) -> bool:
        """Whether the samples judged may be a random sample of all, by where scores (N,) of all put them."""
        from scipy.stats import kstest, rankdata

        places = (rankdata(scores)[self.rows] - 0.5) / len(scores)
        return bool(kstest(places, "uniform").pvalue >= SURPRISE)

    def lack(self) -> str:
        """What is missing for a window to be chosen on it, or nothing."""
        right = len(self.wrong) - self.errors
        if min(self.errors, right) >= ENOUGH:
            return ""
        scarcer = min(self.errors, right)
        more = f"; about {round((ENOUGH - scarcer) * len(self.wrong) / scarcer):,} more should do" if scarcer else ""
        return f"{self.errors:,} wrong and {right:,} right labels, and at least {ENOUGH} of each are needed{more}"


def draw(dynamics: Dynamics, count: int, *, seed: int = 0) -> "pd.DataFrame":
    """A random sample to audit, in random order, as decisions: id, label, decision and new_label.

    Every decision is skip until somebody has looked; new_label is what the model would say instead, if anything.
    However far one gets, what was judged is still a random sample.
    """
    if not 1 <= count <= dynamics.samples:
        raise InputError(f"{count:,} samples cannot be drawn: there are {dynamics.samples:,}")
    rng = np.random.default_rng(check_seed(seed))
    drawn = rank(dynamics).iloc[rng.choice(dynamics.samples, count, replace=False)].reset_index(drop=True)
    suggested = drawn.get("suggested", drawn["label"])  # running sums may not hold it
    return drawn[["id", "label"]].assign(decision="skip", new_label=suggested.where(suggested != drawn["label"], ""))
