"""`python -m torture`: carry out every attack and print the table of counts; exit code 1 if anything broke."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from torture import arguments, full_disk, kills, malformed, mutations, pages, races
from torture.scenarios import Reference, Scenario, reference, scenarios
from torture.tally import Attack, Tally, run_attacks

SEED = 18
QUICK_SCENARIOS = ["recorder", "apply csv", "find logits"]
QUICK_STEPS = {"kills": 5, "malformed": 40, "arguments": 40}  # one of so many attacks is tried
References = dict[str, tuple[Scenario, Reference]]


def import_everything() -> None:
    """Import what victims use, so that they start at once. Nothing is computed: threads do not survive a fork."""
    import lightgbm  # noqa: F401
    import PIL.Image  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import sklearn.feature_extraction.text  # noqa: F401
    import torch  # noqa: F401

    import errata.bench.running.benchmark_run
    import errata.cli
    import errata.finding.find
    import errata.review.corrected_copy
    import errata.training.engine  # noqa: F401


def references(names: list[str] | None = None) -> References:
    """Undisturbed runs of the scenarios."""
    with tempfile.TemporaryDirectory(prefix="torture-") as root:
        chosen = [scenario for scenario in scenarios() if not names or any(name in scenario.name for name in names)]
        return {
            scenario.name: (scenario, reference(scenario, Path(root, str(number), "place")))
            for number, scenario in enumerate(chosen)
        }


def attacks_by_part(options: argparse.Namespace) -> dict[str, Callable[[References], Iterable[Attack]]]:
    """The attacks of each part, given the undisturbed runs."""
    seed = options.seed
    return {
        "kills": lambda expected: kills.kill_attacks(expected, options.kills, seed),
        "every-operation": kills.every_operation,
        "races": lambda expected: races.race_attacks(expected, 1 if options.quick else 2, seed),
        "disk": lambda expected: full_disk.disk_attacks(expected, 4),
        "malformed": lambda _: malformed.malformed_attacks(),
        "arguments": lambda _: arguments.argument_attacks(),
        "mutations": lambda _: mutations.mutation_attacks(300 if options.quick else options.mutations, seed),
        "pages": lambda _: pages.page_attacks(),
    }


ON_SCENARIOS = {"kills", "every-operation", "races", "disk"}
USUAL = ["kills", "races", "disk", "malformed", "arguments", "mutations", "pages"]
QUICK = ["kills", "races", "malformed", "arguments", "mutations"]


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a part that takes about a minute, always the same")
    parser.add_argument("--part", action="append", help=f"only this part: {', '.join(USUAL)} or every-operation")
    parser.add_argument("--scenario", action="append", help="only scenarios whose name contains this")
    parser.add_argument("--only", default="", help="only attacks whose name contains this")
    parser.add_argument("--kills", type=int, default=300, help="kills at random moments")
    parser.add_argument("--mutations", type=int, default=5000, help="the number of mutated files")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    parts = options.part or (QUICK if options.quick else USUAL)
    options.kills = 20 if options.quick else options.kills
    if "disk" in parts and not full_disk.can_mount():
        parser.error("a full disk needs the right to mount a small tmpfs: run as root, or name other parts")
    import_everything()
    names = options.scenario or (QUICK_SCENARIOS if options.quick else None)
    expected = references(names) if ON_SCENARIOS & set(parts) else {}
    tally, makers = Tally(), attacks_by_part(options)
    for part in parts:
        step = QUICK_STEPS.get(part, 1) if options.quick else 1
        tried = islice(makers[part](expected), options.seed % step, None, step)
        attacks = (attack for attack in tried if options.only in attack.name)
        run_attacks(attacks, tally, workers=options.workers)
    for attack, verdict in tally.failures:
        print(f"\n{attack.part}: {attack.name}: {verdict.kind}\n{verdict.detail}")
    print(f"\n{tally.table()}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
