import inspect
import re
import warnings

import cleanlab.filter
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from cleanlab.count import compute_confident_joint
from hypothesis import given
from hypothesis import strategies as st

from errata.compat import FILTERS, LOWEST, PRUNING, RANKINGS, find_label_issues
from errata.errors import InputError

IN_EVERY_FILTER = pytest.mark.parametrize("filter_by", FILTERS)


def predictions(seed, samples, classes, *, scale=1.0, shares=None, noise=0.25, dtype=np.float64):
    """Labels, some of them wrong, and the probabilities of a model that is mostly right."""
    rng = np.random.default_rng(seed)
    true = rng.choice(classes, samples, p=shares)
    labels = np.where(rng.random(samples) < noise, rng.choice(classes, samples, p=shares), true)
    logits = rng.normal(size=(samples, classes))
    logits[np.arange(samples), true] += rng.normal(np.log(classes) + 1, 1.5, samples)
    exponentials = np.exp(scale * (logits - logits.max(axis=1, keepdims=True)))
    return labels, (exponentials / exponentials.sum(axis=1, keepdims=True)).astype(dtype)


@st.composite
def small_problems(draw):
    """Few rows, few classes and coarse probabilities: ties, absent classes and one-sample classes are common."""
    classes = draw(st.integers(2, 4))
    weights = st.lists(st.integers(0, 5), min_size=classes, max_size=classes).filter(any)
    rows = draw(st.lists(weights, min_size=2, max_size=14))
    label = st.integers(0, classes - 1)
    labels = draw(st.lists(label, min_size=len(rows), max_size=len(rows)).filter(lambda drawn: len(set(drawn)) > 1))
    counts = np.array(rows, draw(st.sampled_from([np.float32, np.float64])))
    return np.array(labels), counts / counts.sum(axis=1, keepdims=True)


