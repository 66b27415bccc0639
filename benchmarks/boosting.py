"""Boosting with every round recorded, compared with plain boosting: 500 rounds on Letter with 20 % symmetric noise.

ERRATA_DATA=... python benchmarks/boosting.py
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import xgboost

from common import Row, print_rows
from errata.datasets.loading import load_setting
from errata.integrations import LightGBMRecorder, XGBoostRecorder

ROUNDS, REPEAT = 500, 3
MOST_OVER_PLAIN = 0.3
Train = Callable[[list[Any]], object]


def run() -> list[Row]:
    letter = load_setting("letter-symmetric-20")
    inputs, labels, classes = letter.data.train_inputs, letter.given, letter.data.num_classes
    return [*_lightgbm(inputs, labels, classes), *_xgboost(inputs, labels, classes)]


def _lightgbm(inputs: Any, labels: Any, classes: int) -> Iterator[Row]:
    parameters = {"objective": "multiclass", "num_class": classes, "verbose": -1, "force_col_wise": True}

    def train(callbacks: list[Any]) -> None:
        lightgbm.train(parameters, lightgbm.Dataset(inputs, labels), ROUNDS, callbacks=callbacks)

    yield from _rows("LightGBM", train, LightGBMRecorder, "__call__")


def _xgboost(inputs: Any, labels: Any, classes: int) -> Iterator[Row]:
    data = xgboost.DMatrix(inputs, labels)
    parameters = {"objective": "multi:softprob", "num_class": classes}

    def train(callbacks: list[Any]) -> None:
        xgboost.train(parameters, data, ROUNDS, callbacks=callbacks)

    yield from _rows("XGBoost", train, lambda **options: XGBoostRecorder(data, **options), "after_iteration")
    wrapped = lambda **options: XGBoostRecorder(inputs, labels=labels, **options)  # noqa: E731
    yield from _rows("XGBoost, of inputs", train, wrapped, "after_iteration")


def _rows(name: str, train: Train, recorder: Callable[..., Any], method: str) -> Iterator[Row]:
    """Plain and recorded training in alternation, the fastest of each; and the cost of recording early and late.

    On a shared machine the two vary by more than the cost of recording. The row therefore also has the time inside the
    recorder, as a share of the rest.
    """
    plain, recorded, rounds = [], [], []
    for _ in range(REPEAT):
        plain.append(_seconds(train, []))
        with tempfile.TemporaryDirectory() as folder:
            own = recorder(path=Path(folder) / "run", quiet=True)
            spent = _clocked(own, method)
            recorded.append(_seconds(train, [own], finish=own.finish))
            rounds.append(spent)
    over = min(recorded) / min(plain) - 1
    early, late = (float(np.median([one[part] for one in rounds])) for part in (slice(1, 125), slice(-125, None)))
    own_share = float(np.median([sum(one) / (whole - sum(one)) for one, whole in zip(rounds, recorded, strict=True)]))
    detail = (
        f"{min(recorded):.1f} s against {min(plain):.1f} s: {over:.0%} over plain training; in itself {own_share:.0%}"
    )
    yield Row(f"{name}, {ROUNDS} rounds recorded", "not recorded", 1 / (1 + over), 1 / (1 + MOST_OVER_PLAIN), detail)
    detail = f"{late * 1e3:.1f} ms a round of the last quarter, {early * 1e3:.1f} ms of the first"
    yield Row(f"{name}, recording late rounds", "early rounds", early / late, 0.5, detail)


def _clocked(recorder: Any, method: str) -> list[float]:
    """Make the recorder measure its own time in every round."""
    kind = type(recorder)
    spent: list[float] = []

    def clocked(self: Any, *rest: Any) -> Any:
        start = time.perf_counter()
        try:
            return getattr(kind, method)(self, *rest)
        finally:
            spent.append(time.perf_counter() - start)

    recorder.__class__ = type(kind.__name__, (kind,), {method: clocked})
    return spent


def _seconds(train: Train, callbacks: list[Any], finish: Callable[[], object] = lambda: None) -> float:
    start = time.perf_counter()
    train(callbacks)
    finish()
    return time.perf_counter() - start


if __name__ == "__main__":
    print_rows(run())
