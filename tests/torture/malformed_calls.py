"""Python calls with wrong objects. Only an ErrataError counts as a refusal."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from torture import malformed_tensors
from torture.calls import (
    CLASSES,
    INPUTS,
    LABELS,
    LOGITS,
    RNG,
    ROWS,
    a_file,
    dynamics,
    find,
    rank,
    recorded,
    recorder,
    score,
)
from torture.cases import Case, Expected, WrongResultError

Call = Callable[[], object]


def _frame(index: Any) -> Any:
    import pandas as pd

    table = pd.DataFrame(INPUTS, columns=list("abcd"))
    return table.assign(label=np.array(["x", "y"])[np.arange(ROWS) % 2]).set_index(pd.Index(index))


def _index_is_id(index: Any) -> None:
    """find(frame): ids are the index, so that frame.loc gives the samples."""
    frame = _frame(index)
    ranking = find(frame, "label").ranking
    if set(ranking["id"]) != set(frame.index):
        raise WrongResultError("the ids are not the index")
    if not (frame.loc[ranking["id"], "label"].to_numpy() == ranking["label"].to_numpy()).all():
        raise WrongResultError("frame.loc[ranking.id] gives other samples")


def _plain() -> dict[str, tuple[Call, Expected]]:
    """Calls that need no other package than numpy and pandas."""
    nan = LOGITS.copy()
    nan[2, 5, 1] = np.nan
    calls: dict[str, tuple[Call, Expected]] = {
        "find: shuffled index": (lambda: _index_is_id(RNG.permutation(ROWS)), "read"),
        "find: index of text": (lambda: _index_is_id([f"s{row}" for row in range(ROWS)]), "read"),
        "find: index of a part of a frame": (lambda: _index_is_id(np.arange(ROWS) * 10 + 5), "read"),
        "find: repeated index": (lambda: find(_frame(np.arange(ROWS) // 2), "label"), "refused"),
        "find: index with a missing value": (lambda: find(_frame([None, *range(1, ROWS)]), "label"), "refused"),
        "find: seed of 1.5": (lambda: find(INPUTS, LABELS, seed=1.5), "refused"),
        "find: seed of -1": (lambda: find(INPUTS, LABELS, seed=-1), "refused"),
        "find: seed of text": (lambda: find(INPUTS, LABELS, seed="1"), "refused"),
        "find: seed of True": (lambda: find(INPUTS, LABELS, seed=True), "refused"),
        "find: seed of None": (lambda: find(INPUTS, LABELS, seed=None), "refused"),
        "find: seed of 2^64": (lambda: find(INPUTS, LABELS, seed=2**64), "either"),
        "find: seed of NaN": (lambda: find(INPUTS, LABELS, seed=float("nan")), "refused"),
        "find: folds of text": (lambda: find(INPUTS, LABELS, folds="3"), "refused"),
        "find: folds of 2.5": (lambda: find(INPUTS, LABELS, folds=2.5), "refused"),
        "find: folds of 1": (lambda: find(INPUTS, LABELS, folds=1), "refused"),
        "find: folds of True": (lambda: find(INPUTS, LABELS, folds=True), "refused"),
        "find: more folds than samples": (lambda: find(INPUTS, LABELS, folds=10**6), "refused"),
        "find: folds of a list": (lambda: find(INPUTS, LABELS, folds=[3]), "refused"),
        "find: unknown model": (lambda: find(INPUTS, LABELS, model="tree"), "refused"),
        "find: model of None": (lambda: find(INPUTS, LABELS, model=None), "refused"),
        "find: model of a list": (lambda: find(INPUTS, LABELS, model=["mlp"]), "refused"),
        "find: unknown device": (lambda: find(INPUTS, LABELS, device="abacus"), "refused"),
        "find: device mps": (lambda: find(INPUTS, LABELS, model="mlp", device="mps"), "refused"),
        "find: device of None": (lambda: find(INPUTS, LABELS, device=None), "refused"),
        "find: device of a number": (lambda: find(INPUTS, LABELS, device=0), "refused"),
        "find: nothing": (lambda: find(None), "refused"),
        "find: a number": (lambda: find(17), "refused"),
        "find: an empty list": (lambda: find([], []), "refused"),
        "find: a dictionary": (lambda: find({"a": [1], "b": 2}, "b"), "refused"),
        "find: a set": (lambda: find({1, 2}, LABELS), "refused"),
        "find: a generator": (lambda: find((row for row in INPUTS), LABELS), "refused"),
        "find: a module": (lambda: find(np, LABELS), "refused"),
        "find: a path of bytes": (lambda: find(b"data.csv", "label"), "refused"),
        "find: an empty path": (lambda: find("", "label"), "refused"),
        "find: a path with a NUL byte": (lambda: find("a\0b.csv", "label"), "refused"),
        "find: rows of different lengths": (lambda: find([[1, 2], [3]], [0, 1]), "refused"),
        "find: labels of None": (lambda: find(INPUTS, [None] * ROWS), "refused"),
        "find: labels of lists": (lambda: find(INPUTS, [[1]] * ROWS), "refused"),
        "find: labels of objects": (lambda: find(INPUTS, [object() for _ in range(ROWS)]), "refused"),
        "find: label is a dictionary": (lambda: find(INPUTS, {"label": 1}), "refused"),
        "find: columns of two levels": (lambda: find(_levels(), ("x", "label")), "either"),
        "find: out is a file": (lambda: find(dynamics(), out=a_file()), "refused"),
        "find: out is a number": (lambda: find(dynamics(), out=3), "refused"),
        "find: text is a number": (lambda: find(_frame(range(ROWS)), "label", text=5), "refused"),
        "find: id does not exist": (lambda: find(_frame(range(ROWS)), "label", id="key"), "refused"),
        "score: NaN": (lambda: score(nan), "refused"),
        "score: no labels": (lambda: score(LOGITS, None), "refused"),
        "score: unknown method": (lambda: score(LOGITS, LABELS, "Magic"), "refused"),
        "score: method of a number": (lambda: score(LOGITS, LABELS, 3), "refused"),
        "score: method of a list": (lambda: score(LOGITS, LABELS, ["Mean-CE"]), "refused"),
        "score: too many arguments": (lambda: score(LOGITS, LABELS, "Mean-CE", "x"), "refused"),
        "score: window beyond the end": (lambda: score(LOGITS, LABELS, window=(0, 99)), "refused"),
        "score: window backwards": (lambda: score(LOGITS, LABELS, window=(3, 1)), "refused"),
        "score: window of text": (lambda: score(LOGITS, LABELS, window="0-3"), "refused"),
        "score: window of fractions": (lambda: score(LOGITS, LABELS, window=(0.5, 2)), "refused"),
        "score: window of one number": (lambda: score(LOGITS, LABELS, window=3), "refused"),
        "score: negative budget": (lambda: score(LOGITS, LABELS, "CTRL", budget=-1), "refused"),
        "score: budget of NaN": (lambda: score(LOGITS, LABELS, "CTRL", budget=float("nan")), "refused"),
        "score: budget of text": (lambda: score(LOGITS, LABELS, "CTRL", budget="5"), "refused"),
        "score: classes of a number": (lambda: score(LOGITS, LABELS, classes=3), "refused"),
        "score: classes of lists": (lambda: score(LOGITS, LABELS, classes=[[0], [1], [2]]), "refused"),
        "score: objects as logits": (lambda: score(LOGITS.astype(object)), "either"),
        "score: nested lists of other lengths": (lambda: score([[1, 2], [3]], [0, 1]), "refused"),
        "rank: an array": (lambda: rank(LOGITS), "refused"),
        "Dynamics: gathering of another word": (lambda: dynamics(gathering="sideways"), "refused"),
        "Dynamics: partial of another word": (lambda: dynamics(partial="maybe"), "refused"),
        "Dynamics: settings that JSON cannot hold": (
            lambda: dynamics(settings={"x": {1: 2, "y": object()}}).save("run"),
            "either",
        ),
        "Dynamics: settings that contain themselves": (_circular, "refused"),
        "Dynamics: open a number": (lambda: __import__("errata").Dynamics.open(3), "refused"),
        "Found: open a folder of other files": (lambda: __import__("errata").Found.open("."), "refused"),
        "apply: decisions of a list": (lambda: __import__("errata").apply("x.csv", [1]), "refused"),
    }
    return calls


def _recorders() -> dict[str, tuple[Call, Expected]]:
    """Misuse of a Recorder."""

    def steps(*names: str, **options: Any) -> Call:
        def call() -> None:
            made = recorder(**options)
            for name in names:
                if name == "update":
                    made.update(np.arange(ROWS), LOGITS[0])
                else:
                    getattr(made, name)()

        return call

    def update(ids: Any, logits: Any, **options: Any) -> Call:
        return lambda: recorder(**options).update(ids, logits)

    part = np.arange(4)
    return {
        "Recorder: finish before an epoch": (steps("finish"), "refused"),
        "Recorder: end_epoch before update": (steps("end_epoch"), "refused"),
        "Recorder: two updates of a sample": (steps("update", "update"), "refused"),
        "Recorder: finish in an epoch": (steps("update", "end_epoch", "update", "finish"), "either"),
        "Recorder: finish twice": (steps("update", "end_epoch", "finish", "finish"), "either"),
        "Recorder: update after finish": (
            steps("update", "end_epoch", "finish", "update", "end_epoch", "finish"),
            "either",
        ),
        "Recorder: unknown ids": (update(part + 99, LOGITS[0, :4]), "refused"),
        "Recorder: repeated ids in a batch": (update(part * 0, LOGITS[0, :4]), "refused"),
        "Recorder: negative ids": (update(-part - 1, LOGITS[0, :4]), "refused"),
        "Recorder: ids of fractions": (update(part + 0.5, LOGITS[0, :4]), "refused"),
        "Recorder: ids of text": (update(["a", "b", "c", "d"], LOGITS[0, :4]), "refused"),
        "Recorder: ids of None": (update(None, LOGITS[0, :4]), "refused"),
        "Recorder: flags as ids": (update([True, False, True, False], LOGITS[0, :4]), "refused"),
        "Recorder: too many logits": (update(part, LOGITS[0]), "refused"),
        "Recorder: too many classes": (update(part, np.zeros((4, CLASSES + 1))), "refused"),
        "Recorder: one dimension": (update(part, LOGITS[0, :4, 0]), "refused"),
        "Recorder: NaN": (update(part, LOGITS[0, :4] * np.nan), "refused"),
        "Recorder: infinity": (update(part, np.full((4, CLASSES), np.inf)), "refused"),
        "Recorder: text": (update(part, LOGITS[0, :4].astype(str)), "refused"),
        "Recorder: complex": (update(part, LOGITS[0, :4].astype(complex)), "refused"),
        "Recorder: objects": (update(part, LOGITS[0, :4].astype(object)), "either"),
        "Recorder: beyond float16": (update(part, LOGITS[0, :4] * 1e9, dtype="float16"), "refused"),
        "Recorder: labels out of range": (lambda: recorder(labels=LABELS + 5), "refused"),
        "Recorder: repeated ids": (lambda: recorder(ids=LABELS), "refused"),
        "Recorder: num_classes of text": (lambda: recorder(num_classes="3"), "refused"),
        "Recorder: num_classes of 2.5": (lambda: recorder(num_classes=2.5), "refused"),
        "Recorder: num_classes of 1": (lambda: recorder(num_classes=1), "refused"),
        "Recorder: unknown type": (lambda: recorder(dtype="float8"), "refused"),
        "Recorder: type of numpy": (lambda: recorder(dtype=np.float32), "either"),
        "Recorder: resume of text": (lambda: recorder("run", resume="yes"), "refused"),
        "Recorder: resume of -1": (lambda: recorder("run", resume=-1), "refused"),
        "Recorder: a file as folder": (lambda: recorder(a_file()), "refused"),
        "Recorder: methods of a text": (lambda: recorder(keep="stream", methods="Mean-CE"), "refused"),
        "Recorder: settings of a list": (lambda: recorder(settings=[1, 2]), "refused"),
        "Recorder: features of another length": (lambda: recorded(features=INPUTS[:3]), "refused"),
        "Recorder: features with NaN": (lambda: recorded(features=INPUTS * np.nan), "refused"),
        "Recorder: averaged logits of another shape": (lambda: recorded(swa_logits=INPUTS), "refused"),
    }


def _circular() -> None:
    settings: dict[str, Any] = {}
    settings["self"] = settings
    dynamics(settings=settings).save("run")


def _levels() -> Any:
    import pandas as pd

    frame = _frame(range(ROWS))
    return frame.set_axis(pd.MultiIndex.from_tuples([("x", name) for name in frame.columns]), axis=1)


def cases() -> Iterator[Case]:
    """All calls with wrong objects."""
    yield from malformed_tensors.cases()
    for calls in (_plain(), _recorders()):
        for name, (call, expected) in calls.items():
            yield Case(f"call, {name}", lambda folder: None, call, expected)
