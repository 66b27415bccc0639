import hashlib
import io
import os
import re
import resource
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import typer

import errata
from errata import Dynamics, cli
from errata.cli.app import COMMANDS, app, as_options

METHODS = ["Mean-LM", "MeanProb-LM", "CL-PBNR (IS)"]


@pytest.fixture
def run(errata_command):
    """Run the command in a temporary folder: exit code, standard output, lines of standard error."""

    def run(*arguments):
        code, out, err = errata_command(*arguments)
        return code, out, err.splitlines()

    return run


@pytest.fixture
def files(tmp_path, curves):
    """The same dynamics as a folder, an archive and two arrays."""
    logits, labels, _ = curves(0)
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "labels.npy", labels)
    np.savez(tmp_path / "run.npz", logits=logits, labels=labels)
    Dynamics.from_arrays(logits, labels).save(tmp_path / "run")
    return {"run": (), "run.npz": (), "logits.npy": ("--labels", "labels.npy")}


def contents(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in folder.rglob("*")
    }


def read(path):
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pandas 3, which is exact by default
        return pd.read_csv(path, float_precision="round_trip")


# score and rank.


def test_scores_of_a_folder_an_archive_and_arrays_equal_those_in_python(run, files, tmp_path):
    expected = errata.score_many(Dynamics.open(tmp_path / "run"), METHODS)
    chosen = [word for method in METHODS for word in ("--method", method)]
    for source, extra in files.items():
        for suffix in (".csv", ".parquet"):
            file = tmp_path / f"{source.replace('.', '-')}{suffix}"
            code, out, errors = run("score", source, *extra, *chosen, "--out", file)
            assert (code, errors) == (0, [])
            assert "wrote scores of 3 methods for 60 samples" in out
            table = read(file)
            assert list(table.columns) == ["id", *METHODS]
            assert table["id"].tolist() == list(range(60))
            for method in METHODS:
                np.testing.assert_array_equal(table[method], expected[method])


def test_the_folder_of_find_is_scored_and_ranked(run, files, tmp_path):
    code, out, _ = run("find", "run", "--out", "errata-out")
    assert code == 0
    for command in ("score", "rank"):
        for source in ("errata-out", "run"):
            code, out, _ = run(command, source, "--method", "Mean-LM", "--out", f"{command}-{source}.csv")
            assert code == 0, out
        pd.testing.assert_frame_equal(*(read(tmp_path / f"{command}-{source}.csv") for source in ("errata-out", "run")))


def test_all_applicable_methods_are_scored_by_default(run, files, tmp_path):
    code, out, _ = run("score", "run")
    assert code == 0
    assert "wrote scores of 17 methods" in out
    assert "left out: SWA-CE and SWA-LM" in out
    assert len(read(tmp_path / "scores.csv").columns) == 18


def test_a_window_and_a_budget_are_used(run, files, tmp_path):
    assert run("score", "run", "--window", 2, 5, "--budget", 7, "--method", "CTRL-CE", "--method", "Mean-CE")[0] == 0
    expected = errata.score_many(Dynamics.open("run"), ["CTRL-CE", "Mean-CE"], window=(2, 5), budget=7)
    found = read(tmp_path / "scores.csv").set_index("id")
    np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())


def test_a_ranking_is_printed_and_written(run, files, tmp_path):
    expected = errata.rank(Dynamics.open("run"))
    for source, extra in files.items():
        for suffix in (".csv", ".parquet"):
            code, out, errors = run("rank", source, *extra, "--out", f"ranking{suffix}", "--top", 3)
            assert (code, errors) == (0, [])
            assert "the 3 most suspicious of 60 samples" in out
            assert out.count("of the labels are wrong") == 4
            pd.testing.assert_frame_equal(read(tmp_path / f"ranking{suffix}"), expected, check_exact=True)
    shown = [line.split("│")[1:3] for line in out.splitlines() if line.startswith("│")]
    assert [[int(cell) for cell in row] for row in shown] == expected[["id", "label"]].head(3).to_numpy().tolist()


