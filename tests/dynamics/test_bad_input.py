"""Invalid input is refused with one sentence: what is wrong, and where. Unusual input is accepted."""

import re

import numpy as np
import pytest

import errata
from errata import Dynamics, ErrataError, InputError, Recorder
from errata.core.methods import all_methods, parse

EPOCHS_DO = [method for method in all_methods() if method.reduction.aggregation.reads != "no epoch"]
NEEDS_NO_AVERAGE = [method.name for method in EPOCHS_DO]
LOGITS_DO = [method.name for method in EPOCHS_DO if not re.search("kNN|HeldOut", method.name)]
IN_SAMPLE = [name for name in LOGITS_DO if "(OOS)" not in name]


def assert_one_sentence(error):
    text = str(error)
    assert "\n" not in text
    assert not text.endswith(".")
    assert not re.search(r"[.!?] [A-Z]", text)


def with_value(logits, where, value):
    changed = logits.astype(np.float64)
    changed[where] = value
    return changed


# Arrays.

BAD_ARRAYS = {
    "NaN": (lambda z, y: (with_value(z, (2, 4, 1), np.nan), y), "logits of sample 4 at epoch 2 are not finite"),
    "infinite": (lambda z, y: (with_value(z, (0, 5, 2), np.inf), y), "logits of sample 5 at epoch 0 are not finite"),
    "minus infinite": (
        lambda z, y: (with_value(z, (3, 0, 0), -np.inf), y),
        "logits of sample 0 at epoch 3 are not fin",
    ),
    "one class": (
        lambda z, y: (z[:, :, :1], np.zeros(6, int)),
        "logits have one column; at least two classes are needed",
    ),
    "no samples": (lambda z, y: (z[:, :0], y[:0]), r"logits are empty: shape \(4, 0, 3\)"),
    "no epochs": (lambda z, y: (z[:0], y), r"logits are empty: shape \(0, 6, 3\)"),
    "one dimension": (lambda z, y: (z[0, 0], y[:1]), r"logits must have shape .*, not \(3,\)"),
    "four dimensions": (
        lambda z, y: (z[None], y),
        r"logits must have shape \(E, N, K\) or \(N, K\), not \(1, 4, 6, 3\)",
    ),
    "text for logits": (lambda z, y: (np.full((6, 3), "a"), y), "logits must be numbers, not <U1"),
    "objects for logits": (lambda z, y: (np.full((6, 3), None), y), "logits must be numbers, not object"),
    "complex logits": (lambda z, y: (z * 1j, y), "logits must be numbers, not complex"),
    "fewer labels": (lambda z, y: (z, y[:5]), "there are 5 labels for 6 samples of logits"),
    "no labels": (lambda z, y: (z, []), "there are 0 labels for 6 samples of logits"),
    "a matrix of labels": (lambda z, y: (z, np.eye(6, 3)), r"labels must have shape \(N,\), not \(6, 3\)"),
    "a single label": (lambda z, y: (z, 1), r"labels must have shape \(N,\), not \(\)"),
    "negative label": (lambda z, y: (z, [0, 1, 2, -1, 1, 2]), r"label of sample 3 is -1, outside 0\.\.2"),
    "label beyond": (lambda z, y: (z, y + 1), r"label of sample 2 is 3, outside 0\.\.2"),
    "label NaN": (lambda z, y: (z, [0, np.nan, 2, 0, 1, 2]), "label of sample 1 is nan, not a class number"),
    "half a label": (lambda z, y: (z, y + 0.5), "label of sample 0 is 0.5, not a class number"),
    "names": (lambda z, y: (z, list("abcabc")), r"labels are names \(the first is 'a'\), .* pass classes=\[...\]"),
    "None": (lambda z, y: (z, [None] * 6), r"labels are names \(the first is None\)"),
    "dates": (lambda z, y: (z, np.zeros(6, "datetime64[D]")), "labels must be class numbers, not datetime64"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arrays_are_refused_by_score(logits, labels, case):
    make, message = BAD_ARRAYS[case]
    with pytest.raises(InputError, match=message) as refused:
        errata.score(*make(logits, labels), "Mean-CE")
    assert_one_sentence(refused.value)


BAD_OPTIONS = {
    "unknown class": (
        {"labels": list("abxabc"), "classes": list("abc")},
        "label of sample 2 is 'x', which is not in c",
    ),
    "None among names": (
        {"labels": ["a", "b", None] * 2, "classes": list("abc")},
        "label of sample 2 is None, which is",
    ),
    "NaN among numbers": (
        {"labels": [7.0, np.nan] * 3, "classes": [7, 8, 9]},
        "label of sample 1 is nan, which is not",
    ),
    "fewer classes": ({"classes": [0, 1]}, "classes has 2 names, but there are 3 classes"),
    "class twice": ({"classes": [0, 1, 0]}, "class 0 is twice in classes"),
    "fewer ids": ({"ids": [1, 2]}, "there are 2 ids for 6 labels"),
    "id twice": ({"ids": np.array([1, 2, 3, 2, 5, 6])}, "two samples have the id 2"),
    "text id twice": ({"ids": list("abcadf")}, "two samples have the id 'a'"),
    "a matrix of ids": ({"ids": np.zeros((6, 2))}, r"ids must have one dimension, not shape \(6, 2\)"),
    "unhashable ids": ({"ids": [[1]] * 6}, r"id \[1\] cannot be looked up: ids must be hashable"),
    "one id": ({"ids": 6}, "ids must be a list or an array, not 6"),
    "one fold": ({"fold": 1}, r"fold must have shape \(6, ...\), not \(\)"),
    "more folds": ({"fold": [0] * 7}, r"fold must have shape \(6, ...\), not \(7,\)"),
    "gathering": ({"gathering": "oos"}, "gathering must be 'in-sample' or 'out-of-sample', not 'oos'"),
    "partial": ({"partial": "yes"}, "partial must be 'error' or 'allow', not 'yes'"),
}
BAD_FOR_DYNAMICS = {
    "swa of other shape": ({"swa_logits": np.zeros((6, 2))}, r"swa_logits must have shape \(6, 3\), not \(6, 2\)"),
    "swa NaN": ({"swa_logits": np.full((6, 3), np.nan)}, "swa_logits of sample 0 are not finite"),
    "features": ({"features": np.zeros(5)}, r"features must have shape \(6, ...\), not \(5,\)"),
}
BAD_FOR_RECORDER = {
    "keep": ({"keep": "some"}, "keep must be 'all' or 'stream', not 'some'"),
    "dtype": ({"dtype": "int8"}, "dtype must be one of float16, float32, float64, not 'int8'"),
    "methods and all": ({"methods": ["Mean-LM"]}, "methods= selects the running sums of keep='stream'"),
    "unknown method": ({"keep": "stream", "methods": ["MeanProp-LM"]}, "unknown method .* did you mean 'MeanProb-LM'?"),
    "cannot stream": ({"keep": "stream", "methods": ["CTRL-CE"]}, "CTRL-CE needs the logits of every epoch"),
    "text for methods": ({"keep": "stream", "methods": "Mean-LM"}, "methods must be a list of names, not 'Mean-LM'"),
    "no methods": ({"keep": "stream", "methods": []}, r"methods must be a list of names, not \[\]"),
    "labels": ({"labels": [0, 1, -1, 2]}, "label of sample 2 is -1, below 0"),
    "names": ({"labels": list("abcabc")}, "labels are names"),
    "beyond": ({"num_classes": 2}, r"label of sample 2 is 2, outside 0\.\.1"),
    "empty": ({"labels": []}, "labels are empty"),
    "one class": ({"labels": [0, 0], "num_classes": 1}, "at least two classes are needed"),
    "half a class": ({"num_classes": 2.5}, "num_classes must be a whole number, not 2.5"),
    "classes and their number": ({"classes": [0, 1, 2], "num_classes": 4}, "classes has 3 names, but there are 4"),
    "resume": ({"resume": -1}, "resume must be True, False or a number of epochs, not -1"),
    "resume None": ({"resume": None}, "resume must be True, False or a number of epochs, not None"),
    "settings": ({"num_classes": 3, "settings": {(): 1}}, "settings cannot be written as JSON: keys must be str"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS | BAD_FOR_DYNAMICS)
def test_bad_options_are_refused_by_dynamics(logits, labels, case):
    options, message = (BAD_OPTIONS | BAD_FOR_DYNAMICS)[case]
    with pytest.raises(InputError, match=message) as refused:
        Dynamics.from_arrays(logits, **{"labels": labels, **options})
    assert_one_sentence(refused.value)


@pytest.mark.parametrize("case", BAD_OPTIONS | BAD_FOR_RECORDER)
def test_bad_options_are_refused_by_the_recorder_before_anything_is_written(tmp_path, logits, labels, case):
    options, message = (BAD_OPTIONS | BAD_FOR_RECORDER)[case]
    if case == "fewer classes":
        message = "label of sample 2 is 2, which is not in classes; with classes, labels are names"
    with pytest.raises(InputError, match=message) as refused:
        Recorder(tmp_path / "run", **{"labels": labels, "quiet": True, **options})
    assert_one_sentence(refused.value)
    assert not list(tmp_path.iterdir())


def test_resuming_needs_a_folder(labels):
    with pytest.raises(InputError, match="resume and overwrite need a folder"):
        Recorder(labels=labels, resume=True)


def test_a_folder_that_cannot_be_used_is_refused_before_training(tmp_path, labels, snapshot):
    (tmp_path / "file").write_text("words")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "labels.npy").write_text("mine")
    before = snapshot(tmp_path)
    for name, message in (
        ("file", "cannot be created: Not a directory"),
        ("file/run", "cannot be created: Not a directory"),
        ("full", r"holds other files \(labels.npy, ...\)"),
    ):
        for resume in (False, True):
            with pytest.raises(errata.StoreError, match=message) as refused:
                Recorder(tmp_path / name, labels=labels, resume=resume, quiet=True)
            assert_one_sentence(refused.value)
    assert snapshot(tmp_path) == before


# Methods, windows, calls.

BAD_CALLS = {
    "no labels": (lambda d, z, y: errata.score(z), r"need logits and labels: score\(logits, labels, method\)"),
    "two methods": (lambda d, z, y: errata.score(d, "Mean-LM", "Mean-CE"), r"score\(\) takes one method, not 2"),
    "typo": (
        lambda d, z, y: errata.score(d, "MeanProp-LM"),
        "unknown method 'MeanProp-LM'; did you mean 'MeanProb-LM'?",
    ),
    "nonsense": (lambda d, z, y: errata.score(d, "?"), "unknown method .\\?.; `errata methods` lists them"),
    "empty name": (lambda d, z, y: errata.score(d, ""), "unknown method ''"),
    "typo of many": (lambda d, z, y: errata.score_many(d, ["Mean-LM", "Mean-LN"]), "did you mean 'Mean-LM'"),
    "text for many": (
        lambda d, z, y: errata.score_many(d, "Mean-LM"),
        "methods must be a list of names, not 'Mean-LM'",
    ),
    "typo of rank": (lambda d, z, y: errata.rank(d, "meanprob_lm"), "unknown method 'meanprob_lm'; did you mean"),
    "bad parameter": (
        lambda d, z, y: errata.score(d, "EMA(dekay=1)-LM"),
        "EMA has no parameter 'dekay'; its parameters are decay",
    ),
    "window": (lambda d, z, y: errata.score(d, "Mean-LM", window=(3, 9)), r"window \[3, 9\] is not within epochs 0..3"),
    "no average": (lambda d, z, y: errata.score(d, "SWA-LM"), "SWA-LM needs swa_logits"),
    "other gathering": (
        lambda d, z, y: errata.score(Dynamics.from_arrays(z, y, fold=y), "Mean-LM"),
        "Mean-LM is in-sample, but this run was recorded out-of-sample",
    ),
    "no flags": (lambda d, z, y: errata.flags(d, "Mean-LM"), "Mean-LM ranks samples and chooses no threshold"),
    "budget": (lambda d, z, y: errata.score(d, "CTRL-CE", budget=7), "budget is 7 samples, outside 0..6"),
    "every epoch missing": (
        lambda d, z, y: errata.score(Dynamics.from_arrays(with_value(z, (slice(None), 3), np.nan), y, partial="allow")),
        "sample 3 was not recorded at any epoch of the window",
    ),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_calls_are_refused(logits, labels, case):
    call, message = BAD_CALLS[case]
    with pytest.raises(ErrataError, match=message) as refused:
        call(Dynamics.from_arrays(logits, labels), logits, labels)
    assert_one_sentence(refused.value)


# Probabilities.


def softmax(values):
    exponentials = np.exp(values - values.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def test_probabilities_instead_of_logits_give_a_warning(logits, labels, record):
    probabilities = softmax(3 * logits)
    for attempt in (
        lambda: errata.score(probabilities, labels, "Mean-LM"),
        lambda: errata.score(softmax(probabilities), labels, "Mean-LM"),
        lambda: Dynamics.from_arrays(probabilities[0], labels),
        lambda: record(probabilities, labels),
        lambda: record(probabilities, labels, keep="stream"),
        lambda: record(probabilities, labels, keep="stream", batch=1),
    ):
        with pytest.warns(UserWarning, match="they look like probabilities, not logits") as caught:
            attempt()
        assert len(caught) == 1
        assert_one_sentence(caught[0].message)


def test_the_logarithm_of_a_double_softmax_gives_a_warning(logits, labels):
    with pytest.warns(UserWarning, match="look like the logarithm of a softmax applied twice") as caught:
        errata.score(np.log(softmax(softmax(3 * logits))), labels, "Mean-LM")
    assert len(caught) == 1


@pytest.mark.filterwarnings("error")
def test_logits_and_log_probabilities_give_no_warning(logits, labels, record):
    for fine in (logits, np.log(softmax(3 * logits)), np.abs(logits), np.zeros_like(logits)):
        record(fine, labels)
        record(fine, labels, keep="stream")
        errata.score(fine, labels)
    record(np.log(softmax(0.01 * logits)), labels)  # an untrained model


# Unusual but valid.

FEW = {
    "one sample": lambda z, y: (z[:, :1], y[:1]),
    "one epoch": lambda z, y: (z[:1], y),
    "one epoch as a matrix": lambda z, y: (z[0], y),
    "one sample and one epoch": lambda z, y: (z[:1, :1], y[:1]),
    "a class with one sample": lambda z, y: (z, np.array([0, 0, 0, 0, 0, 2])),
    "absent classes": lambda z, y: (np.concatenate([z, z - 9], axis=2), y),
    "labels of one class": lambda z, y: (z, np.ones(6, int)),
    "two samples": lambda z, y: (z[:, :2], y[:2]),
    "two classes": lambda z, y: (z[:, :, :2], y % 2),
    "boolean labels": lambda z, y: (z[:, :, :2], y > 0),
    "float labels": lambda z, y: (z, y.astype(float)),
    "a list": lambda z, y: (z.tolist(), y.tolist()),
    "whole numbers for logits": lambda z, y: ((z * 10).astype(int), y),
    "all alike": lambda z, y: (np.zeros_like(z), y),
    "half precision": lambda z, y: (z.astype(np.float16), y),
    "another byte order": lambda z, y: (z.astype(">f4"), y.astype(">i8")),
    "Fortran order": lambda z, y: (np.asfortranarray(z), y),
    "huge": lambda z, y: (z * 1e30, y),
    "huge, each sample twice": lambda z, y: (np.tile(z, (1, 2, 1)) * 1e30, np.tile(y, 2)),
}


@pytest.mark.parametrize("case", FEW)
def test_little_or_unusual_data_is_scored_by_every_method(logits, labels, case):
    few, few_labels = FEW[case](logits, labels)
    points = np.arange(2 * len(few_labels)).reshape(-1, 2)
    dynamics = Dynamics.from_arrays(few, few_labels, features=points)
    with_inputs = Dynamics.from_arrays(few, few_labels, inputs=points)
    held_out = [name for name in NEEDS_NO_AVERAGE if "HeldOut" in name]
    others = [name for name in NEEDS_NO_AVERAGE if "HeldOut" not in name]
    for run, names in ((dynamics, others), (with_inputs, held_out)):
        table = errata.score_many(run, names)
        assert np.isfinite(table.to_numpy()).all()
        assert table.shape == (len(few_labels), len(names))
        ranking = errata.rank(run)
        assert ranking["rank"].tolist() == list(range(1, len(few_labels) + 1))


@pytest.mark.parametrize("case", FEW)
def test_little_or_unusual_data_is_recorded_sample_by_sample(tmp_path, logits, labels, record, case):
    few, few_labels = FEW[case](logits, labels)
    few = np.atleast_3d(few) if np.ndim(few) == 3 else np.asarray(few)[None]
    for keep in ("all", "stream"):
        dynamics = record(few, few_labels, tmp_path / keep, batch=1, dtype="float64", keep=keep)
        methods = [name for name in IN_SAMPLE if keep == "all" or parse(name).reduction.aggregation.can_stream]
        found, expected = (errata.score_many(d, methods) for d in (dynamics, Dynamics.from_arrays(few, few_labels)))
        np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())


def test_the_input_is_not_changed(logits, labels):
    few, few_labels = logits.copy(), labels.copy()
    few.flags.writeable = few_labels.flags.writeable = False
    errata.score_many(Dynamics.from_arrays(few, few_labels), LOGITS_DO)
    errata.rank(Dynamics.from_arrays(few, few_labels))
    np.testing.assert_array_equal(few, logits)


def test_a_missing_estimate_has_a_reason(logits, labels):
    estimates = errata.noise_rates(Dynamics.from_arrays(logits[:, :1], labels[:1])).set_index("estimate")
    assert np.isnan(estimates.loc["mixture on Unmixed-MeanProb-LM", "rate"])
    assert "there are no two groups of scores" in estimates.loc["mixture on Unmixed-MeanProb-LM", "how"]
    assert estimates.loc["sign of Unmixed-MeanProb-LM", "rate"] in (0, 1)


@pytest.mark.parametrize("function", [errata.rank, errata.score_many, errata.noise_rates])
def test_arrays_instead_of_dynamics_are_refused(function, logits):
    with pytest.raises(InputError, match=r"takes Dynamics, not ndarray: create them with Dynamics\.from_arrays"):
        function(logits)


def test_scores_of_a_path_or_without_labels_are_refused(logits):
    with pytest.raises(InputError, match="is a path"):
        errata.score("runs/mine", "Mean-CE")
    with pytest.raises(InputError, match="need logits and labels"):
        errata.score(logits, "Mean-CE")


@pytest.mark.parametrize("seed", [-1, None, 1.5, True])
def test_an_invalid_seed_is_refused(labels, seed):
    with pytest.raises(InputError, match="seed must be a whole number"):
        errata.noise.symmetric(labels, 0.2, seed=seed)


def test_sums_of_one_measure_are_ranked_without_a_suggestion(logits, labels):
    recorder = errata.Recorder(labels=labels, keep="stream", methods=["Mean-LM"], quiet=True)
    recorder.update(range(len(labels)), logits[0])
    recorder.end_epoch()
    table = errata.rank(recorder.finish(), "Mean-LM")
    assert list(table.columns) == ["id", "label", "score", "rank"]


def test_a_run_without_epochs_can_be_started_again(tmp_path, logits, labels):
    errata.Recorder(tmp_path / "run", labels=labels, num_classes=3, quiet=True)
    recorder = errata.Recorder(tmp_path / "run", labels=labels, num_classes=3, quiet=True)
    recorder.update(range(len(labels)), logits[0])
    recorder.end_epoch()
    assert recorder.finish().epochs == 1


@pytest.mark.parametrize("budget", [-3, 7, 1.5, "x"])
@pytest.mark.parametrize("method", ["Mean-LM", "CTRL-CE"])
def test_an_invalid_budget_is_refused_by_every_method(logits, labels, method, budget):
    with pytest.raises(InputError, match="budget"):
        errata.rank(Dynamics.from_arrays(logits, labels), method, budget=budget)


def test_a_budget_may_be_a_fraction(logits, labels):
    dynamics = Dynamics.from_arrays(logits, labels)
    np.testing.assert_array_equal(
        errata.score(dynamics, "CTRL-CE", budget=0.5), errata.score(dynamics, "CTRL-CE", budget=3)
    )
