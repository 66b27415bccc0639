"""Names and layers of the whole package: one meaning per name, imports downwards only, every package described."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "errata"
FILES = sorted(SOURCE.rglob("*.py"))
PACKAGES = sorted(file.parent for file in SOURCE.rglob("__init__.py") if file.parent != SOURCE)
TREES = {file: ast.parse(file.read_text()) for file in FILES}

# Metaphors, and names that say nothing about the value: a name says what it holds, as `label_agreement` does.
BANNED = {
    *("told", "said", "heard", "asked", "believed", "wanted", "named", "come_round", "taken_back", "turned"),
    *("amid_first_half", "Wanted", "Named", "How", "Desk", "Silence"),
}


def layers() -> list[list[str]]:
    """The layers of the import contract, from the top to the bottom; the modules of one layer are listed together."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    contract = next(contract for contract in contracts if contract["type"] == "layers")
    assert contract["exhaustive"]
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


LISTED = [name for layer in layers() for name in layer]


def height(module: str) -> int:
    """The number of layers at or below that of a module of errata, such as `core.metrics`."""
    top = module.split(".")[0]
    return next(len(layers()) - index for index, names in enumerate(layers()) if top in names)


def dotted(file: Path) -> str:
    """The module of a file without `errata.`: `core.metrics`, or empty for `errata/__init__.py`."""
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def where(file: Path, node: ast.AST) -> str:
    return f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def test_the_contract_lists_every_package_and_root_module():
    present = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path in PACKAGES} - {"__init__"}
    assert sorted(LISTED) == sorted(present)


def test_contributing_describes_every_layer_in_the_order_of_the_contract():
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Layers")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `errata\.(\w+)` \| (.+) \|$", text, flags=re.MULTILINE)
    names = [name for name, _ in rows]
    assert all(len(description) > 10 for _, description in rows)
    assert sorted(names) == sorted(set(LISTED) - {"__main__"})
    assert names == sorted(names, key=height, reverse=True)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.relative_to(SOURCE).as_posix())
def test_every_package_says_what_it_contains_and_who_may_import_it(package):
    docstring = ast.get_docstring(TREES[package / "__init__.py"]) or ""
    assert len([line for line in docstring.splitlines() if line.strip()]) >= 3


def test_only_the_command_line_imports_the_root_of_the_package():
    """`errata/__init__.py` imports from every layer, so an import of it is a way around the contract."""
    imports = [
        where(file, node)
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and any(alias.name == "errata" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module == "errata" or node.level))
    ]
    assert [place for place in imports if not place.startswith(("src/errata/__init__.py", "src/errata/cli/"))] == []


def test_no_string_names_a_module_of_a_higher_layer():
    """Such a string would be an import that the contract does not see: `import_module("errata.training.models")`."""
    found = [
        f"{where(file, node)} {node.value}"
        for file, tree in TREES.items()
        if file != SOURCE / "__init__.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for match in [re.fullmatch(r"errata\.(\w*)[\w.]*", node.value)]  # in an f-string this is the part before {
        if match and (match[1] in LISTED or not match[1])
        if not match[1] or height(match[1]) > height(dotted(file))
    ]
    assert found == []


def test_a_module_name_is_put_together_only_inside_its_own_package():
    """A registry scans its own package. All other names in `import_module` are literals, which the test above reads."""
    calls = [
        (file, call.args[0])
        for file, tree in TREES.items()
        if file != SOURCE / "__init__.py"
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in ("import_module", "__import__")
    ]
    assert [where(file, name) for file, name in calls if not _is_whole_or_in_own_package(file, name)] == []


def _is_whole_or_in_own_package(file: Path, name: ast.expr) -> bool:
    if not isinstance(name, ast.JoinedStr):
        return not isinstance(name, ast.BinOp)
    own_package = "errata." + dotted(file.parent / "__init__.py")
    return re.match(rf"f'({re.escape(own_package)}|{{(\w+\.)?__name__}})\.", ast.unparse(name)) is not None


def test_files_are_short():
    """A longer file usually holds two ideas."""
    lines = {str(file.relative_to(SOURCE)): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {name: count for name, count in lines.items() if count > 350} == {}


def test_a_module_name_means_one_thing():
    places = defaultdict(list)
    for file in FILES:
        if not file.stem.startswith("_"):
            places[file.stem].append(str(file.relative_to(SOURCE)))
    assert [files for files in places.values() if len(files) > 1] == []


def test_a_class_name_means_one_thing():
    places = defaultdict(list)
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(where(file, node))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_texts_are_plain_words():
    """Metaphors, and phrases that need a second reading; CONTRIBUTING has an example of what not to write."""
    stumbles = re.compile(
        r"\b(told|heard|believe[sd]?|comes? round|came round|taken back|turned against|amid|so many|of which)\b",
        re.IGNORECASE,
    )
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    generated = {ROOT / "docs" / name for name in ("generated", "gallery")}
    found = [
        f"{file.relative_to(ROOT)}:{number} {line.strip()}"
        for file in [*FILES, *pages]
        if not generated.intersection(file.parents)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if stumbles.search(line) and "not `told`" not in line
    ]
    assert found == []


def test_names_are_plain_words():
    assert [f"{where(file, node)} {name}" for file, node, name in _names() if name.strip("_") in BANNED] == []


def _names() -> Iterator[tuple[Path, ast.AST, str]]:
    """Every name that the code of the package defines or uses."""
    for file, tree in TREES.items():
        yield file, tree, file.stem
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                yield file, node, node.id
            elif isinstance(node, ast.arg):
                yield file, node, node.arg
            elif isinstance(node, ast.Attribute):
                yield file, node, node.attr
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield file, node, node.name
            elif isinstance(node, ast.alias):
                yield file, node, node.asname or node.name.rpartition(".")[2]


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").rglob("*.py")), ids=lambda path: path.name)
def test_benchmarks_import_only_names_that_other_benchmarks_have(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        for folder in (path.parent, ROOT / "benchmarks"):
            module = folder / f"{node.module}.py"
            if module.is_file():
                names = {alias.name for alias in node.names}
                assert names <= _names_defined_in(module), f"{path.name} imports what {module.name} lacks"
                break


def _names_defined_in(module: Path) -> set[str]:
    names = set()
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        else:
            names |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    return names
