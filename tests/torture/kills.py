"""Kill a process before each operation on a file and at random moments, run it again, and compare the results."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from torture.scenarios import Reference, Scenario, digests, run_again
from torture.tally import Attack, Verdict
from torture.victims import run_victim

PART = "kills"


def kill_attacks(references: dict[str, tuple[Scenario, Reference]], count: int, seed: int) -> Iterator[Attack]:
    """Kills before the first and the last operation of each kind, and `count` at random moments over all scenarios."""
    rng = Random(seed)
    shares = sum(scenario.share for scenario, _ in references.values())
    for scenario, expected in references.values():
        for number in kinds_of_operations(expected.operations):
            yield _attack(scenario, expected, kill_before=number)
        for _ in range(max(1, round(count * scenario.share / shares))):
            yield _attack(scenario, expected, kill_after=rng.random() * expected.seconds)


def kinds_of_operations(operations: Sequence[str]) -> list[int]:
    """The numbers of the first and the last operation of each kind, such as `fsync logits.npy`."""
    first = {kind: number for number, kind in reversed(list(enumerate(operations)))}
    last = {kind: number for number, kind in enumerate(operations)}
    return sorted({*first.values(), *last.values()})


def every_operation(references: dict[str, tuple[Scenario, Reference]]) -> Iterator[Attack]:
    """A kill before every single operation of every scenario."""
    for scenario, expected in references.values():
        for number in range(len(expected.operations)):
            yield _attack(scenario, expected, kill_before=number)


def _attack(
    scenario: Scenario, expected: Reference, kill_before: int | None = None, kill_after: float | None = None
) -> Attack:
    moment = (
        f"after {kill_after:.3f} s"
        if kill_before is None
        else f"before {expected.operations[kill_before]} ({kill_before})"
    )

    def run(folder: Path) -> Verdict:
        scenario.prepare(folder)
        first = run_victim(scenario.work, folder, kill_before=kill_before, kill_after=kill_after)
        if first.code is None:
            return Verdict("stuck", first.output[-2000:])
        if first.crashed:
            return Verdict("traceback", first.output[-2000:])
        return judge_rerun(scenario, expected, folder)

    return Attack(PART, f"{scenario.name}, killed {moment}", run)


def judge_rerun(scenario: Scenario, expected: Reference, folder: Path) -> Verdict:
    """Run the scenario again over the remains; it must end with the files of an undisturbed run."""
    second = run_again(scenario, folder)
    if second.code is None or second.code == 2:
        return Verdict("stuck", second.output[-2000:])
    if second.code != 0:
        return Verdict("traceback", second.output[-2000:])
    there = digests(folder, scenario.outputs)
    if there != expected.digests:
        names = sorted(name for name in {*there, *expected.digests} if there.get(name) != expected.digests.get(name))
        return Verdict("difference", f"these files differ or should not be there: {', '.join(names[:6])}")
    return Verdict("fine")
