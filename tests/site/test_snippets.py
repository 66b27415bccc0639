"""Every command and every Python block of the README and the pages, run in a folder with small example files."""

import ast
import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.request import urlopen

import example_files
import pytest
import typer

from errata import cli

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))]
TEXT = {
    page: (ROOT / page).read_text(encoding="utf-8")
    for page in PAGES
    if not page.startswith(("docs/generated", "docs/gallery"))
}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

# These pages have a test of their own, which runs what they show and compares what it gives.
PYTHON_TESTED_ELSEWHERE = {
    "README.md": "tests/test_readme.py",
    "docs/training-loop.md": "tests/integrations/test_distributed.py",
    "docs/boosting.md": "tests/integrations/test_docs.py",
    "docs/exports.md": "tests/review/test_exports.py",
    "docs/integrations.md": "tests/frameworks/test_docs.py",
    "docs/scale.md": "tests/frameworks/test_s3_shards.py",
}
# Of these commands only the options are checked, because they need more than a test has.
ONLY_CHECKED = {
    "errata bench run": "hours of training",
    "errata bench choose": "hours of training",
    "errata bench tune": "hours of training",
    "errata data fetch": "a network",
    "errata data check --all": "the datasets of the benchmark",
    "errata data show": "the datasets of the benchmark",
    "errata apply data.csv --decisions decisions.csv --at-most-wrong": "hundreds of errors; tests/review has them",
    "errata export errata-out --to fiftyone": "images; tests/review exports some",
    "errata find reviews.csv --label sentiment --backbone": "a downloaded model; tests/frameworks makes one",
    "errata score s3://bucket/run": "an S3 server; tests/frameworks starts one",
    "python": "hours of training; the script is run until it has parsed its arguments",
    "make": "minutes; .ci/run calls it",
    "pip": "a network; tests/package installs the package",
}


