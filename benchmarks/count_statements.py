"""What `errata.find` says about the number of wrong labels before any verdict: a number, a range, or nothing.

ERRATA_DATA=... python benchmarks/count_statements.py [digits adult ...]

One row per table and rate of symmetric noise: the true number of wrong labels, the estimate with its interval, and the
statement. "misleading": a number that is more than twice and 2 % of the samples above the truth, or as far below it.
"missed": the range, or the interval beside the number, does not contain the truth. The thresholds of
`errata.core.count_statement` were chosen on the first tables, and not changed after the first run on UNSEEN ones.
"""

import sys
import warnings
from functools import partial

import numpy as np
from sklearn.datasets import load_iris, load_wine

import errata
from errata.core.noise import symmetric
from errata.finding.answer import stated_count
from review_rankings import RATES, SEED, TABLES, more

OTHERS = ("phoneme", "spambase", "vehicle", "vowel", "oilspill", "nursery", "dna", "shuttle")
CHOSEN_ON = TABLES | {name: partial(more, name) for name in OTHERS}
UNSEEN = {
    "iris": partial(load_iris, return_X_y=True),
    "wine": partial(load_wine, return_X_y=True),
    **{name: partial(more, name) for name in ("agnews", "clinc150")},
}
ALL = CHOSEN_ON | UNSEEN


def row(name: str, rate: float) -> str:
    """The cells of one row."""
    inputs, clean = ALL[name]()
    noisy = symmetric(clean, rate, num_classes=int(clean.max()) + 1, seed=SEED) if rate else None
    found = errata.find(inputs, clean if noisy is None else noisy.labels, seed=SEED)
    samples, wrong = len(clean), 0 if noisy is None else noisy.count
    statement, estimate = stated_count(found), found.estimate
    low, high = (round(share * samples) for share in (statement.low, statement.high))
    judged = []
    if statement.kind == "number" and max(found.expected - 2 * wrong, wrong - 2 * found.expected) > 0.02 * samples:
        judged.append("misleading")
    if statement.kind != "nothing" and not statement.low * samples <= wrong <= statement.high * samples:
        judged.append("missed")
    stated = {"number": f"{found.expected:,}", "range": f"{low:,}–{high:,} ({statement.reason})", "nothing": "nothing"}
    interval = f"{np.floor(estimate.low * samples):,.0f}–{np.ceil(estimate.high * samples):,.0f}"
    cells = (name, f"{samples:,}", f"{wrong:,}", f"{found.expected:,} ({interval})", stated[statement.kind])
    return f"| {' | '.join(cells)} | {', '.join(judged)} |"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("| data | samples | wrong | estimated before | stated now | |")
    print("|---|---:|---:|---:|---|---|")
    for name in sys.argv[1:] or ALL:
        for rate in RATES:
            print(row(name, rate), flush=True)
