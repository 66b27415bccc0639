"""`errata score --top`: the first rows of the ranking, from shards and from one folder; many scores are equal."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import errata
from errata.cli.app import app
from errata.dynamics.shards import write_shard
from errata.errors import InputError
from errata.terminal import intervals


@pytest.fixture(params=["numbers", "text"])
def run(request):
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, 90)
    labels = np.where(rng.random(90) < 0.2, (true + 1) % 3, true)
    logits = (2 * np.eye(3)[true] + rng.normal(size=(2, 90, 3))).round()
    ids = rng.permutation(90)
    return errata.Dynamics.from_arrays(logits, labels, ids=ids if request.param == "numbers" else ids.astype(str))


@pytest.fixture(params=["shards", "folder"])
def place(request, run, tmp_path):
    if request.param == "folder":
        run.save(tmp_path / "run")
    for number in range(3 if request.param == "shards" else 0):
        rows = slice(30 * number, 30 * number + 30)
        part = errata.Dynamics.from_arrays(run.logits[:, rows], run.labels[rows], ids=run.ids[rows])
        write_shard(str(tmp_path / "run"), f"{number}", part, run_id="r")
    return tmp_path / "run"


@pytest.mark.parametrize("top", [1, 25, 200])
def test_the_top_samples_are_the_first_of_the_ranking(run, place, tmp_path, top):
    out = tmp_path / "top.parquet"
    result = CliRunner().invoke(app, ["score", str(place), "--top", str(top), "--out", str(out)])
    assert result.exit_code == 0, result.output
    expected, written = errata.rank(run).head(top), pd.read_parquet(out)
    assert written["id"].tolist() == expected["id"].tolist()
    (method,) = set(written) - {"id"}
    assert written[method].to_numpy().tobytes() == expected["score"].to_numpy().tobytes()
    printed = f"wrote the {len(expected)} samples with {method} of {expected['score'].iloc[-1]:.4g} or more to"
    assert printed in " ".join(result.output.split())


def test_a_share_of_wrong_labels_is_printed_for_shards(run, tmp_path):
    """It is one of the estimates for the whole run."""
    write_shard(str(tmp_path / "run"), "0", run, run_id="r")
    command = ["score", str(tmp_path / "run"), "--method", "default", "--out", str(tmp_path / "scores.csv")]
    output = " ".join(CliRunner().invoke(app, command).output.split())
    rates = errata.noise_rates(run)
    sign = rates[rates["kind"] == "sign"]
    assert f"{sign['estimate'].iloc[0]}: about {sign['rate'].iloc[0]:.1%} of the labels are wrong" in output
    assert intervals(sign)[0] in output


def test_several_methods_have_no_top(place, tmp_path):
    command = ["score", str(place), "--method", "Mean-CE", "--method", "Mean-LM", "--top", "3"]
    result = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "top.csv")])
    assert isinstance(result.exception, InputError)
    assert str(result.exception) == "--top orders samples by one method, not by 2; name one"