def test_default_is_accepted_as_a_method(run, files, tmp_path):
    dynamics = Dynamics.open("run")
    code, out, _ = run("score", "run", "--method", "default", "--method", "Mean-CE")
    assert code == 0
    assert out.endswith("\ndefault is Unmixed-MeanProb-LM here\n")
    scores = read(tmp_path / "scores.csv").set_index("id")
    assert list(scores) == ["default", "Mean-CE"]
    np.testing.assert_array_equal(scores["default"], errata.score(dynamics))
    assert run("rank", "run", "--method", "default", "--out", "ranking.csv")[0] == 0
    pd.testing.assert_frame_equal(read(tmp_path / "ranking.csv"), errata.rank(dynamics), check_exact=True)


def help_texts(command):
    """The help of a command, of its parameters and of the commands below it."""
    yield command.help or ""
    yield from (parameter.help or "" for parameter in command.params)
    for below in getattr(command, "commands", {}).values():
        yield from help_texts(below)


def test_no_help_has_brackets_which_the_terminal_would_leave_out_as_markup():
    texts = list(help_texts(typer.main.get_command(app)))
    assert len(texts) > 100
    assert [text for text in texts if re.search(r"\[[a-z]", text)] == []


def test_names_and_ids_with_brackets_are_printed_verbatim(run, tmp_path, curves):
    logits, labels, _ = curves(0, classes=3)
    names = np.array(["[bold]cat", "[/x]", "dog"])
    ids = np.array([f"[/images]{i}" for i in range(60)])
    np.savez(tmp_path / "named.npz", logits=logits, labels=names[labels], classes=names, ids=ids)
    code, out, errors = run("rank", "named.npz", "--out", "ranking.csv")
    assert (code, errors) == (0, [])
    assert "[/images]" in out
    assert set(read(tmp_path / "ranking.csv")["label"]) == set(names)


def test_one_sample_is_ranked_without_estimates(run, tmp_path, curves):
    logits, labels, _ = curves(0)
    np.savez(tmp_path / "one.npz", logits=logits[:, :1], labels=labels[:1])
    code, out, errors = run("rank", "one.npz", "--out", "ranking.csv")
    assert (code, errors) == (0, [])
    assert "mixture on Unmixed-MeanProb-LM: no estimate here, because" in out
    assert len(read(tmp_path / "ranking.csv")) == 1


def test_running_sums_without_estimates_are_ranked(run, curves, tmp_path):
    logits, labels, _ = curves(0)
    recorder = errata.Recorder("sums", labels=labels, keep="stream", methods=["Mean-CE"], quiet=True)
    recorder.update(range(60), logits[0])
    recorder.end_epoch()
    code, out, _ = run("rank", "sums", "--method", "Mean-CE", "--out", "ranking.csv")
    assert code == 0
    assert "cannot be estimated here: this run has no running sums for Unmixed-MeanProb-LM" in out


def test_a_warning_is_one_line(run, tmp_path, curves):
    logits, labels, _ = curves(0)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    np.savez(tmp_path / "p.npz", logits=probabilities, labels=labels)
    code, _, errors = run("score", "p.npz")
    assert code == 0
    assert len(errors) == 1
    assert errors[0].startswith("errata: warning: epoch 0: these rows sum to one")


# methods.


