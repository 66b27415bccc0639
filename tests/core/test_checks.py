"""Arrays of all kinds are read right or refused, and outputs that are not logits are noticed."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import errata
from errata import Dynamics, Recorder
from errata.core.checks import as_numpy, check_classes, warn_if_probabilities
from errata.errors import InputError

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(4, 24, 3)).astype(np.float32)
LABELS = np.arange(24) % 3
POINTS = RNG.normal(size=(24, 2))


def masked(array, *place):
    mask = np.zeros(np.shape(array), dtype=bool)
    mask[place] = mask[(-1,) * np.ndim(array)] = True
    return np.ma.masked_array(array, mask)


def recorded(**finish):
    recorder = Recorder(labels=LABELS, num_classes=3, quiet=True)
    recorder.update_all(LOGITS[0])
    recorder.end_epoch()
    return recorder.finish(**finish)


MASKED = {
    "logits": (lambda: errata.score(masked(LOGITS, 2, 5, 1), LABELS), "logits: the value at [2, 5, 1] is masked"),
    "labels": (lambda: errata.score(LOGITS, masked(LABELS, 5)), "labels: the value at [5] is masked"),
    "ids": (lambda: Dynamics.from_arrays(LOGITS, LABELS, ids=masked(LABELS, 5)), "ids: the value at [5] is masked"),
    "fold": (lambda: Dynamics.from_arrays(LOGITS, LABELS, fold=masked(LABELS, 5)), "fold: the value at [5] is masked"),
    "swa": (
        lambda: Dynamics.from_arrays(LOGITS, LABELS, swa_logits=masked(LOGITS[0], 5, 1)),
        "swa_logits: the value at [5, 1] is masked",
    ),
    "a list": (lambda: errata.score([masked(LOGITS[0], 5, 1)], LABELS), "logits: the value at [0, 5, 1] is masked"),
    "recorder": (lambda: Recorder(labels=masked(LABELS, 5)), "labels: the value at [5] is masked"),
    "update": (
        lambda: Recorder(labels=LABELS).update(np.arange(24), masked(LOGITS[0], 5, 1)),
        "logits: the value at [5, 1] is masked",
    ),
    "update of ids": (
        lambda: Recorder(labels=LABELS).update(masked(np.arange(24), 5), LOGITS[0]),
        "ids: the value at [5] is masked",
    ),
    "update_all": (
        lambda: Recorder(labels=LABELS).update_all(masked(LOGITS[0], 5, 1)),
        "logits: the value at [5, 1] is masked",
    ),
    "finish": (lambda: recorded(features=masked(POINTS, 5, 1)), "features: the value at [5, 1] is masked"),
}


@pytest.mark.parametrize("case", MASKED)
def test_masked_values_are_refused_with_the_first_place(case):
    call, message = MASKED[case]
    with pytest.raises(InputError) as refused:
        call()
    assert message in str(refused.value)


def test_a_masked_array_without_masked_values_is_an_array():
    np.testing.assert_array_equal(as_numpy(np.ma.masked_array([1, 2], [False, False])), [1, 2])
    assert type(as_numpy(np.ma.masked_array([1, 2]))) is np.ndarray


TENSORS = {
    "negative bit": lambda values: torch.complex(values, -values).conj().imag,
    "conjugate": lambda values: torch.complex(values, values).conj().real,
    "bfloat16": lambda values: values.to(torch.bfloat16),
    "float8": lambda values: values.to(torch.float8_e4m3fn),
    "quantised": lambda values: torch.quantize_per_tensor(values, 0.05, 0, torch.qint8),
    "gradients": lambda values: values.requires_grad_(),
}


@pytest.mark.filterwarnings("ignore:.*quant")
@pytest.mark.parametrize("kind", TENSORS)
def test_tensors_of_unusual_kinds_have_their_values(kind):
    values = as_numpy(TENSORS[kind](torch.from_numpy(LOGITS.copy())))
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, LOGITS, atol=0.2)


WITHOUT_VALUES = {
    "meta": (lambda: torch.zeros(2, 3, device="meta"), "holds no values"),
    "sparse": (lambda: torch.eye(3).to_sparse(), r"pass tensor\.to_dense\(\)"),
    "sparse by rows": (lambda: torch.eye(3).to_sparse_csr(), r"pass tensor\.to_dense\(\)"),
    "nested": (lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "has no shape"),
    "uninitialised": (lambda: torch.nn.parameter.UninitializedParameter(), "holds no values"),
    "complex": (lambda: torch.zeros(2, 3, dtype=torch.complex64).conj(), "must be numbers, not complex64"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WITHOUT_VALUES)
def test_tensors_that_cannot_be_read_are_refused(kind):
    make, message = WITHOUT_VALUES[kind]
    with pytest.raises(InputError, match=f"^logits.*{message}"):
        errata.score(make(), [0, 1, 1])


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(InputError, match="logits cannot be read as an array"):
        errata.score([[1, 2], [3]], [0, 1])


CLASSES = {
    "one text": ("abc", "classes must be a list of names, not 'abc'"),
    "a number": (3, "classes must be a list of names, not 3"),
    "a mapping": ({"a": 0}, "classes must be a list of names, not"),
    "too few": (["a", "b"], "classes has 2 names, but there are 3 classes"),
    "twice": (["a", "b", "a"], "class 'a' is twice in classes"),
    "None": (["a", "b", None], "class 2 has no name, but None"),
    "NaN": (["a", "b", float("nan")], "class 2 has no name, but nan"),
    "lists": ([["a"], ["b"], ["c"]], r"class 0 is \['a'\], not a number or text"),
    "half an emoji": (["a", "\ud83d", "c"], r"the name of class 1, '\\ud83d', is not valid text"),
}


@pytest.mark.parametrize("case", CLASSES)
def test_wrong_class_names_are_refused(case):
    names, message = CLASSES[case]
    for call in (
        lambda: check_classes(names, 3),
        lambda: errata.score(LOGITS, LABELS, classes=names),
        lambda: Recorder(labels=["a"] * 24, classes=names, num_classes=3),
    ):
        with pytest.raises(InputError, match=message):
            call()


# Outputs that are not logits.


def softmax(values):
    exponentials = np.exp(values - values.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


OUTPUTS = {
    "probabilities": (softmax, "they look like probabilities"),
    "percentages": (lambda values: 100 * softmax(values), "they look like percentages"),
    "rounded percentages": (lambda values: (100 * softmax(values)).round(), "they look like percentages"),
    "sigmoids": (sigmoid, "look like outputs of a sigmoid"),
}


def record(logits, labels, keep):
    recorder = Recorder(labels=labels, keep=keep, quiet=True)
    for values in logits:
        recorder.update_all(values)
        recorder.end_epoch()


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("kind", OUTPUTS)
def test_outputs_that_are_not_logits_are_noticed(kind, classes):
    change, message = OUTPUTS[kind]
    logits = 3 * np.random.default_rng(classes).normal(size=(5, 40, classes))
    labels = np.arange(40) % classes
    some = logits.copy()
    some[2] = change(logits[2])
    for outputs, epoch in ((change(logits), 0), (some, 2)):
        with pytest.warns(UserWarning, match=rf"^epoch {epoch}: these .*{message}") as caught:
            Dynamics.from_arrays(outputs, labels)
        assert len(caught) == 1
        for keep in ("all", "stream"):
            with pytest.warns(UserWarning, match=rf"^epoch {epoch}: these .*{message}") as caught:
                record(outputs, labels, keep)
            assert len(caught) == 1


def test_logits_are_not_mistaken_for_other_outputs():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for samples in (1, 2, 5, 50, 1000):
            for classes in (2, 3, 10):
                for _ in range(200 if samples < 100 else 5):
                    normal = rng.normal(size=(samples, classes))
                    for logits in (
                        *(0.1 * normal, normal, 30 * normal, np.abs(normal), np.log(softmax(normal))),
                        *(rng.random((samples, classes)), 0.5 + 0.1 * normal, np.maximum(normal, 0)),
                    ):
                        warn_if_probabilities(logits)
            margins = rng.normal(0.3, 0.2, size=samples).clip(0.01, 0.99)  # the first trees of a binary model
            warn_if_probabilities(np.stack([np.zeros(samples), margins], axis=1))


@pytest.mark.parametrize("run", ["learning", "memorising"])
def test_stored_runs_are_logits(run):
    with np.load(Path(__file__).parents[1] / "golden" / f"{run}.npz") as stored:
        assert not any(warn_if_probabilities(epoch) for epoch in stored["logits"])
