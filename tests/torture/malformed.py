"""All malformed inputs: files, folders and calls."""

from collections.abc import Iterator
from itertools import chain

from torture import malformed_arrays, malformed_calls, malformed_folders, malformed_images, malformed_tables
from torture.cases import case_attacks
from torture.tally import Attack

PART = "malformed input"
MODULES = (malformed_tables, malformed_arrays, malformed_images, malformed_folders, malformed_calls)


def malformed_attacks() -> Iterator[Attack]:
    """Every malformed input as an attack."""
    return case_attacks(PART, chain.from_iterable(module.cases() for module in MODULES))
