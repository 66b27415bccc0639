"""Wrong arguments of every command, one at a time. The options are read from the command line itself."""

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

from torture import environments
from torture.cases import Case, Expected, case_attacks
from torture.environments import prepare, run
from torture.scenarios import DIGITS
from torture.tally import Attack
from torture.written_folders import template

PART = "wrong arguments"
PER_OPTION = 3  # values tried for each option, taken in turn from its list
LONG = "x" * 5000
LONGEST = 40_000  # a message may repeat the long value
HUGE = str(2**64)
NUMBERS = ("nan", "-1", HUGE, "", "1e999", "0", LONG, "x", " ", "٣", "1_000", "0x10")
WORDS = ("", "naïve ☃", LONG, "\udcff", " ", "nan", "-1", "a\nb", "../..", "0", HUGE, "--", "\x1b[31m")
PATHS = (
    "",
    "missing/deep/x",
    LONG,
    "\udcff",
    "folder",
    "file",
    " ",
    "ä ☃\n.csv",
    "/dev/null",
    "file/x.csv",
    "nan",
    "a.xyz",
)
FIND = ("find", "data.csv", "--label", "label", "--model", "mlp", "--device", "cpu")
BASES: dict[str, tuple[str, ...]] = {
    "apply": ("data.csv", "--label", "label", "--decisions", "decisions.csv"),
    "export": ("errata-out", "--to", "cleanlab"),
    "find": ("logits.npz",),
    "methods": (),
    "review": ("errata-out", "--export", "out.csv"),
    "score": ("logits.npz", "--method", "Mean-CE"),
    "rank": ("logits.npz",),
    "choose": ("choose.npz", "--max-epochs", "1", "--device", "cpu"),
    "data list": (),
    "data fetch": ("digits",),
    "data check": ("digits",),
    "data show": ("digits",),
    "data inspect": ("data.csv", "--label", "label"),
    "bench list": (),
    "bench run": ("--setting", DIGITS, "--device", "cpu", "--seeds", "1", "--gathering", "in-sample"),
    "bench tune": ("--setting", DIGITS, "--device", "cpu", "--seeds", "1"),
    "bench pack": (),
    "bench table": ("operating-point", "--setting", DIGITS),
    "bench compare": (),
    "bench rank": ("--setting", DIGITS),
    "bench report": (),
}
LEFT_OUT = {"demo"}  # trains for long; see SPECIFIC
SERVERS = {"review"}  # without arguments, they run until they are stopped


