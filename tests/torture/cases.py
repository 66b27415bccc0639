"""Hostile input: a case writes files, a command or a call reads them, and the outcome is judged."""

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torture.tally import Attack, Verdict
from torture.victims import Outcome, run_victim

Expected = Literal["refused", "read", "either"]
LONGEST_MESSAGE = 3000  # characters
CAPABILITY_VERSION = 0x20080522
ALL_FILES = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


class WrongResultError(Exception):
    """Raised by work whose result is wrong, although nothing was refused."""


@dataclass(frozen=True)
class Case:
    """One hostile input.

    prepare(folder): write the files. work: what reads them, in that folder. expected: whether it must be refused, must
    be read, or may be either. check(folder, output): what is wrong with an accepted input; empty if all is right.
    as_nobody: run without the rights of the superuser, who may read everything. says: what a refusal must contain, such
    as the name of the file. longest: the most characters that a refusal may have.
    """

    name: str
    prepare: Callable[[Path], object]
    work: Callable[[], object]
    expected: Expected = "refused"
    check: Callable[[Path, str], str] | None = None
    as_nobody: bool = False
    time_limit: float = 60.0
    says: str = ""
    longest: int = LONGEST_MESSAGE


def case_attacks(part: str, cases: Iterable[Case]) -> Iterator[Attack]:
    """The cases as attacks."""
    for case in cases:
        yield Attack(part, case.name, lambda folder, case=case: _run(case, folder))  # type: ignore[misc]


def _run(case: Case, folder: Path) -> Verdict:
    case.prepare(folder)
    outcome = run_victim(
        _without_rights(case.work) if case.as_nobody else case.work, folder, time_limit=case.time_limit
    )
    if outcome.code is None:
        return Verdict("stuck", outcome.output[-2000:])
    if outcome.crashed and WrongResultError.__name__ in outcome.last_line:
        return Verdict("silent", outcome.last_line)
    if outcome.crashed:
        return Verdict("traceback", outcome.output[-3000:])
    if outcome.code != 0:
        return _judge_refusal(case, outcome)
    if case.expected == "refused":
        return Verdict("silent", f"was accepted: {outcome.output[-1000:]}")
    wrong = case.check(folder, outcome.output) if case.check else ""
    return Verdict("silent", wrong) if wrong else Verdict("fine")


def _judge_refusal(case: Case, outcome: Outcome) -> Verdict:
    """A refusal needs a message of moderate length."""
    if case.expected == "read":
        return Verdict("difference", f"was refused: {outcome.output[-1000:]}")
    if not outcome.last_line or len(outcome.output) > case.longest:
        return Verdict("traceback", f"no message, or a far too long one: {outcome.output[-1000:]}")
    if case.says not in outcome.output:
        return Verdict("traceback", f"the message does not name {case.says}: {outcome.output[-1000:]}")
    return Verdict("refused")


def _without_rights(work: Callable[[], object]) -> Callable[[], object]:
    """The work without the capabilities by which the superuser reads and writes all files. Other users lack them."""

    def without() -> object:
        if os.geteuid() == 0:
            libc = ctypes.CDLL(None, use_errno=True)
            header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
            sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice 32 bits
            if libc.capget(header, sets) == 0:
                sets[0] &= ~sum(1 << number for number in ALL_FILES)
            if libc.capset(header, sets) != 0:
                raise OSError(ctypes.get_errno(), "the capabilities cannot be dropped")
        return work()

    return without
