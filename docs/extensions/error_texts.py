"""The texts of all errors that the source raises, with ⟨names⟩ of values: what the page of error messages lists.

An expression is followed through names, functions that return text, and arguments of the calls of a function.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

ERRORS = (
    "InputError",
    "StoreError",
    "LockedError",
    "DataError",
    "MissingDataError",
    "ErrataError",
    "LostJobError",
    "SkippedCellError",
)
UNKNOWN = "…"
UNNAMED = re.compile("error|text|hint|header|repr|more|^_")  # these names say nothing about the value
WORD = re.compile(r"\b[a-z]{2,}\b")
VALUE = re.compile("⟨(.*?)⟩")  # how a value in a message is marked
MOST_VARIANTS = 12  # of one message; beyond, a part of it stays a ⟨name⟩
DEEPEST = 4  # how many names, functions and calls are followed
PLAIN = "errata/wording.py"  # its functions format values
PLACES = {"where", "origin", "name", "path", "package", "function", "option", "other", "source"}  # they stay ⟨names⟩

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Scope:
    """Where an expression is: its file, and the functions around it, the innermost last."""

    file: Path
    functions: tuple[Function, ...] = ()

    @cached_property
    def assigned(self) -> dict[str, list[ast.expr]]:
        """The expressions that are assigned to each name in these functions; the innermost function counts."""
        found: dict[str, list[ast.expr]] = {}
        for function in self.functions:
            own: dict[str, list[ast.expr]] = defaultdict(list)
            for node in ast.walk(function):
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        for name, value in _pairs(target, node.value):
                            own[name].append(value)
                elif isinstance(node, ast.NamedExpr):
                    own[node.target.id].append(node.value)
            found |= own
        return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The names of an assignment, each with its expression."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, other)


class Source:
    """All files of the package."""

    def __init__(self, folder: Path) -> None:
        self.constants: dict[str, tuple[ast.expr, Scope]] = {}
        self.functions: dict[str, list[tuple[Function, Scope]]] = defaultdict(list)
        self.calls: dict[str, list[tuple[ast.Call, Scope]]] = defaultdict(list)
        self.errors: list[tuple[ast.expr, Scope]] = []
        for file in sorted(folder.rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for node in tree.body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.constants[node.targets[0].id] = node.value, Scope(file)
            self._visit(tree, Scope(file))

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, Function):
            self.functions[node.name].append((node, scope))
            scope = Scope(scope.file, (*scope.functions, node))
        elif isinstance(node, ast.Call):
            name = _last_name(node.func)
            self.calls[name].append((node, scope))
            if name in ERRORS and node.args:
                self.errors.append((node.args[0], scope))
        for child in ast.iter_child_nodes(node):
            self._visit(child, scope)

    def messages(self) -> Iterator[tuple[Path, str]]:
        """The file and the text of every error that says something."""
        for node, scope in self.errors:
            for text in self.texts(node, scope, DEEPEST):
                if says_something(text):
                    yield scope.file, text

    def texts(self, node: ast.expr, scope: Scope, depth: int) -> list[str]:
        """The texts that an expression may have; none if it is a value, not a text."""
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=parts):
                return self._joined(parts, scope, depth)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                first, second = (self.texts(side, scope, depth) or [UNKNOWN] for side in (left, right))
                return [one + other for one in first for other in second]
            case ast.IfExp(body=body, orelse=other):
                return self._all([(body, scope), (other, scope)], depth)
            case ast.BoolOp(values=values):
                return self._all([(value, scope) for value in values], depth)
            case ast.Name(id=name) if depth:
                return self._named(name, scope, depth - 1)
            case ast.Call(func=function) if depth:
                return self._returned(_last_name(function), scope, depth - 1)
            case ast.Subscript(value=ast.Name(id=name)) if isinstance(self._constant(name), ast.Dict):
                entries, where = self.constants[name]
                return self._all([(value, where) for value in entries.values], 0)
        return []

    def _joined(self, parts: list[ast.expr], scope: Scope, depth: int) -> list[str]:
        """The texts of an f-string. A value becomes its name, unless the source says which texts it may be."""
        texts = [""]
        for part in parts:
            ends = self.texts(part, scope, depth)
            if isinstance(part, ast.FormattedValue):
                ends = self.texts(part.value, scope, depth) if part.conversion == -1 else []
                if not any(map(says_something, ends)) or len(ends) * len(texts) > MOST_VARIANTS:
                    ends = [_value(part)]
            texts = [
                text + (UNKNOWN if text[-1:].isalpha() and VALUE.match(end) else end) for text in texts for end in ends
            ]
        return _distinct(texts)

    def _named(self, name: str, scope: Scope, depth: int) -> list[str]:
        """The texts of a name: what is assigned to it, or what calls pass for a parameter."""
        if name in PLACES:
            return []
        if name in scope.assigned:
            return self._all([(value, scope) for value in scope.assigned[name]], depth, name)
        for function in reversed(scope.functions):
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            if name in [argument.arg for argument in arguments]:
                return self._passed(function, name, scope, depth)
        constant = self._constant(name)
        return [] if constant is None else self.texts(constant, self.constants[name][1], depth)

    def _constant(self, name: str) -> ast.expr | None:
        return self.constants[name][0] if name.isupper() and name in self.constants else None

    def _passed(self, function: Function, name: str, scope: Scope, depth: int) -> list[str]:
        """The texts that the calls of a function pass for a parameter, and its default."""
        found: list[tuple[ast.expr, Scope]] = []
        positional = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        method = positional[:1] in (["self"], ["cls"])
        for call, where in self.calls[function.name] if len(self.functions[function.name]) == 1 else ():
            place = positional.index(name) - method if name in positional else len(call.args)
            passed = [keyword.value for keyword in call.keywords if keyword.arg == name]
            passed += call.args[place : place + 1]
            found += [(value, where) for value in passed[:1]]
        defaults = dict(zip(reversed(positional), reversed(function.args.defaults), strict=False))
        pairs = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        defaults |= {argument.arg: value for argument, value in pairs if value is not None}
        if name in defaults:
            found.append((defaults[name], Scope(scope.file)))
        return self._all(found, depth, name)

    def _all(self, values: list[tuple[ast.expr, Scope]], depth: int, name: str = "") -> list[str]:
        """The texts of all these expressions; ⟨name⟩, by default their own, stands for those that are not known."""
        found = [
            self.texts(value, where, depth) or [_value(ast.Name(name) if name else value)] for value, where in values
        ]
        return _distinct(chain.from_iterable(found)) if any(map(says_something, chain.from_iterable(found))) else []

    def _returned(self, name: str, scope: Scope, depth: int) -> list[str]:
        """The texts that a function returns."""
        found = self.functions[name]
        if len(found) != 1 or found[0][1].file.as_posix().endswith(PLAIN):
            return []
        function, where = found[0]
        if function.returns is None or "str" not in ast.unparse(function.returns).split(" | "):
            return []
        inside = Scope(where.file, (*where.functions, function))
        returns = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
        return _distinct(chain.from_iterable(self.texts(value, inside, depth) for value in returns))


def says_something(text: str) -> bool:
    """Whether a text has a word besides values."""
    return bool(WORD.search(VALUE.sub("", text)))


def _distinct(texts: Iterator[str] | list[str] | chain[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _value(node: ast.expr) -> str:
    """A ⟨name⟩ for a value in a message: the last name of the expression that computes it."""
    match node:
        case ast.FormattedValue(value=value) | ast.Subscript(value=value):
            return _value(value)
        case ast.Name(id=name) | ast.Attribute(attr=name) if len(name) > 2 and not UNNAMED.search(name):
            return f"⟨{name.strip('_').lower().replace('_', ' ')}⟩"
        case ast.Call(func=ast.Name(id="len")):
            return "⟨number⟩"
        case ast.Call(func=ast.Name(id="counted"), args=[_, ast.Constant(value=str(noun)), *plural]):
            written = plural[0].value if plural and isinstance(plural[0], ast.Constant) else f"{noun}s"
            return f"⟨number {written}⟩"
        case ast.Call(args=[value, *_]):
            return _value(value)
    return UNKNOWN
