"""Verdicts on single attacks, and the table of their counts."""

import os
import pickle
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["fine", "refused", "traceback", "silent", "stuck", "difference"]
KINDS: tuple[Kind, ...] = ("fine", "refused", "traceback", "silent", "stuck", "difference")
FAILURES = KINDS[2:]


@dataclass(frozen=True)
class Verdict:
    """What came of an attack.

    fine: the result is right. refused: an error message and nothing else. traceback: a crash. silent: a wrong input was
    accepted. stuck: no end, or no way on. difference: another result than without the attack.
    """

    kind: Kind
    detail: str = ""


@dataclass(frozen=True)
class Counts(Verdict):
    """What came of a batch of small attacks: the number of each kind of verdict."""

    counts: dict[Kind, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Attack:
    """One attack: part and name identify it; run(folder) carries it out in an empty folder."""

    part: str
    name: str
    run: Callable[[Path], Verdict]


class Tally:
    """Counts of verdicts per part."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}
        self.failures: list[tuple[Attack, Verdict]] = []

    def add(self, attack: Attack, verdict: Verdict) -> None:
        """Count a verdict."""
        counts = verdict.counts if isinstance(verdict, Counts) else {verdict.kind: 1}
        self._counts.setdefault(attack.part, Counter()).update(counts)
        if any(counts.get(kind) for kind in FAILURES):
            self.failures.append((attack, verdict))

    def table(self) -> str:
        """The counts as a Markdown table."""
        rows = [["attack", "tried", "right result", "refused", "tracebacks", "silent errors", "stuck", "differences"]]
        total: Counter[str] = Counter()
        for part, counts in self._counts.items():
            rows.append([part, *_numbers(counts)])
            total += counts
        rows.append(["all", *_numbers(total)])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
        ]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join(lines)


def _numbers(counts: "Counter[str]") -> list[str]:
    return [f"{number:,}" for number in (sum(counts.values()), *(counts[kind] for kind in KINDS))]


def run_attacks(attacks: Iterable[Attack], tally: Tally, *, workers: int, progress: bool = True) -> None:
    """Carry out attacks in forked processes, `workers` at a time, each in an empty folder of its own."""
    waiting, running, done = list(attacks), {}, 0
    total, start = len(waiting), time.monotonic()
    waiting.reverse()
    with tempfile.TemporaryDirectory(prefix="torture-") as root:
        while waiting or running:
            while waiting and len(running) < workers:
                attack = waiting.pop()
                folder = Path(root, f"{done + len(running)}-{time.monotonic_ns()}")
                running[_start(attack, folder)] = attack, folder
            process, status = os.wait()
            attack, folder = running.pop(process)
            tally.add(attack, _verdict(folder, status))
            shutil.rmtree(folder, ignore_errors=True)
            done += 1
            if progress:
                left = (time.monotonic() - start) / done * (total - done)
                print(
                    f"\r{attack.part}: {done} of {total}, {left / 60:.0f} min left ",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )
    if progress:
        print(file=sys.stderr)


def _start(attack: Attack, folder: Path) -> int:
    folder.mkdir()
    process = os.fork()
    if process == 0:
        try:
            place = folder / "place"
            place.mkdir()
            try:
                verdict = attack.run(place)
            except BaseException:
                verdict = Verdict("traceback", "in the attack itself:\n" + traceback.format_exc())
            (folder / "verdict").write_bytes(pickle.dumps(verdict))
        finally:
            os._exit(0)
    return process


def _verdict(folder: Path, status: int) -> Verdict:
    file = folder / "verdict"
    if not file.exists():
        return Verdict("traceback", f"the attack itself died with status {status}")
    verdict: Verdict = pickle.loads(file.read_bytes())  # written by a child of this process
    return verdict
