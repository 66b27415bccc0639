"""Which class a text stands for: files of decisions hold text, whatever the type of the labels is."""

import numbers
from collections import defaultdict
from collections.abc import Iterable
from typing import Any


class ClassNames:
    """The classes of a dataset, found by the text that stands for them."""

    def __init__(self, classes: Iterable[Any]) -> None:
        self._values = tuple(classes)
        self._named: dict[str, list[Any]] = defaultdict(list)
        for value in self._values:
            self._named[str(value)].append(value)

    def named(self, text: str) -> list[Any]:
        """The classes that a text may stand for: 1 and True are also what a spreadsheet makes of them, 1.0 and TRUE."""
        if text not in self._named:
            self._named[text] = [value for value in self._values if _stands_for(text, value)]
        return self._named[text]

    def is_one(self, text: str, value: Any) -> bool:
        """Whether the text may stand for that very class."""
        return any(other is value or (type(other) is type(value) and other == value) for other in self.named(text))

    def fresh(self, text: str) -> Any:
        """A class that is not there yet, of the type that all others have; text where it cannot be of that type."""
        number = _number(text)
        if number is None or not all(map(_is_number, self._values)):
            return text
        if all(isinstance(value, numbers.Integral) for value in self._values):
            return int(number) if number == int(number) else text
        return number

    def fits(self, value: Any) -> bool:
        """Whether a new class has a type that others have."""
        return _kind(value) in map(_kind, self._values)


def _stands_for(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text.strip().casefold() == str(value).casefold()
    return _is_number(value) and _number(text) == value


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    return "number" if _is_number(value) else type(value).__name__


def _number(text: str) -> float | None:
    """The number that a text is; None of what is not finite."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
