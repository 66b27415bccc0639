"""The wheel and the sdist in empty environments: what works without torch, and the commands of the README."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

ROOT = Path(__file__).parents[2]
WITHOUT_TORCH = """
import errata, numpy as np
rng = np.random.default_rng(0)
labels = rng.integers(0, 3, 200)
recorder = errata.Recorder(labels=labels, num_classes=3)
for epoch in range(5):
    recorder.update_all(rng.normal(size=(200, 3)) + epoch * np.eye(3)[labels])
    recorder.end_epoch()
dynamics = recorder.finish()
assert len(errata.rank(dynamics)) == 200
assert errata.score(dynamics, "MeanProb-LM").shape == (200,)
import sys
assert "torch" not in sys.modules
try:
    errata.find(rng.normal(size=(60, 4)), rng.integers(0, 2, 60), model="mlp")
except errata.InputError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], check=True, capture_output=True
    )
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


def environment(folder, *pip_arguments, shared=False):
    """The bin folder of a new environment. shared: with the dependencies of the tests, without a download."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    if shared:
        here = [path for path in sys.path if path.endswith("site-packages")] or [sysconfig.get_path("purelib")]
        purelib = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        (purelib / "dependencies.pth").write_text("\n".join(here))
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-compile"]
    install = [sys.executable, "-m", "pip", "--python", python, "install", *options, *pip_arguments]
    subprocess.run(install, check=True, capture_output=True, text=True)
    return folder / "bin"


def output(command, folder):
    """What a command prints in a folder. It must succeed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    return ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def bare(packages, tmp_path_factory):
    """`pip install errata` alone, with the pinned versions."""
    return environment(tmp_path_factory.mktemp("bare"), "-c", ROOT / "constraints.txt", packages["wheel"])


def test_the_base_install_scores_ranks_and_records_without_torch(bare, tmp_path):
    printed = output([bare / "python", "-c", WITHOUT_TORCH], tmp_path)
    assert re.search(r"needs torch: pip install 'errata\[\w+\]'", printed)


def test_the_commands_of_the_base_install_work_on_logits(bare, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "logits.npy", rng.normal(size=(4, 50, 3)).astype(np.float32))
    np.save(tmp_path / "labels.npy", rng.integers(0, 3, 50))
    arrays = ["logits.npy", "--labels", "labels.npy"]
    output([bare / "errata", "score", *arrays, "--method", "Mean-CE", "--out", "scores.parquet"], tmp_path)
    assert len(pd.read_parquet(tmp_path / "scores.parquet")) == 50
    assert "MeanProb" in output([bare / "errata", "rank", *arrays, "--top", "3"], tmp_path)


def test_a_table_without_the_find_extra_gets_one_sentence(bare, tmp_path):
    load_iris(as_frame=True).frame.to_csv(tmp_path / "flowers.csv", index=False)
    ran = subprocess.run(
        [bare / "errata", "find", "flowers.csv", "--label", "target"], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert "pip install 'errata[find]' (without a GPU, first: pip install torch --index-url" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_photographs_without_an_extra_ask_for_the_extra_of_images_at_once(bare, tmp_path):
    for row in range(2):
        (tmp_path / "photos" / f"class{row}").mkdir(parents=True)
        (tmp_path / "photos" / f"class{row}" / "one.png").write_bytes(b"")
    ran = subprocess.run([bare / "errata", "find", "photos"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 2
    assert "pip install 'errata[images]' (without a GPU, first: pip install torch --index-url" in ran.stderr


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_commands_of_the_readme_work_from_the_installed_package(kind, packages, tmp_path):
    if kind == "wheel":
        programs = environment(tmp_path / "env", "-c", ROOT / "constraints.txt", f"{packages[kind]}[find]")
    else:  # the same dependencies need not be installed a second time
        options = ["--no-deps", "--ignore-installed", "--no-build-isolation"]
        programs = environment(tmp_path / "env", *options, packages[kind], shared=True)
    assert str(tmp_path) in output([programs / "python", "-c", "import errata; print(errata.__file__)"], tmp_path)
    iris = load_iris(as_frame=True)
    flowers = iris.data.assign(species=iris.target_names[iris.target])
    flowers.loc[3, "species"] = "virginica"
    flowers.to_csv(tmp_path / "flowers.csv", index=False)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = ["errata find flowers.csv --label species"]
    commands += [
        line.partition("#")[0].strip()
        for line in readme.splitlines()
        if re.match(r"errata (apply|certify|export) ", line)
    ]
    assert commands[0] in readme
    assert len(commands) == 4
    for number, command in enumerate(commands):
        output([programs / "errata", *command.split()[1:]], tmp_path)
        if number == 0:
            decisions = pd.read_csv(tmp_path / "errata-out" / "ranking.csv").head(1)
            decisions = decisions.assign(decision="relabel", new_label="setosa")[
                ["id", "label", "decision", "new_label"]
            ]
            decisions.to_csv(tmp_path / "decisions.csv", index=False)
    assert pd.read_csv(tmp_path / "flowers.corrected.csv")["species"][3] == "setosa"
    if kind == "wheel":  # the sdist has the same code, and shares the environment of the tests
        check_texts_logits_and_help(programs, tmp_path)


def check_texts_logits_and_help(programs, folder):
    """`errata find` ranks texts and saved logits; every command has its help, `errata review` without its extra too."""
    rng = np.random.default_rng(0)
    words = {"good": ["great", "fine", "loved"], "bad": ["poor", "awful", "hated"]}
    given = rng.choice(list(words), 80)
    texts = [" ".join([*rng.choice(words[name], 2), *rng.choice(["the", "film", "was", "long"], 6)]) for name in given]
    pd.DataFrame({"text": texts, "sentiment": given}).to_csv(folder / "reviews.csv", index=False)
    find = [programs / "errata", "find"]
    output([*find, "reviews.csv", "--label", "sentiment", "--out", "texts-out"], folder)
    np.savez(folder / "logits.npz", logits=rng.normal(size=(4, 80, 2)), labels=rng.integers(0, 2, 80))
    output([*find, "logits.npz", "--out", "logits-out"], folder)
    for result in ("texts-out", "logits-out"):
        assert len(pd.read_csv(folder / result / "ranking.csv")) == 80
    assert "--reviewer" in output([programs / "errata", "review", "--help"], folder)


def test_the_version_is_defined_in_one_place(packages):
    """pyproject.toml states it; errata reads the installed metadata."""
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert packages["wheel"].name.startswith(f"errata-{version}-")
    files = [*(ROOT / "src").rglob("*.py"), ROOT / "CITATION.cff", ROOT / "docs" / "conf.py"]
    assert [path for path in files if version in path.read_text(encoding="utf-8")] == []
