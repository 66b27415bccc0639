import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import errata
from errata import Dynamics
from errata.advising import draw


@pytest.fixture
def run(errata_command):
    return errata_command


@pytest.fixture
def truth(tmp_path, curves):
    """Dynamics as a folder, as what find leaves, and as an archive; which labels are wrong."""
    logits, labels, wrong = curves(0, samples=300)
    dynamics = Dynamics.from_arrays(logits, labels)
    dynamics.save(tmp_path / "run")
    dynamics.save(tmp_path / "errata-out" / "dynamics")
    np.savez(tmp_path / "run.npz", logits=logits, labels=labels)
    return wrong


def test_folders_and_archives_of_a_run_get_the_same_advice(run, truth):
    advice = errata.advise(Dynamics.open("run"), budget=60)
    for source in ("run", "errata-out", "run.npz"):
        code, said, complaints = run("advise", source, "--budget", 60)
        assert (code, complaints) == (0, "")
        assert advice.verdict in said
        assert f"predicts {advice.memorising.learned:.1%} of the given labels" in said


def test_the_table_is_printed_and_written_as_its_name_ends(run, truth):
    table = errata.advise(Dynamics.open("run"), budget=60, methods=["Mean-LM", "Last-CE"]).table
    for ending in ("csv", "md", "json"):
        chosen = ("--methods", "Mean-LM", "--method", "Last-CE")
        code, said, _ = run("advise", "run", "--budget", 60, *chosen, "--top", 2, "--out", f"advice.{ending}")
        assert code == 0
        assert f"wrote advice.{ending}" in said
        shown = [line.split("│")[1].strip() for line in said.splitlines() if line.startswith("│")]
        assert shown == table["method"].head(2).tolist()
    pd.testing.assert_frame_equal(pd.read_csv("advice.csv", dtype={"stability": "Float64"}), table)
    kept = json.loads(Path("advice.json").read_text(encoding="utf-8"))
    assert [row["method"] for row in kept["table"]] == table["method"].tolist()
    text = Path("advice.md").read_text(encoding="utf-8")
    assert f"| {table['method'][0]} | {table['agreement'][0]:.1%} | {table['stability'][0]:.1%} |" in text


def test_from_a_draw_to_an_audit(run, truth, tmp_path):
    code, said, _ = run("advise", "errata-out", "--draw", 150, "--seed", 5)
    assert code == 0
    assert "wrote 150 samples in random order to to_audit.csv" in said
    assert "errata advise errata-out --audit to_audit.csv" in said
    judged = pd.read_csv("to_audit.csv")
    judged["decision"] = np.where(truth[judged["id"]], "relabel", "keep")
    judged["new_label"] = 0
    judged.to_csv("decisions.csv", index=False)
    code, said, _ = run("advise", "errata-out", "--budget", 60, "--audit", "decisions.csv", "--out", "advice.json")
    assert code == 0
    advice = json.loads(Path("advice.json").read_text(encoding="utf-8"))
    assert f"Of 150 labels judged, {int(truth[judged['id']].sum())} were wrong" in said
    assert advice["verdict"] in said
    assert "cross-validated" in said
    assert "share of the audited errors missed" in said


def test_a_window_that_is_advised_comes_with_the_command_that_uses_it(run, tmp_path, curves):
    logits, labels, wrong = curves(2, samples=600)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(36, 600, 5)).astype(np.float32) * 8
    dynamics = Dynamics.from_arrays(np.concatenate([logits, noise]), labels)
    dynamics.save(tmp_path / "errata-out" / "dynamics")
    judged = draw(dynamics, 300)
    judged["decision"] = np.where(wrong[judged["id"]], "relabel", "keep")
    judged.assign(new_label=0).to_csv("decisions.csv", index=False)
    _, said, _ = run("advise", "errata-out", "--budget", 120, "--audit", "decisions.csv")
    (command,) = (line for line in said.splitlines() if line.startswith("then: errata rank "))
    code, _, complaints = run(*shlex.split(command.removeprefix("then: errata ")), "--top", 1)
    assert (code, complaints) == (0, "")


def test_a_draw_does_not_overwrite_judgements(run, truth, tmp_path):
    (tmp_path / "mine.csv").write_text("judged")
    code, _, complaints = run("advise", "run", "--draw", 10, "--out", "mine.csv")
    assert code == 2
    assert "mine.csv is there already" in complaints
    assert (tmp_path / "mine.csv").read_text() == "judged"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "nowhere"),
        (("run", "--out", "advice.txt"), "advice.txt must end in .csv or .md or .json"),
        (("run", "--out", "no/advice.csv"), "the folder no does not exist"),
        (("run", "--draw", 10, "--out", "audit.md"), "audit.md must end in .csv"),
        (("run", "--audit", "none.csv"), "none.csv is not there"),
        (("run", "--draw", 1000), "1,000 samples cannot be drawn: there are 300"),
    ],
)
def test_bad_arguments_are_one_sentence(run, truth, arguments, said):
    code, out, complaints = run("advise", *arguments)
    assert code == 2
    assert out == ""
    assert said in complaints
    assert complaints.count("\n") == 1
