"""Two processes at once on one folder: one result must be complete and right, and a refusal must say why."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from torture.scenarios import Reference, Scenario, digests
from torture.tally import Attack, Verdict
from torture.victims import started

PART = "races of two processes"


def race_attacks(references: dict[str, tuple[Scenario, Reference]], rounds: int, seed: int) -> Iterator[Attack]:
    """Every scenario against itself or its rival, the second at once in the first round, then at a random moment."""
    rng = Random(seed)
    for scenario, expected in references.values():
        for number in range(rounds):
            delay = 0.0 if number == 0 else rng.random() * expected.seconds
            yield _attack(scenario, expected, delay)
            if scenario.rival is not None:
                yield _attack(scenario, expected, delay, scenario.rival)


def _attack(scenario: Scenario, expected: Reference, delay: float, rival: Callable[[], object] | None = None) -> Attack:
    def run(folder: Path) -> Verdict:
        scenario.prepare(folder)
        with started(scenario.work, folder) as first:
            time.sleep(delay)
            with started(rival or scenario.work, folder) as second:
                outcomes = [first.wait(), second.wait()]
        for outcome in outcomes:
            if outcome.code is None:
                return Verdict("stuck", outcome.output[-2000:])
            if outcome.crashed:
                return Verdict("traceback", outcome.output[-2000:])
        codes = [outcome.code for outcome in outcomes]
        if 0 not in codes:
            return Verdict("stuck", "both were refused: " + " / ".join(outcome.last_line for outcome in outcomes))
        if rival is not None and codes == [0, 0]:
            return Verdict("silent", "both succeeded, so that one replaced the results of the other")
        if codes[0] == 0 and digests(folder, scenario.outputs) != expected.digests:
            return Verdict("difference", f"exit codes {codes}; the files differ from those of one process")
        return Verdict("fine" if codes == [0, 0] else "refused")

    return Attack(PART, f"{scenario.name}, {'rival' if rival else 'second'} after {delay:.3f} s", run)
