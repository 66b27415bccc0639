"""The pins of `make test` and `make test-lowest` follow the requirements in pyproject.toml."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
TOOLS = {"build", "hatchling", "hypothesis", "playwright", "pytest", "pytest-xdist"}  # any version will do


def requirements(*extras: str) -> dict[str, Requirement]:
    """The requirements of errata with these extras, by package name; extras of errata itself are resolved."""
    found = {}
    for text in [*PROJECT["dependencies"], *(text for extra in extras for text in EXTRAS[extra])]:
        requirement = Requirement(text)
        if requirement.name == "errata":
            found |= requirements(*requirement.extras)
        else:
            found[canonicalize_name(requirement.name)] = requirement
    return found


def pins(file: str) -> dict[str, Version]:
    lines = [line.split("==") for line in (ROOT / file).read_text().splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in lines}


def lowest(requirement: Requirement) -> Version:
    """The version after `>=` or `==`."""
    (specifier,) = requirement.specifier
    assert specifier.operator in (">=", "==")
    return Version(specifier.version)


def test_the_lowest_versions_tested_are_those_that_are_declared():
    declared = {name: lowest(requirement) for name, requirement in requirements("test").items() if name not in TOOLS}
    exact = {name for name, requirement in requirements("test").items() if "==" in str(requirement.specifier)}
    tested = pins("constraints-lowest.txt")
    assert tested.pop("torch") == pins("constraints.txt")["torch"] >= declared.pop("torch")  # one build of torch only
    assert tested == {name: version for name, version in declared.items() if name not in exact}


def test_every_requirement_is_pinned_to_a_version_that_it_allows():
    pinned = pins("constraints.txt")
    for name, requirement in requirements("dev", "frameworks").items():
        assert requirement.specifier.contains(pinned[name]), name


def test_pins_are_sorted_by_name():
    for file in ("constraints.txt", "constraints-lowest.txt"):
        lines = [line for line in (ROOT / file).read_text().splitlines() if not line.startswith("#")]
        assert lines == sorted(lines, key=lambda line: line.split("==")[0].lower()), file
