"""The rule that chooses the default method, and the name "default"."""

from functools import partial
from itertools import product

import numpy as np
import pytest

import errata
from errata.bench.running.benchmark_run import methods_besides_the_papers
from errata.core.default import choose_default
from errata.core.memorising import Memorisation
from errata.core.methods import parse
from errata.core.sample_context import SampleContext
from errata.dynamics.scoring import find_method
from errata.errors import InputError

SPACES = [(), ("features",), ("inputs",), ("features", "inputs"), ("held_out",), ("features", "held_out")]


def known_points(*names):
    """Spaces with points of these names, whose values do not matter."""
    return SampleContext(**{name: np.zeros((12, 2)) for name in names})


def expected(spaces, gathering, logits_stored, sums_of_ramp, features, late_epochs):
    """The rule as the docstring of errata.core.default states it."""
    if "inputs" in spaces or "held_out" in spaces:
        name = "Unmixed-HeldOut-EarlyProb-LM" if logits_stored else "Unmixed-HeldOut-MeanProb-LM"
    elif "features" in spaces and (logits_stored or sums_of_ramp) and not features:
        name = "Unmixed-kNN-RampProb-LM"
    elif logits_stored and gathering == "in-sample" and late_epochs:
        name = "Unmixed-EarlyProb-LM"
    else:
        name = "Unmixed-MeanProb-LM"
    return name + (" (OOS)" if gathering == "out-of-sample" else "")


@pytest.mark.parametrize("gathering", ["in-sample", "out-of-sample"])
@pytest.mark.parametrize("spaces", SPACES)
def test_the_default_depends_on_what_is_known(spaces, gathering):
    known = {method.name for method in methods_besides_the_papers(known_points(*spaces))}
    for logits_stored, sums_of_ramp, features, late_epochs in product([True, False], repeat=4):
        method = choose_default(
            known_points(*spaces),
            gathering,
            logits_stored=logits_stored,
            can_score=lambda method, kept=sums_of_ramp or logits_stored: kept or "Ramp" not in method.name,
            memorisation=partial(Memorisation, features, late_epochs),
        )
        assert method.name == expected(spaces, gathering, logits_stored, sums_of_ramp, features, late_epochs)
        assert method.name.removesuffix(" (OOS)") in known


def test_features_that_were_not_trained_on_the_labels_are_used_without_reading_the_run():
    options = {"logits_stored": True, "can_score": lambda method: True, "frozen_features": True}
    refuse = partial(pytest.fail, "the run was read")
    method = choose_default(known_points("features"), "in-sample", memorisation=refuse, **options)
    assert method.name == "Unmixed-kNN-RampProb-LM"
    memorised = partial(Memorisation, True, True)
    assert "kNN" not in choose_default(known_points(), "in-sample", memorisation=memorised, **options).name
    unusable = options | {"can_score": lambda method: "Ramp" not in method.name}
    assert "kNN" not in choose_default(known_points("features"), "in-sample", memorisation=memorised, **unusable).name


@pytest.mark.parametrize(("logits_stored", "aggregation"), [(True, "EarlyProb"), (False, "MeanProb")])
def test_a_run_whose_model_predicts_unseen_labels_better_gets_more_weight(logits_stored, aggregation):
    options = {"can_score": lambda method: True, "memorisation": partial(Memorisation, False, False)}
    options |= {"logits_stored": logits_stored, "beats_held_out": True}
    method = choose_default(known_points("inputs"), "out-of-sample", **options)
    assert method.name == f"Unmixed-HeldOut(a=0.7)-{aggregation}-LM (OOS)"
    assert "HeldOut" not in choose_default(known_points("features"), "in-sample", **options).name


@pytest.mark.parametrize(("value", "name"), [(True, "HeldOut(a=0.7)"), (False, "HeldOut"), (None, "HeldOut")])
def test_the_setting_of_a_run_says_whether_its_model_is_better(curves, tmp_path, value, name):
    logits, labels, _ = curves(0)
    run = errata.Dynamics.from_arrays(logits, labels, held_out=logits[-1], settings={"beats_held_out": value})
    for each in (run, run.save(tmp_path / "run"), run.window((0, 3))):
        assert find_method(each, None).name == f"Unmixed-{name}-EarlyProb-LM"


def test_methods_that_need_more_than_is_known_are_left_out_of_the_benchmark():
    names = {
        known: {method.name for method in methods_besides_the_papers(known_points(*known))}
        for known in map(tuple, SPACES)
    }
    assert not any("kNN" in name or "HeldOut" in name for name in names[()])
    assert not any("HeldOut" in name for name in names["features",])
    assert not any("kNN" in name for name in names["held_out",])
    assert names["features", "inputs"] == names["inputs",] == names["features", "held_out"]


def test_the_run_is_read_only_if_the_choice_depends_on_it():
    def refuse():
        raise AssertionError("the run was read")

    options = {"can_score": lambda method: True, "memorisation": refuse}
    assert choose_default(known_points("inputs"), "in-sample", logits_stored=True, **options)
    assert choose_default(known_points(), "out-of-sample", logits_stored=True, **options)
    assert choose_default(known_points(), "in-sample", logits_stored=False, **options)


def test_the_default_of_recorded_runs(curves):
    logits, labels, _ = curves(0)
    points = np.random.default_rng(0).normal(size=(len(labels), 3))
    methods = {
        "Unmixed-MeanProb-LM": {},
        "Unmixed-kNN-RampProb-LM": {"features": points},
        "Unmixed-HeldOut-EarlyProb-LM": {"features": points, "inputs": points},
        "Unmixed-HeldOut-EarlyProb-LM (OOS)": {"held_out": logits[0], "gathering": "out-of-sample"},
    }
    for name, known in methods.items():
        assert find_method(errata.Dynamics.from_arrays(logits[-1], labels, **known), None).name == name


@pytest.mark.parametrize("name", ["default", "Default", " DEFAULT "])
def test_default_is_accepted_where_there_is_a_run(name, curves):
    logits, labels, _ = curves(0)
    run = errata.Dynamics.from_arrays(logits, labels)
    np.testing.assert_array_equal(errata.score(run, name), errata.score(run))
    np.testing.assert_array_equal(errata.score(logits, labels, name), errata.score(run))
    assert errata.rank(run, name).equals(errata.rank(run))
    assert list(errata.score_many(run, [name, "Mean-CE"])) == ["default", "Mean-CE"]
    recorder = errata.Recorder(labels=labels, num_classes=logits.shape[2], keep="stream", methods=[name], quiet=True)
    for epoch in logits:
        recorder.update_all(epoch)
        recorder.end_epoch()
    streamed = recorder.finish(features=np.eye(logits.shape[2])[labels])
    assert errata.rank(streamed, name).equals(errata.rank(streamed))
    with pytest.raises(InputError, match="depends on the run"):
        parse(name)
