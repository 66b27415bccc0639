"""A disk that fills up: the command must say so, leave nothing wrong behind, and succeed when there is space again."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from torture.kills import judge_rerun
from torture.scenarios import Reference, Scenario
from torture.tally import Attack, Verdict
from torture.victims import run_victim

PART = "full disk"
PAGE = 4096


def can_mount() -> bool:
    """Whether this process may mount a small file system."""
    return os.geteuid() == 0 and shutil.which("mount") is not None


def disk_attacks(references: dict[str, tuple[Scenario, Reference]], rounds: int) -> Iterator[Attack]:
    """Every scenario on a disk with room for a growing part of its files."""
    for scenario, expected in references.values():
        for number in range(rounds):
            yield _attack(scenario, expected, number / rounds)


def _attack(scenario: Scenario, expected: Reference, part: float) -> Attack:
    def run(folder: Path) -> Verdict:
        needed = _needed(scenario, folder.parent / "whole")
        place = folder / "disk"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "errata", place], check=True)
        try:
            scenario.prepare(place)
            size = _used(place) + int(needed * part) + PAGE
            subprocess.run(["mount", "-o", f"remount,size={size}", place], check=True)
            first = run_victim(scenario.work, place)
            if first.code is None:
                return Verdict("stuck", first.output[-2000:])
            if first.crashed:
                return Verdict("traceback", first.output[-2000:])
            subprocess.run(["mount", "-o", "remount,size=1g", place], check=True)
            verdict = judge_rerun(scenario, expected, place)
            return Verdict("refused") if verdict.kind == "fine" and first.code != 0 else verdict
        finally:
            subprocess.run(["umount", "-l", place], check=True)

    return Attack(PART, f"{scenario.name}, room for {part:.0%} of its files", run)


def _needed(scenario: Scenario, folder: Path) -> int:
    """The bytes that an undisturbed run adds; none if it removes more than it adds."""
    folder.mkdir()
    scenario.prepare(folder)
    before = _bytes(folder)
    run_victim(scenario.work, folder)
    return max(0, _bytes(folder) - before)


def _bytes(folder: Path) -> int:
    return sum(-(-path.stat().st_size // PAGE) * PAGE for path in folder.rglob("*") if path.is_file())


def _used(folder: Path) -> int:
    usage = shutil.disk_usage(folder)
    return usage.used