def same_as_cleanlab(labels, probabilities, **options):
    """Check that both functions return the same for the same arguments, and return it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = cleanlab.filter.find_label_issues(labels, probabilities, n_jobs=1, **options)
        ours = find_label_issues(labels, probabilities, n_jobs=1, **options)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)
    return ours


def test_the_signature_is_cleanlabs_plus_classes():
    theirs = inspect.signature(cleanlab.filter.find_label_issues).parameters
    ours = inspect.signature(find_label_issues).parameters
    assert list(ours) == [*theirs, "classes"]
    for name, parameter in theirs.items():
        assert (ours[name].default, ours[name].kind) == (parameter.default, parameter.kind), name


PROBLEMS = {
    "plain": lambda: predictions(0, 2000, 10),
    "single precision": lambda: predictions(1, 2000, 6, dtype=np.float32),
    "mostly wrong": lambda: predictions(2, 1500, 6, noise=0.8),
    "imbalanced": lambda: predictions(3, 3000, 5, shares=[0.9, 0.06, 0.03, 0.005, 0.005]),
    "saturated": lambda: predictions(4, 1500, 10, scale=60),
    "absent classes": lambda: (predictions(5, 800, 9)[0] // 2, predictions(5, 800, 9)[1]),
    "many classes": lambda: predictions(6, 2000, 200),
}


@IN_EVERY_FILTER
@pytest.mark.parametrize("name", PROBLEMS)
def test_flags_and_every_ranking_of_them_are_cleanlabs(filter_by, name):
    labels, probabilities = PROBLEMS[name]()
    flagged = same_as_cleanlab(labels, probabilities, filter_by=filter_by)
    for ranking in RANKINGS:
        order = same_as_cleanlab(labels, probabilities, filter_by=filter_by, return_indices_ranked_by=ranking)
        assert sorted(order) == np.flatnonzero(flagged).tolist()


@IN_EVERY_FILTER
@given(problem=small_problems(), ranking=st.sampled_from([None, *RANKINGS]))
def test_ties_absent_and_tiny_classes_are_handled_as_by_cleanlab(filter_by, problem, ranking):
    same_as_cleanlab(*problem, filter_by=filter_by, return_indices_ranked_by=ranking)


@pytest.mark.parametrize("filter_by", PRUNING)
@given(
    problem=small_problems(),
    share=st.sampled_from([0, 0.1, 0.5, 0.75, 1, 1.5]),
    least=st.integers(0, 5),
    removed=st.none() | st.integers(0, 10**6),
)
def test_amounts_to_prune_are_cleanlabs(filter_by, problem, share, least, removed):
    labels, probabilities = problem
    options = {"frac_noise": share, "min_examples_per_class": least}
    if removed is not None:
        options["num_to_remove_per_class"] = np.random.default_rng(removed).integers(0, 6, probabilities.shape[1])
    same_as_cleanlab(labels, probabilities, filter_by=filter_by, **options)


@pytest.mark.parametrize("filter_by", PRUNING)
@pytest.mark.parametrize(
    "options",
    [
        {"frac_noise": 0.3},
        {"min_examples_per_class": 20},
        {"num_to_remove_per_class": [30, 0, 2, 500, 5, 1]},
        {"frac_noise": 0.7, "min_examples_per_class": 100, "num_to_remove_per_class": [3, 4, 5, 6, 7, 8]},
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_amounts_to_prune_of_larger_problems_are_cleanlabs(filter_by, options, seed):
    shares = np.random.default_rng(seed).dirichlet(np.ones(6))
    same_as_cleanlab(*predictions(seed, 1200, 6, shares=shares), filter_by=filter_by, **options)


@pytest.mark.parametrize("filter_by", PRUNING)
@pytest.mark.parametrize("kind", ["calibrated", "counted", "transposed in memory", "fractions"])
@pytest.mark.parametrize("seed", range(3))
def test_a_passed_joint_is_used_as_by_cleanlab(filter_by, kind, seed):
    labels, probabilities = predictions(seed, 1000, 9)
    joint = compute_confident_joint(labels, probabilities, calibrate=kind != "counted")
    joint = {"transposed in memory": np.asfortranarray(joint), "fractions": joint * 0.77}.get(kind, joint)
    for share in (1.0, 0.6):
        flagged = same_as_cleanlab(labels, probabilities, filter_by=filter_by, confident_joint=joint, frac_noise=share)
        assert flagged.any()


@pytest.mark.parametrize("ranking", ["self_confidence", "normalized_margin"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_adjusted_rankings_are_cleanlabs(ranking, name):
    options = {"return_indices_ranked_by": ranking, "rank_by_kwargs": {"adjust_pred_probs": True}}
    adjusted = same_as_cleanlab(*PROBLEMS[name](), **options)
    assert len(adjusted)


@pytest.mark.filterwarnings("error")
def test_arrays_of_any_library_and_names_of_classes_give_the_same():
    labels, probabilities = predictions(0, 300, 4)
    expected = find_label_issues(labels, probabilities)
    assert expected.any()
    names = np.array(["ant", "bee", "cat", "dog"])
    for other_labels in (labels.tolist(), torch.tensor(labels), pd.Series(labels), pl.Series(labels), labels * 1.0):
        np.testing.assert_array_equal(find_label_issues(other_labels, probabilities), expected)
    np.testing.assert_array_equal(find_label_issues(pd.DataFrame({"y": labels}), probabilities), expected)
    for other_probabilities in (
        torch.tensor(probabilities, requires_grad=True),
        pd.DataFrame(probabilities, columns=names),
        pl.DataFrame(probabilities),
        probabilities.tolist(),
    ):
        np.testing.assert_array_equal(find_label_issues(labels, other_probabilities), expected)
    for named_labels in (names[labels], names[labels].tolist(), pd.Series(names[labels], dtype="category")):
        np.testing.assert_array_equal(find_label_issues(named_labels, probabilities, classes=names), expected)


def test_arguments_are_not_modified():
    labels, probabilities = predictions(0, 300, 4)
    before = labels.copy(), probabilities.copy()
    joint = compute_confident_joint(labels, probabilities)
    joint_before = joint.copy()
    for filter_by in PRUNING:
        find_label_issues(labels, probabilities, filter_by=filter_by, confident_joint=joint, frac_noise=0.5)
    find_label_issues(
        labels,
        probabilities,
        return_indices_ranked_by="normalized_margin",
        rank_by_kwargs={"adjust_pred_probs": True},
    )
    np.testing.assert_array_equal(labels, before[0])
    np.testing.assert_array_equal(probabilities, before[1])
    np.testing.assert_array_equal(joint, joint_before)


def test_verbose_prints_the_number(capsys):
    labels, probabilities = predictions(0, 300, 4)
    flagged = find_label_issues(labels, probabilities, verbose=True)
    assert capsys.readouterr().out == f"Number of label issues found: {flagged.sum()}\n"


def test_classes_that_are_too_small_are_named():
    labels, probabilities = predictions(0, 300, 4)
    with pytest.warns(UserWarning, match="no label is flagged in classes with 1000 samples or fewer: 0, 1, 2, 3"):
        assert not find_label_issues(labels, probabilities, min_examples_per_class=1000).any()


@pytest.mark.parametrize("filter_by", sorted(set(FILTERS) - set(PRUNING)))
def test_a_warning_names_unused_arguments(filter_by):
    labels, probabilities = predictions(0, 300, 4)
    plain = find_label_issues(labels, probabilities, filter_by=filter_by)
    with pytest.warns(UserWarning, match=f"frac_noise is not used with filter_by '{filter_by}'"):
        np.testing.assert_array_equal(
            find_label_issues(labels, probabilities, filter_by=filter_by, frac_noise=0.5), plain
        )
    with pytest.warns(UserWarning, match="confident_joint is not used"):
        np.testing.assert_array_equal(
            find_label_issues(labels, probabilities, filter_by=filter_by, confident_joint=np.eye(4)), plain
        )


def test_the_lowest_filters_flag_as_many_as_confident_learning():
    labels, probabilities = predictions(0, 500, 4)
    count = find_label_issues(labels, probabilities, filter_by="confident_learning").sum()
    for filter_by in LOWEST:
        assert find_label_issues(labels, probabilities, filter_by=filter_by).sum() == count


def changed(row, value):
    _, probabilities = predictions(0, 30, 3)
    probabilities[row] = value
    return probabilities


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"multi_label": True}, "errata needs one label per sample"),
        ({"filter_by": "prune"}, "filter_by 'prune' is not one of prune_by_noise_rate"),
        ({"return_indices_ranked_by": "margin"}, "return_indices_ranked_by 'margin' is not one of self_confidence"),
        ({"rank_by_kwargs": {"method": "x"}}, "supports adjust_pred_probs only, not 'method'"),
        (
            {
                "return_indices_ranked_by": "confidence_weighted_entropy",
                "rank_by_kwargs": {"adjust_pred_probs": True},
            },
            "needs return_indices_ranked_by self_confidence or normalized_margin",
        ),
        ({"n_jobs": 0}, "n_jobs must be 1 or more, not 0"),
        ({"frac_noise": -0.1}, "frac_noise must be 0 or more, not -0.1"),
        ({"frac_noise": np.nan}, "frac_noise must be 0 or more"),
        ({"min_examples_per_class": -1}, "min_examples_per_class must be 0 or more"),
        ({"num_to_remove_per_class": [1, 2]}, "must be 3 whole numbers, none below 0"),
        ({"num_to_remove_per_class": [1, 2, -1]}, "must be 3 whole numbers, none below 0"),
        (
            {"num_to_remove_per_class": [1, 2, 3], "filter_by": "low_self_confidence"},
            "needs filter_by prune_by_noise_rate, prune_by_class, both, not 'low_self_confidence'",
        ),
        ({"confident_joint": np.eye(2)}, "confident_joint must have shape (3, 3), not (2, 2)"),
        ({"confident_joint": -np.eye(3)}, "must hold counts, none below 0"),
        ({"confident_joint": np.full((3, 3), np.nan)}, "must hold counts, none below 0"),
        ({"labels": ["ant"] * 30}, "pass classes=[...] with the names in the order of the columns"),
        ({"labels": ["ant"] * 30, "classes": ["ant", "bee"]}, "classes has 2 names"),
        ({"labels": [3] * 30}, "label of sample 0 is 3, outside 0..2"),
        ({"labels": [[0, 1]] * 30}, "labels must have shape (N,), not (30, 2)"),
        ({"labels": [0, 1]}, "there are 2 labels for 30 rows"),
        (
            {"pred_probs": [0.1, 0.9]},
            "probabilities must have shape (N, K) with N of 1 or more and K of 2 or more, not (2,)",
        ),
        ({"pred_probs": changed(7, np.nan)}, "probability of sample 7 for class 0 is nan"),
        ({"pred_probs": changed(5, 0.9)}, "probabilities of sample 5 sum to 2.7, not to 1"),
    ],
)
def test_bad_input_is_refused_with_a_reason(options, message):
    labels, probabilities = predictions(0, 30, 3)
    with pytest.raises(InputError, match=re.escape(message)):
        find_label_issues(**{"labels": labels, "pred_probs": probabilities, **options})
