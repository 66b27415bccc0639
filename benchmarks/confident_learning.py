"""Confident learning compared with cleanlab (the faster of one process and its default number of processes)."""

import contextlib
import io
import warnings
from collections.abc import Callable

import numpy as np
from cleanlab.filter import find_label_issues
from cleanlab.version import __version__ as cleanlab_version
from numpy.typing import NDArray

from common import Row, peak_growth, print_rows, timed
from errata.core.confident_learning import flags
from errata.core.confident_rules import CLEANLAB, PAPER

SIZES = ((1_000_000, 10), (200_000, 1_000))
FILTERS = {"PBNR": "prune_by_noise_rate", "PBC": "prune_by_class"}
VALUES_PER_BLOCK = 2**22


def predictions(samples: int, classes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Probabilities of a model with about 80 % accuracy, and labels of which 20 % are wrong."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, classes, samples)
    wrong = rng.random(samples) < 0.2
    labels = np.where(wrong, (true + rng.integers(1, classes, samples)) % classes, true)
    probabilities = np.empty((samples, classes))
    for block in np.array_split(np.arange(samples), samples * classes // VALUES_PER_BLOCK + 1):
        logits = rng.normal(size=(len(block), classes))
        logits[np.arange(len(block)), true[block]] += rng.normal(np.log(classes) + 1.5, 1.5, len(block))
        exponentials = np.exp(logits)
        probabilities[block] = exponentials / exponentials.sum(axis=1, keepdims=True)
    return probabilities, labels


def quietly(function: Callable[[], NDArray[np.bool_]]) -> Callable[[], NDArray[np.bool_]]:
    """Suppress what cleanlab prints on large data."""

    def call() -> NDArray[np.bool_]:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(action="ignore"),
        ):
            return function()

    return call


def compare(probabilities: NDArray[np.float64], labels: NDArray[np.int64], variant: str) -> list[Row]:
    """One row with the paper's formulas and one with cleanlab's, both compared with the same cleanlab call."""

    def theirs(jobs: int | None) -> Callable[[], NDArray[np.bool_]]:
        return quietly(lambda: find_label_issues(labels, probabilities, filter_by=FILTERS[variant], n_jobs=jobs))

    def ours(as_cleanlab: bool) -> Callable[[], NDArray[np.bool_]]:
        return lambda: flags(probabilities, labels, variant, CLEANLAB if as_cleanlab else PAPER)

    their_flags = theirs(1)()
    their_seconds = min(timed(theirs(1), repeat=2), timed(theirs(None), repeat=2))
    their_memory = peak_growth(theirs(1)) / probabilities.nbytes
    rows = []
    for mode, our_call in (("paper", ours(False)), ("as cleanlab", ours(True))):
        differing = int((our_call() != their_flags).sum())
        seconds = timed(our_call, repeat=10)
        memory = peak_growth(our_call) / probabilities.nbytes
        rows.append(
            Row(
                work=f"CL-{variant} ({mode}), {len(labels):,} × {probabilities.shape[1]:,}",
                against=f"cleanlab {cleanlab_version}",
                ratio=their_seconds / seconds,
                reach=5,
                detail=f"{seconds:.3f} s and {their_seconds:.2f} s; extra memory {memory:.0%} and {their_memory:.0%} "
                f"of the input; {f'flags differ on {differing:,}' if differing else 'the same flags'}",
            )
        )
    return rows


def run() -> list[Row]:
    rows = []
    for samples, classes in SIZES:
        probabilities, labels = predictions(samples, classes)
        for variant in FILTERS:
            rows += compare(probabilities, labels, variant)
    return rows


if __name__ == "__main__":
    print_rows(run())
