"""The wheel and the source distribution contain the package, and neither measured results nor tests."""

import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = {
    path.relative_to(ROOT / "src").as_posix()
    for path in (ROOT / "src" / "errata").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("dist")


@pytest.fixture
def build(folder, monkeypatch):
    from hatchling import build

    monkeypatch.chdir(ROOT)
    return build


def test_the_wheel_contains_the_package_only(build, folder):
    with zipfile.ZipFile(folder / build.build_wheel(str(folder))) as wheel:
        members = set(wheel.namelist())
    assert {name for name in members if ".dist-info/" not in name} == PACKAGE


def test_the_sdist_contains_the_package_and_what_describes_it(build, folder):
    with tarfile.open(folder / build.build_sdist(str(folder))) as sdist:
        members = {name.partition("/")[2] for name in sdist.getnames()}
    described = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore", "PKG-INFO"}
    assert members - described == {f"src/{name}" for name in PACKAGE}