def commands() -> Iterator[tuple[str, Any]]:
    """The name and the object of every command."""
    import typer

    import errata.cli  # noqa: F401  # registers the commands
    from errata.cli.app import app

    def walk(group: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, one in group.commands.items():
            if hasattr(one, "commands"):
                yield from walk(one, (*names, name))
            else:
                yield " ".join((*names, name)), one

    return walk(typer.main.get_command(app), ())


def _annotation(parameter: Any) -> str:
    """The type of a parameter as text; before version 0.27 of typer, that of click."""
    descriptor = getattr(parameter, "type_descriptor", None)
    return repr(parameter.type) if descriptor is None else str(descriptor.annotation)


def _values(parameter: Any) -> tuple[str, ...]:
    annotation = _annotation(parameter)
    if "Path" in annotation:
        return PATHS
    return NUMBERS if any(kind in annotation.lower() for kind in ("int", "float")) else WORDS


def _is_flag(parameter: Any) -> bool:
    return bool(getattr(parameter, "is_flag", False)) or "bool" in _annotation(parameter).lower()


def _with_option(base: tuple[str, ...], option: str, values: list[str]) -> list[str]:
    """The valid arguments with one option replaced or added."""
    words = list(base)
    if option in words:
        place = words.index(option)
        del words[place : place + 2]
    return [*words, option, *values]


def cases() -> Iterator[Case]:
    """All wrong arguments."""
    template()
    for name, one in commands():
        words = tuple(name.split())
        yield _case(f"{name} --help", [*words, "--help"], "read", longest=10**6)
        yield _case(f"{name} with an unknown option", [*words, *BASES.get(name, ()), "--unknown"], "refused")
        if name in BASES:
            yield _case(f"{name} with arguments too many", [*words, *BASES[name], *["extra"] * 3], "refused")
            if name not in SERVERS:
                yield _case(f"{name} without arguments", list(words), "either")
            for number, parameter in enumerate(one.params):
                yield from _parameter_cases(name, words, parameter, number)
        elif name not in LEFT_OUT:
            yield from (_case(f"{name} --out {value!r}", [*words, "--out", value], "either") for value in ("file",))
    for name, words, expected in SPECIFIC:
        yield _case(name, list(words), expected)
    yield from environments.cases()


def _parameter_cases(name: str, words: tuple[str, ...], parameter: Any, number: int) -> Iterator[Case]:
    option = parameter.opts[0]
    base = BASES[name]
    if name == "find" and option in (
        "--label",
        "--text",
        "--id",
        "--backbone",
        "--model",
        "--folds",
        "--device",
        "--seed",
    ):
        base = FIND[1:]
    if option.startswith("--") and _is_flag(parameter):
        if option != "--help":
            yield _case(f"{name} {option}=yes", [*words, *base, f"{option}=yes"], "either")
        return
    for value in islice(cycle(_values(parameter)), 3 * number, 3 * number + PER_OPTION):
        if option.startswith("--"):
            arguments = _with_option(base, option, [value] * max(1, parameter.nargs))
        else:
            arguments = [value, *base[1:]]
        shown = value if len(value) < 30 else f"{value[:5]}… of {len(value):,} characters"
        yield _case(f"{name} {option} {shown!r}", [*words, *arguments], "either")
    if option.startswith("--"):
        yield _case(f"{name} {option} without a value", [*words, *base, option], "refused")


def _case(name: str, words: list[str], expected: Expected, longest: int = LONGEST) -> Case:
    work = run(*words)
    return Case(f"errata {name}", prepare, work, expected, time_limit=60, longest=longest)


BENCH_RUN = ("bench", "run", *BASES["bench run"])
CHOOSE = ("choose", *BASES["choose"])
SPECIFIC: list[tuple[str, tuple[str, ...], Expected]] = [
    *(
        (f"find --device {device}", (*FIND[:-1], device), "refused")
        for device in ("mps", "cuda:99", "meta", "tpu", "CPU ")
    ),
    *((f"choose --device {device}", (*CHOOSE[:-1], device), "refused") for device in ("mps", "meta", "abacus")),
    *(
        (f"bench run --device {device}", (*BENCH_RUN, "--device", device, "--out", "new"), "refused")
        for device in ("mps", "meta", "abacus")
    ),
    ("find --seed of 2^64", (*FIND, "--seed", HUGE), "either"),
    ("find --seed of 2^63", (*FIND, "--seed", str(2**63)), "either"),
    ("find --seed of 2^32", (*FIND, "--seed", str(2**32)), "either"),
    ("find boosting --seed of 2^64", (*FIND[:5], "boosting", "--seed", HUGE), "either"),
    ("choose --seed of 2^64", (*CHOOSE, "--seed", HUGE), "either"),
    ("demo --seed of -1", ("demo", "--seed", "-1"), "refused"),
    ("demo --seed of text", ("demo", "--seed", "x"), "refused"),
    ("demo --out of a file", ("demo", "--out", "file"), "refused"),
    *(
        (f"{name} --window {first} {last}", (name, "logits.npz", "--window", first, last), "refused")
        for name in ("score", "rank")
        for first, last in (("5", "2"), ("-1", "3"), ("0", "99"), ("x", "1"), (HUGE, HUGE))
    ),
    ("rank --window of one number", ("rank", "logits.npz", "--window", "1"), "refused"),
    ("rank --budget of 10^30", ("rank", "logits.npz", "--budget", "1" + "0" * 30), "either"),
    ("score with a method twice", ("score", "logits.npz", "--method", "Mean-CE", "--method", "Mean-CE"), "either"),
    ("score with a method of a megabyte", ("score", "logits.npz", "--method", "Mean-CE(" * 20_000), "refused"),
    ("rank of a table", ("rank", "data.csv"), "refused"),
    ("rank of a picture folder", ("rank", "folder"), "refused"),
    ("find of nothing", ("find",), "refused"),
    ("find of -", ("find", "-"), "refused"),
    ("find of an empty folder", ("find", "folder"), "refused"),
    ("find of a table without --label", ("find", "data.csv"), "refused"),
    ("find --label of another column", ("find", "data.csv", "--label", "a"), "either"),
    ("find --out in a file", ("find", "logits.npz", "--out", "file/x"), "refused"),
    ("find --out of the source", ("find", "logits.npz", "--out", "logits.npz"), "refused"),
    ("find --out of a folder with other files", ("find", "logits.npz", "--out", "results"), "refused"),
    ("find --out with results of another table", ("find", "named.csv", *FIND[2:], "--out", "errata-out"), "refused"),
    ("find --out with results of other data", ("find", "logits.npz", "--out", "errata-out"), "refused"),
    ("find --folds more than samples", (*FIND, "--folds", "100000"), "refused"),
    ("find --top of 10^30", ("find", "logits.npz", "--top", "1" + "0" * 30), "either"),
    ("find --model cnn4 for a table", ("find", "data.csv", "--label", "label", "--model", "cnn4"), "refused"),
    ("find --backbone without a model", ("find", "data.csv", "--label", "label", "--backbone", "folder"), "refused"),
    ("apply --decisions and --top", ("apply", *BASES["apply"], "--top", "3"), "refused"),
    ("apply --out of the source", ("apply", *BASES["apply"], "--out", "data.csv"), "refused"),
    ("apply --out of another type", ("apply", *BASES["apply"], "--out", "x.parquet"), "refused"),
    ("apply --link for a table", ("apply", *BASES["apply"], "--link"), "either"),
    ("export --to of another tool", ("export", "errata-out", "--to", "paper"), "refused"),
    ("export --out of a file", ("export", "errata-out", "--to", "cleanlab", "--out", "file"), "refused"),
    (
        "export --images-at of no address",
        ("export", "errata-out", "--to", "label-studio", "--images-at", "javascript:x"),
        "either",
    ),
    ("choose --batch-size of 2^64", (*CHOOSE, "--batch-size", HUGE), "either"),
    ("choose --out in a folder that is not there", (*CHOOSE, "--out", "gone/x.json"), "refused"),
    ("bench run --plugin that is no Python", (*BENCH_RUN, "--plugin", "data.csv"), "refused"),
    ("bench run --plugin that is missing", (*BENCH_RUN, "--plugin", "gone.py"), "refused"),
    ("bench run --suite and --setting", (*BENCH_RUN, "--suite", "paper"), "either"),
    ("bench table of another name", ("bench", "table", "odd"), "refused"),
    ("bench table --format of another word", ("bench", "table", "operating-point", "--format", "odd"), "refused"),
    ("an unknown command", ("finf", "data.csv"), "refused"),
    ("an unknown command of bench", ("bench", "odd"), "refused"),
    ("an empty command", ("",), "refused"),
    ("a command that is not UTF-8", ("\udcff",), "refused"),
    ("a command of 5,000 characters", (LONG,), "refused"),
]


def argument_attacks() -> Iterator[Attack]:
    """Every wrong argument as an attack."""
    return case_attacks(PART, cases())
