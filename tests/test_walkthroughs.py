"""CONTRIBUTING.md's walk-throughs, followed literally: each file is written, each command run, each output compared."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COPIED = ("src", "tests/conftest.py", "tests/contracts", "pyproject.toml")
BLOCK = re.compile(r"(?P<before>[^\n]*)\n\n```(?P<language>\w+)\n(?P<text>.*?)\n```", re.DOTALL)
FILE = re.compile(r"(?P<action>Create|Append to) `(?P<path>[^`]+)`")


@dataclass(frozen=True)
class Walkthrough:
    """A section of the page. blocks: the line before each code block, its language and its text."""

    title: str
    blocks: tuple[tuple[str, str, str], ...]


def walkthroughs() -> list[Walkthrough]:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    part = page.partition("\n## Walk-throughs\n")[2].partition("\n## ")[0]
    sections = [section.partition("\n") for section in re.split(r"^### ", part, flags=re.MULTILINE)[1:]]
    return [Walkthrough(title, tuple(BLOCK.findall(text))) for title, _, text in sections]


@pytest.fixture
def repository(tmp_path):
    """A copy of the repository that a walk-through may change."""
    for name in COPIED:
        target = tmp_path / "errata" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, target)
    return tmp_path / "errata"


def run(command: str, folder: Path) -> str:
    """The output of a shell command in the copy of the repository, whose errata it uses."""
    installed = folder / "installed"
    options = f"--quiet --no-deps --no-build-isolation --no-index --target {installed}"
    command = re.sub(r"^pip install ", f"python -m pip install {options} ", command)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, (folder / "src", installed))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "ERRATA_DATA": str(folder / "data"),
    }
    ran = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    return ran.stdout + ran.stderr


def without_borders(text: str) -> list[str]:
    """The lines of an output, with single spaces and without the borders of tables."""
    return [" ".join(re.sub("[│┃]", " ", line).split()) for line in text.splitlines()]


def assert_shown(expected: list[str], output: str, command: str) -> None:
    """Each expected line is a line of the output, in this order; `...` stands for any text."""
    lines = iter(without_borders(output))
    for line in without_borders("\n".join(expected)):
        pattern = ".*".join(map(re.escape, line.split("...")))
        assert any(re.fullmatch(pattern, shown) for shown in lines), f"{command}\ndoes not show\n{line}\nbut\n{output}"


def follow(walkthrough: Walkthrough, folder: Path) -> int:
    """Write the files and run the commands of a walk-through. Returns the number of outputs compared."""
    compared = 0
    for before, language, text in walkthrough.blocks:
        if language == "console":
            for command, *expected in (entry.splitlines() for entry in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]):
                assert_shown(expected, run(command, folder), command)
                compared += bool(expected)
        else:
            named = FILE.search(before)
            assert named, f"no file is named before the block\n{text}"
            path = folder / named["path"]
            assert path.exists() == (named["action"] == "Append to"), path
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(f"\n\n{text}\n" if path.exists() and path.stat().st_size else f"{text}\n")
    return compared


@pytest.mark.parametrize("walkthrough", walkthroughs(), ids=lambda walkthrough: walkthrough.title)
def test_a_walkthrough_does_what_it_says(walkthrough, repository):
    assert follow(walkthrough, repository) > 0


def test_there_is_a_walkthrough_for_everything_that_registers():
    titles = " ".join(walkthrough.title for walkthrough in walkthroughs())
    for kind in ("measure", "aggregation", "step", "detector", "dataset", "recorder", "file format"):
        assert kind in titles


def test_every_code_block_of_a_walkthrough_is_followed():
    page = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Walk-throughs\n")[2].partition("\n## ")[0]
    assert page.count("```") == 2 * sum(len(walkthrough.blocks) for walkthrough in walkthroughs())