def test_the_25_methods_of_the_paper_are_starred():
    listed = subprocess.run(
        [sys.executable, "-m", "errata", "methods"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in listed.splitlines() if line.startswith("│")]
    catalogue = errata.methods()
    assert [row[0] for row in rows if row[0]] == ["default", *catalogue["method"]]
    assert [row[0] for row in rows if row[2] == "*"] == catalogue[catalogue["in_paper"]]["method"].tolist()
    assert sum(row[2] == "*" for row in rows) == 25


def test_the_list_of_methods_can_be_written(run, tmp_path):
    for name in ("methods.csv", "methods.parquet"):
        assert run("methods", "--paper", "--out", name)[0] == 0
        table = read(tmp_path / name)
        assert len(table) == 25
        assert table["in_paper"].all()


# Refusals.

REFUSED = {
    "typo": (("score", "run", "--method", "MeanProp-LM"), "unknown method 'MeanProp-LM'; did you mean 'MeanProb-LM'?"),
    "typo of rank": (("rank", "run", "--method", "Mena-CE"), "unknown method 'Mena-CE'; did you mean 'Mean-CE'?"),
    "nothing there": (("score", "gone"), "gone does not exist"),
    "no archive there": (("score", "gone.npz"), "gone.npz is missing"),
    "no array there": (("score", "gone.npy", "--labels", "labels.npy"), "gone.npy is missing"),
    "no labels there": (("score", "logits.npy", "--labels", "gone.npy"), "gone.npy is missing"),
    "text": (
        ("score", "notes.txt"),
        "unsupported file type '.txt' of notes.txt; supported: dynamics folders, .npz, .npy",
    ),
    "empty folder": (("score", "empty"), "empty is not a dynamics folder: it has no manifest.json"),
    "no --labels": (("rank", "logits.npy"), "logits.npy holds logits only; pass --labels"),
    "--labels twice": (
        ("rank", "run.npz", "--labels", "labels.npy"),
        "--labels is used only with a .npy file of logits; run.npz",
    ),
    "--labels and a folder": (
        ("rank", "run", "--labels", "labels.npy"),
        "--labels is used only with a .npy file of logits; run c",
    ),
    "not an archive": (("score", "fake.npz"), "fake.npz is not a whole .npz file"),
    "pickled": (("score", "pickled.npz"), "pickled.npz is not a whole .npz file: logits.npy holds Python objects"),
    "no logits": (("score", "lacking.npz"), "lacking.npz has no array named logits; it has labels"),
    "no array at all": (("score", "cut.npy", "--labels", "labels.npy"), "cut.npy is not a whole .npy file"),
    "other labels": (("score", "logits.npy", "--labels", "few.npy"), "there are 2 labels for 60 samples of logits"),
    "newer": (
        ("score", "newer"),
        "newer/manifest.json was written with schema 99; this errata reads up to 1: upgrade errata",
    ),
    "kind of file": (("score", "run", "--out", "scores.xlsx"), "scores.xlsx must end in .csv or .parquet"),
    "kind of ranking": (("rank", "run", "--out", "ranking"), "ranking must end in .csv or .parquet"),
    "kind of list": (("methods", "--out", "methods.txt"), "methods.txt must end in .csv or .parquet"),
    "no folder": (("score", "run", "--out", "no/scores.csv"), "the folder no does not exist"),
    "a folder for a file": (("score", "run", "--out", "taken.csv"), "taken.csv cannot be written: Is a directory"),
    "in proc": (("score", "run", "--out", "/proc/scores.csv"), "/proc/scores.csv cannot be written: "),
    "window": (("score", "run", "--window", "3", "99"), "window [3, 99] is not within epochs 0..11"),
    "budget": (("rank", "run", "--method", "CTRL-CE", "--budget", "99"), "budget is 99 samples, outside 0..60"),
    "no average": (("score", "run", "--method", "SWA-LM"), "SWA-LM needs swa_logits"),
    "demo in a file": (("demo", "--out", "notes.txt"), "notes.txt: File exists"),
    "demo in proc": (("demo", "--out", "/proc/errata"), "/proc/errata: No such file or directory"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_one_line_exit_code_2_and_nothing_written(run, files, tmp_path, case):
    arguments, sentence = REFUSED[case]
    (tmp_path / "notes.txt").write_text("words")
    (tmp_path / "empty").mkdir()
    (tmp_path / "taken.csv").mkdir()
    (tmp_path / "fake.npz").write_bytes((tmp_path / "logits.npy").read_bytes())
    (tmp_path / "cut.npy").write_bytes((tmp_path / "logits.npy").read_bytes()[:500])
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "manifest.json").write_text('{"schema": 99}')
    np.savez(tmp_path / "pickled.npz", logits=np.array([{}]), labels=np.zeros(1))
    np.savez(tmp_path / "lacking.npz", labels=np.zeros(1))
    np.save(tmp_path / "few.npy", [0, 1])
    before = contents(tmp_path)
    code, out, errors = run(*arguments)
    assert (code, out) == (2, "")
    assert len(errors) == 1
    assert errors[0].startswith(f"errata: {sentence}")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("command", ["score", "rank", "find"])
def test_changed_logits_are_refused_before_anything_is_written(run, files, tmp_path, command):
    whole = np.lib.format.open_memmap(tmp_path / "run" / "logits.npy", mode="r+")
    whole[3, 2] = 0
    whole.flush()
    before = contents(tmp_path)
    code, out, errors = run(command, "run", "--out", "new" if command == "find" else "new.csv")
    assert (code, out) == (2, "")
    assert errors == [
        f"errata: {tmp_path / 'run' / 'logits.npy'} is damaged: epoch 3 differs from what was recorded. "
        "Restore the file from a copy, or delete its folder and record the run again"
    ]
    assert contents(tmp_path) == before


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_full_disk_keeps_the_existing_file(run, files, tmp_path, suffix):
    run("score", "run", "--method", "Mean-CE")  # compile before the disk is full
    out = tmp_path / f"scores-before{suffix}"
    out.write_text("before")
    before = contents(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        code, _, errors = run("score", "run", "--method", "Mean-CE", "--out", out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 2
    assert len(errors) == 1
    assert re.match(r"errata: .* cannot be written: .*File too large", errors[0])
    assert contents(tmp_path) == before


def test_a_mistyped_command_gives_no_traceback(run):
    for arguments in (("scroe", "run"), ("score",), ("rank", "run", "--top", "-3"), ("score", "run", "--window", "1")):
        code, _, errors = run(*arguments)
        assert code == 2
        assert not any("Traceback" in line for line in errors)


def test_the_help_lists_every_command_in_the_order_of_a_users_work(run):
    _, out, _ = run("--help")
    assert tuple(re.findall(r"^│ ([a-z]+) ", out, re.MULTILINE)) == COMMANDS
    assert set(COMMANDS) == set(typer.main.get_command(app).commands)


def test_the_demonstration_names_a_missing_package_first(run, monkeypatch, tmp_path):
    monkeypatch.setattr("errata.extras.find_spec", lambda name: None)
    code, _, errors = run("demo")
    cpu = "(without a GPU, first: pip install torch --index-url https://download.pytorch.org/whl/cpu)"
    assert (code, errors) == (2, [f"errata: the demonstration needs torch: pip install 'errata[torch,plot]' {cpu}"])
    assert not list(tmp_path.iterdir())


def test_the_demonstration_finds_most_errors_and_writes_its_files(run, monkeypatch, tmp_path):
    monkeypatch.setattr("errata.cli.demo.EPOCHS", 20)  # enough to find them, a third of the time
    code, out, errors = run("demo", "--out", "shown")
    assert (code, errors) == (0, [])
    assert sorted(file.name for file in (tmp_path / "shown").iterdir()) == [
        "digits-budget-fnr.png",
        "digits-fnr.csv",
        "digits-ranking.csv",
    ]
    fnr = read(tmp_path / "shown" / "digits-fnr.csv")
    assert len(fnr) == 26  # the paper's methods and the default
    assert fnr["fnr"].is_monotonic_increasing
    missed = fnr.set_index("method")["fnr"]
    assert missed["default"] < missed["MeanProb-LM"] < 0.15
    ranking = read(tmp_path / "shown" / "digits-ranking.csv")
    count = ranking["truly_wrong"].sum()
    assert ranking["truly_wrong"].head(count).mean() > 0.85
    assert f"{count} of them wrongly labelled" in out
    assert (tmp_path / "shown" / "digits-budget-fnr.png").read_bytes().startswith(b"\x89PNG")


def test_messages_name_options_instead_of_python_parameters():
    assert (
        as_options("pass `data=`, `skip_bad=True` or `text='my title'`") == "pass --data, --skip-bad or --text my title"
    )


def test_the_version_is_printed(run):
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("errata ")


def test_characters_that_a_terminal_lacks_are_replaced(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))
    monkeypatch.setattr(sys, "argv", ["errata", "methods"])
    with pytest.raises(SystemExit):
        cli.main()
    print("schön")
    assert written.getvalue().endswith(b"sch?n\n")


def test_help_shows_flags_without_a_type(run):
    for words in (("find", "--help"), ("bench", "run", "--help"), ("--help",)):
        _, out, _ = run(*words)
        assert "--help" in out
        assert "bool" not in out
