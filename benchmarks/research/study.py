"""Measure every candidate on every development setting.

    python -m errata bench run --setting letter-symmetric-20 ... --gathering in-sample --keep-dynamics --out tables
    python benchmarks/research/digests.py images digests
    python benchmarks/research/study.py --dynamics tables --digests digests --out results/research

Writes fnr.csv, the FNR % at the true number of errors as a mean over seeds; table.md, the same relative to MeanProb-LM;
and signs.csv, the statistics that the rules of the default use. The truth is used for FNR only. --cache stores reduced
runs, neighbours and trainings; empty that folder when the runs change.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import candidates
import evidence
import retraining
import shown
from errata.core.checks import Floats
from errata.core.metrics import fnr
from errata.core.neighbours import label_votes
from errata.core.smoothing import KNN
from errata.datasets.loading import LabelledSetting, load_setting
from errata.errors import InputError
from runs import DEVELOPMENT, Run, ensemble, of_digests, read_runs
from tried import Candidate, all_candidates

Row = dict[str, Any]
Truth = NDArray[np.bool_]


def measure(runs: Sequence[Run], labelled: LabelledSetting, cache: Path | None) -> Iterator[Row]:
    """FNR of every candidate that applies to a setting: one row per candidate and seed."""
    truth = labelled.truth.astype(np.bool_)
    tried = [one for one in all_candidates() if runs[0].is_table or not one.tables]
    for run in runs:
        for candidate in tried:
            yield _row(run, candidate.family, candidate.name, 1, candidate.score(run), truth)
    together = ensemble(runs)
    for candidate in _of_seeds(runs):
        yield _row(together, candidate.family, candidate.name, len(runs), candidate.score(together), truth)
    if runs[0].is_table and runs[0].setting in DEVELOPMENT and runs[0].setting != shown.NOT_RETRAINED:
        for run in runs:
            yield from _retrained(run, labelled, cache)


def _row(run: Run, family: str, name: str, models: int, scores: Floats, truth: Truth) -> Row:
    missed = 100 * fnr(scores, truth)
    return {
        "family": family,
        "candidate": name,
        "models": models,
        "setting": run.setting,
        "seed": run.seed,
        "errors": int(truth.sum()),
        "fnr": missed,
    }


def _of_seeds(runs: Sequence[Run]) -> Iterator[Candidate]:
    family = "ensembles of seeds"
    yield Candidate("mean probabilities of three seeds", family, candidates.alone)
    yield Candidate("the default on them", family, candidates.default)
    ranked = evidence.rank_mean([candidates.default(run) for run in runs])
    yield Candidate("mean of ranks of the default of three seeds", family, lambda _: ranked)
    if runs[0].is_table:  # constant learning rate: the first third of the epochs equals a shorter run

        def third(run: Run) -> Floats:
            return evidence.share_of_epochs(run, 0, 1 / len(runs))

        name = "three seeds of a third of the epochs"
        yield Candidate(name, family, lambda run: candidates.alone(run, third))
        yield Candidate(f"{name}, the default", family, lambda run: candidates.default(run, third))


def _retrained(run: Run, labelled: LabelledSetting, cache: Path | None) -> Iterator[Row]:
    from errata.bench.running.cell_training import table

    for detector in retraining.RETRAINED:
        path = None if cache is None else cache / f"{run.setting}.{run.seed}.{detector.name}.npz"
        if path is not None and path.exists():
            with np.load(path) as stored:
                scores = dict(stored)
        else:
            scores = detector.score(run, table(labelled, "train"))
            if path is not None:
                np.savez(path, allow_pickle=False, **scores)
        for name, column in scores.items():
            yield _row(
                run,
                "more training",
                f"{detector.name}: {name}",
                detector.models,
                column,
                labelled.truth.astype(np.bool_),
            )


def signs(run: Run) -> Row:
    """Statistics of a run that need no truth: agreement of predictions and votes with labels, memorisation."""
    own = run.log_mean(candidates.flat(run))
    row: Row = {"setting": run.setting, "seed": run.seed, "mean prediction": _agreement(own, run)}
    row["last epoch"] = float(run.agreement[-1])
    row["late fit"], row["reversals"] = evidence.late_fit_share(run), evidence.label_reversals(run)
    row |= evidence.signs_by_sums(run)
    row["epochs used"] = float(candidates.usual(run).astype(np.bool_).mean())
    for points in run.context.points:
        counts = label_votes(run.labels, run.context.nearest(points, 10), run.classes)
        row[f"vote, {points}"] = _agreement(counts, run)
    chosen = KNN().choose(run.context)
    return row | {"space": chosen.space, "k": chosen.k, "a": chosen.a, "labels": chosen.labels}


def _agreement(values: Floats, run: Run) -> float:
    return 1 - float(evidence.simifeat_vote(values, run.labels).mean())


def labelled_as(run: Run) -> LabelledSetting:
    """The setting of a run with its truth, in the order of the run's samples."""
    labelled = load_setting(run.setting)
    if not np.array_equal(labelled.given, run.labels):
        raise InputError(f"{run.setting} has other labels than its run of seed {run.seed}; record the run again")
    return labelled


def main(arguments: argparse.Namespace) -> None:
    """Measure all settings and write the tables."""
    if arguments.cache is not None:
        arguments.cache.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    seen: list[Row] = []
    for runs in read_runs(arguments.dynamics, arguments.digests, arguments.cache):
        if not arguments.only_signs:
            rows += measure(runs, labelled_as(runs[0]), arguments.cache)
        seen += [signs(run) for run in runs]
        print(f"{runs[0].setting}: {len(runs)} runs", flush=True)
    for setting in arguments.signs_of:
        seen += [signs(run) for run in of_digests(setting, arguments.digests, arguments.cache)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    shown.write(rows, seen, arguments.out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dynamics", type=Path, required=True, help="results of bench run, with kept dynamics")
    parser.add_argument("--only-signs", action="store_true", help="write signs.csv, and try no candidate")
    parser.add_argument("--signs-of", action="append", default=[], help="a setting of digests, for its signs too")
    parser.add_argument("--digests", type=Path, required=True, help="digests of runs whose dynamics are elsewhere")
    parser.add_argument("--out", type=Path, required=True, help="where the tables go")
    parser.add_argument("--cache", type=Path, help="where intermediate results are kept")
    main(parser.parse_args())
