"""`errata find` on .npy files: logits or inputs, with labels in another file."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

import errata


@pytest.fixture
def run(errata_command):
    return partial(errata_command, "find")


@pytest.fixture
def saved(curves, tmp_path):
    """Logits (E, N, K) and labels (N,) in two files."""
    logits, labels, _ = curves(0)
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "labels.npy", labels)
    return logits, labels


def test_logits_with_labels_in_another_file_are_ranked(run, saved, tmp_path):
    code, out, err = run("logits.npy", "--label", "labels.npy")
    assert (code, err) == (0, "")
    ranking = errata.find(errata.Dynamics.from_arrays(*saved)).ranking
    assert pd.read_csv(tmp_path / "errata-out" / "ranking.csv")["id"].tolist() == ranking["id"].tolist()
    assert "Ranked by" in out
    in_python = errata.find(tmp_path / "logits.npy", saved[1])
    pd.testing.assert_frame_equal(in_python.ranking, ranking)


def test_an_array_with_one_row_per_label_holds_inputs(run, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    np.save(tmp_path / "X.npy", labels[:, None, None] * 3 + rng.normal(size=(40, 3, 2)))
    np.save(tmp_path / "y.npy", labels)
    code, out, _ = run("X.npy", "--label", "y.npy", "--model", "mlp")
    assert code == 0
    assert "read as 6 columns" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("logits.npy",), "logits.npy has no labels. Pass a .npy file of labels with --label"),
        (("logits.npy", "--label", "absent.npy"), "absent.npy does not exist"),
        (("probs.npz",), "nor logits of a model (logits; the logarithm of probabilities works too). It has 'probs'"),
        (("photos", "--label", "class"), "its id is its path. Omit --label"),
    ],
)
def test_errors_name_the_command_line_options(run, saved, tmp_path, arguments, message):
    np.savez(tmp_path / "probs.npz", probs=np.ones((4, 2)), labels=np.arange(4) % 2)
    (tmp_path / "photos").mkdir()
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_help_lists_the_file_types(run):
    assert ".npz .npy" in " ".join(run("--help")[1].replace("│", " ").split())
