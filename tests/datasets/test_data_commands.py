import subprocess
import sys
from functools import partial

import numpy as np
import pytest


@pytest.fixture
def run(errata_command, monkeypatch):
    monkeypatch.delenv("ERRATA_DATA", raising=False)
    return partial(errata_command, "data")


def test_list_shows_what_is_on_disk(run, tmp_path):
    code, out, _ = run("list", "--data-dir", tmp_path)
    assert code == 0
    rows = {line.split("│")[1].strip(): line for line in out.splitlines() if line.startswith("│")}
    assert rows["digits"].rstrip("│ ").endswith("yes")
    assert rows["letter"].rstrip("│ ").endswith("no")
    assert "15,000 / 5,000" in rows["letter"]
    assert "CC BY 4.0" in rows["letter"]


def test_a_dataset_without_files_is_checked_and_shown(run, tmp_path):
    code, out, _ = run("check", "digits")
    assert code == 0
    assert "ok   hash of inputs" in out
    code, out, _ = run("show", "digits", "--setting", "digits-pairflip-20", "--out", "sub/noise.svg")
    assert code == 0
    assert "293 labels are wrong" in out
    assert (tmp_path / "sub" / "noise.svg").read_text().lstrip().startswith("<?xml")
    code, out, _ = run("show", "digits")
    assert (tmp_path / "digits-symmetric-20-noise.png").read_bytes().startswith(b"\x89PNG")


def test_a_failed_check_is_named_and_gives_exit_code_1(run, tmp_path):
    (tmp_path / "letter").mkdir()
    (tmp_path / "letter" / "letter-recognition.data").write_text("A,1\n")
    code, out, _ = run("check", "letter", "--data-dir", tmp_path)
    assert code == 1
    assert "FAIL" in out.splitlines()[2]
    assert "1 check failed: letter" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("check",), "Name one dataset to check, or use --all"),
        (("check", "digits", "--all"), "Name one dataset to check, or use --all"),
        (("check", "digit"), "Did you mean 'digits'"),
        (("show", "digits", "--setting", "letter-symmetric-20"), "digits has no setting 'letter"),
        (("show", "digits", "--out", "noise.txt"), "must end in .png or .svg"),
        (("show", "letter"), "letter is not in"),
        (("fetch", "credit_fraud"), "cannot be downloaded automatically"),
        (("fetch", "clothing1m"), "cannot be downloaded automatically"),
    ],
)
def test_errors_are_one_line(run, arguments, sentence):
    code, _, err = run(*arguments)
    assert code == 2
    assert sentence in err
    assert err.startswith("errata: ")
    assert err.count("\n") == 1


def test_fetch_of_a_dataset_without_files(run):
    code, out, _ = run("fetch", "digits")
    assert code == 0
    assert "no file is needed" in out


def test_no_check_of_the_real_files_fails(real_data, own_cache):
    command = [sys.executable, "-m", "errata", "data", "check", "--all", "--data-dir", str(real_data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout
    assert "cannot be downloaded automatically" in done.stdout
    for line in ("split: 1,700 / 426", "split: 15,000 / 5,000", "split: 5,898 / 1,966", "split: 4,435 / 2,000"):
        assert f"ok   {line}" in done.stdout


def test_the_noise_figure_shows_the_contingency_matrix(real_data):
    from errata.datasets.loading import load_setting
    from errata.datasets.noise_figures import class_table, contingency, noise_figure

    labelled = load_setting("satellite-symmetric-20", real_data)
    counts = contingency(labelled)
    assert counts.sum() == 4435
    assert counts.sum() - np.trace(counts) == labelled.noise["count"]
    np.testing.assert_array_equal(counts.sum(axis=1), np.bincount(labelled.data.train_labels))
    np.testing.assert_array_equal(counts.sum(axis=0), class_table(labelled)["given"])
    shown = noise_figure(labelled).axes[0].images[0].get_array()
    assert np.ma.getmaskarray(shown).trace() == 6
    assert shown.max() == pytest.approx((counts / counts.sum(axis=1, keepdims=True))[~np.eye(6, dtype=bool)].max())


def test_inspect_describes_user_data_and_skips_bad_images_on_request(run, tmp_path):
    from PIL import Image

    table = "name,size,kind\n" + "\n".join(f"n{row},{row * 7 % 13},{'ab'[row % 2]}" for row in range(40))
    (tmp_path / "own.csv").write_text(table)
    code, out, _ = run("inspect", "own.csv", "--label", "kind")
    assert code == 0
    assert "40 samples in 2 classes, table" in out
    assert "size" in out
    code, _, err = run("inspect", "own.csv", "--label", "knd")
    assert code == 2
    assert "kind" in err
    for name in ("cat", "dog"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (40, 30), (number * 50, 0, 0)).save(tmp_path / "pictures" / name / f"{number}.png")
    (tmp_path / "pictures" / "dog" / "broken.png").write_bytes(b"not an image")
    code, _, err = run("inspect", "pictures")
    assert code == 2
    assert "broken.png" in err
    code, out, _ = run("inspect", "pictures", "--skip-bad")
    assert code == 0
    assert "6 samples in 2 classes" in out
    assert "broken.png" in out