def blocks(text: str, *languages: str) -> list[str]:
    """The code blocks of these languages."""
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    """The commands of all blocks, one per line."""
    joined = "\n".join(blocks(text, "sh", "bash", "console")).replace("\\\n", " ")
    lines = [line.removeprefix("$ ").strip() for line in joined.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def only_checked(command: str) -> bool:
    return any(command.startswith(prefix) for prefix in ONLY_CHECKED)


@pytest.fixture(scope="session")
def example_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    example_files.write(folder)
    return folder


@pytest.fixture
def folder(example_folder, tmp_path, monkeypatch):
    """A copy of the example files, which is the working directory."""
    shutil.copytree(example_folder, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "work"


def run(command: str) -> None:
    """Run a command in the working directory. It must succeed."""
    if command.startswith("errata find") and "--out" not in command:
        shutil.rmtree("errata-out", ignore_errors=True)  # errata refuses to replace the results of other data
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}"


def serve(command: str) -> None:
    """Run `errata review`: it must serve a page at each of its links."""
    with socket.socket() as free:  # the usual port may be taken on this machine
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [*shlex.split(command, comments=True), "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    printed, links = "", []
    while len(links) < command.count("--reviewer"):
        line = process.stdout.readline()
        assert line, f"{command}\n{printed}"
        printed += line
        links += re.findall(r"http://\S+", line)
    for link in links:
        assert urlopen(link).status == 200
    process.terminate()
    process.communicate()


@pytest.mark.parametrize("page", [name for name, text in TEXT.items() if commands(text)])
def test_every_command_runs(page, folder):
    for command in commands(TEXT[page]):
        if command.startswith("errata review"):
            serve(command)
        elif not only_checked(command):
            run(command)


@pytest.mark.parametrize("command", re.findall(r"^\| .* \| `(errata find [^`]+)`", TEXT["README.md"], re.MULTILINE))
def test_the_commands_in_the_table_of_the_readme_run(command, folder):
    run(command)


@pytest.mark.parametrize(
    "page", [name for name, text in TEXT.items() if blocks(text, "python") and name not in PYTHON_TESTED_ELSEWHERE]
)
@pytest.mark.filterwarnings("ignore")
def test_every_python_block_runs(page, folder, capsys):
    names = {"__name__": "__main__"}
    for block in blocks(TEXT[page], "python"):
        exec(block, names)
        printed = capsys.readouterr().out
        assert ("errata.rank(" in block) <= ("suggested" in printed), block


# Runs a script or a module until it has parsed its arguments.
PARSE = """
import argparse, runpy, sys
parse = argparse.ArgumentParser.parse_args
def parse_and_stop(*arguments):
    parse(*arguments)
    sys.exit(0)
argparse.ArgumentParser.parse_args = parse_and_stop
run = runpy.run_module if sys.argv[1] == "-m" else runpy.run_path
name, sys.argv = sys.argv[2], sys.argv[2:]
sys.path.insert(0, str(__import__("pathlib").Path(name).parent))
run(name, run_name="__main__")
"""


def python_problems(words: list[str]) -> list[str]:
    """What a command of Python names that is missing (modules, a script), and arguments that it does not accept."""
    if words[0] == "-c":
        names = [node.module for node in ast.walk(ast.parse(words[1])) if isinstance(node, ast.ImportFrom)]
        return [name for name in names if importlib.util.find_spec(name or "") is None]
    kind, words = ("-m", words[1:]) if words[0] == "-m" else ("script", words)
    file = ROOT / words[0] if kind == "script" else ROOT / "tests" / words[0].replace(".", "/") / "__main__.py"
    if not file.is_file():
        # Walk-throughs of CONTRIBUTING.md and blocks of a page write these files.
        return [] if any(f"`{words[0]}`" in text for text in TEXT.values()) else [words[0]]
    source = file.read_text(encoding="utf-8")
    compile(source, file, "exec")
    if "argparse" not in source:
        return [word for word in words[1:] if word.startswith("--") and f'"{word}"' not in source]
    path = os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests", "benchmarks"))
    done = subprocess.run(
        [sys.executable, "-c", PARSE, kind, *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    return [] if done.returncode == 0 else [done.stderr]


def problems(command: str) -> list[str]:
    """What a command names that does not exist: subcommands, options, targets of make, scripts, extras."""
    words = shlex.split(command, comments=True)
    while re.match(r"[A-Z_]+=", words[0]):  # variables of the environment
        words = words[1:]
    if words[0] == "make":
        targets = re.findall(r"^(\S+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return [word for word in words[1:] if word not in targets]
    if words[0] == "python":
        return python_problems(words[1:])
    if words[0] == "pip":
        return [extra for extra in re.findall(r"\[(.+?)\]", command) if not set(extra.split(",")) <= set(EXTRAS)]
    if words[0] != "errata":
        return []
    known, words = typer.main.get_command(cli.app.app), words[1:]
    while words and words[0] in getattr(known, "commands", {}):
        known = known.commands[words.pop(0)]
    if getattr(known, "commands", {}) and words and not words[0].startswith("-"):
        return words[:1]
    options = {"--help", *(name for parameter in known.params for name in parameter.opts + parameter.secondary_opts)}
    return [word for word in words if word.startswith("-") and word.partition("=")[0] not in options]


@pytest.mark.parametrize("page", TEXT)
def test_every_command_and_option_exists(page):
    without_blocks = re.sub(r"^```.*?^```", "", TEXT[page], flags=re.DOTALL | re.MULTILINE)
    inline = re.findall(r"`((?:[A-Z_]+=\S+ )*(?:errata|make|pip install|python) [^`\n]+)`", without_blocks)
    named = commands(TEXT[page]) + [text.replace(" ...", "") for text in inline]
    assert {command: found for command in named if (found := problems(command))} == {}


def test_every_exception_is_needed():
    everything = [command for text in TEXT.values() for command in commands(text)]
    for prefix in ONLY_CHECKED:
        assert any(command.startswith(prefix) for command in everything), prefix
    for page, test in PYTHON_TESTED_ELSEWHERE.items():
        assert blocks(TEXT[page], "python"), page
        assert (ROOT / test).exists(), test
