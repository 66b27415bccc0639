"""The page of all error messages, from the `raise` statements in the source."""

import ast
from collections import defaultdict
from pathlib import Path

ERRORS = ("InputError", "StoreError", "DataError", "MissingDataError")

# The area of a message is the longest of these that its module starts with: a title, and what to do in general.
AREAS = {
    "readers": ("Reading your data", "Correct the file, or choose other options: `errata find --help` lists them. The message "
        "names the file, and the column or row. Nothing has been written."),
    "image_decoding": ("Reading your data", ""),
    "memory": ("Memory", "The work has not started. Use fewer samples, or a machine with more memory. For a recording, "
        "`keep=\"stream\"` keeps running sums instead of all logits."),
    "finding": ("Finding wrong labels", "Nothing of an earlier result is lost. Correct the argument that the message names and run "
        "the same command again; finished parts are reused."),
    "training": ("Training a model", "Check the name of the model, the device and the backbone. `--device cpu` always works."),
    "dynamics": ("Recorded runs", "Complete epochs in the folder are safe. `resume=True` continues a run after its last complete "
        "epoch; `overwrite=True` replaces it; `errata.Dynamics.open(path).verify()` names a damaged epoch."),
    "integrations": ("Recorders of frameworks", "[Integrations](../integrations.md) has a working script for every framework. "
        "Compare yours with it: the recorder must see every sample once per epoch."),
    "core": ("Arrays, methods and metrics", "Check the shape and the type of the argument against the [reference](../reference/index.md)."
        " `errata methods` lists all names of methods."),
    "compat": ("Arrays, methods and metrics", ""),
    "discovery": ("Add-ons", "A component of another package, or a new file, is not complete. Compare it with the walk-through in "
        "[contributing](../contributing.md)."),
    "extras": ("Packages that are not installed", "Run the `pip install` command of the message. "
        "[Installation](../installation.md) says which extra is for what."),
    "ray_cluster": ("Ray clusters", "Check the address and that every node has the same versions of errata, Python and Ray. Nothing has been "
        "written; without `--ray` the same command runs on this machine."),
    "locks": ("Two processes at once", "Wait until the other process has ended, or use another folder. The lock of a process that was "
        "killed is released by itself."),
    "report": ("Finding wrong labels", ""),
    "review": ("Review, certify, apply and export", "The data and the decisions are unchanged. Correct the file of decisions or the option "
        "that the message names, and run the command again."),
    "review.server": ("The review server", "No verdict is lost: those that were not stored stay in the browser and are sent again."),
    "datasets": ("Datasets of the benchmark", "`errata data list` shows where each dataset comes from, and `errata data check NAME` "
        "what is missing. Set `ERRATA_DATA` to the folder that holds the datasets."),
    "bench": ("The benchmark", "`errata bench list` shows the settings. Results that are stored are never changed by an error."),
    "cli": ("Command line", "`errata COMMAND --help` lists the options."),
    "terminal": ("Command line", ""),
    "version": ("Command line", ""),
    "wording": ("Command line", ""),
}  # fmt: skip

BEGIN = """# Error messages

errata checks its input before work starts. Each error is one sentence that says what is wrong, and where. In Python it is an
`errata.InputError` (also a `ValueError`) or an `errata.StoreError` (also an `OSError`); both are an `errata.ErrataError`. On the command
line it is one line on standard error, and Python parameters (`id=`) are shown as options (`--id`).

This page is made from the source. `…` stands for a value: a name, a number or a path. Each part begins with what to do; most
messages also say it themselves.

"""


def messages(source: Path) -> dict[str, list[tuple[str, str]]]:
    """The messages of each title, with the kind of error, without repetitions, in the order of the source."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for file in sorted(source.rglob("*.py")):
        module = ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(file.read_text(encoding="utf-8"))
        texts = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in ERRORS):
                continue
            for text in _texts(node.args[0], texts):
                entry = (ast.unparse(node.func), text)
                if entry not in found[area(module)]:
                    found[area(module)].append(entry)
    return found


def area(module: str) -> str:
    """The title for a module such as `readers.formats.csv_files`."""
    names = [name for name in AREAS if module == name or module.startswith(f"{name}.")]
    return AREAS[max(names, key=len)][0]


def _texts(node: ast.expr, assigned: dict[str, ast.expr]) -> list[str]:
    """The texts that an expression may have, with … for values."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        texts = [""]
        for part in node.values:
            ends = _texts(part, assigned) if isinstance(part, ast.Constant) else ["…"]
            texts = [text + end for text in texts for end in ends]
        return texts
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = (_texts(side, assigned) or ["…"] for side in (node.left, node.right))
        return [first + second for first in left for second in right]
    if isinstance(node, ast.IfExp):
        return _texts(node.body, assigned) + _texts(node.orelse, assigned)
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in _texts(value, assigned)]
    if isinstance(node, ast.Name) and node.id in assigned:
        return _texts(assigned.pop(node.id), assigned)
    return []


def page(source: Path) -> str:
    """The page in Markdown."""
    found = messages(source)
    lines = []
    for title in dict.fromkeys(title for title, _ in AREAS.values()):
        if not found[title]:
            continue
        advice = next(text for name, text in AREAS.values() if name == title and text)
        lines += [f"## {title}", "", f"**What to do.** {advice}", ""]
        lines += [
            f"- {_code(text)}" for _, text in sorted(found[title], key=lambda entry: entry[1].lstrip("… ").lower())
        ]
        lines.append("")
    return BEGIN + "\n".join(lines)


def _code(text: str) -> str:
    """The text in a literal of one line."""
    text = " ".join(text.split())
    fence = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"
