"""errata.find: one call from labelled data to the list of labels to look at."""

import hashlib
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.dynamics.ranking import RunAnalysis, analyse, ranking_table
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.finding.answer import answer, as_note
from errata.finding.chance import HELD_OUT_LOSS
from errata.finding.conflicts import conflicts
from errata.finding.embedding import embedded, model_folder, model_key
from errata.finding.error_counts import confusions, expected_curve
from errata.finding.found import DYNAMICS, Found, check_folder, claim_folder, no_conflicts
from errata.finding.model_training import (
    FindOptions,
    FindProgress,
    NoProgress,
    TrainedModel,
    check_options,
    train_model,
)
from errata.finding.recorded import Recorded, about_data, recorded
from errata.finding.sources import Named, open_source
from errata.readers import UserData
from errata.version import installed_version
from errata.wording import counted

if TYPE_CHECKING:
    from errata.finding.candidates import ModelName

KEY_DIGITS = 16
WORK = "work"  # what an interrupted run needs to go on, inside the folder it writes to


def find(
    source: Any,
    label: Any = None,
    *,
    data: Any = None,
    text: str | Sequence[str] | None = None,
    id: Any = None,  # noqa: A002
    embed: str | Path | None = None,
    model: "ModelName" = "auto",
    folds: int | None = None,
    device: str = "auto",
    seed: int = 0,
    out: str | Path | None = None,
    skip_bad: bool = False,
) -> Found:
    """Find the samples whose labels are probably wrong; nothing of the data is ever changed.

    source, label, text, id and skip_bad say what the data is, as for `errata.readers.open_data`: find(X, y), a
    data frame or a file with the name of its label column, a folder of images. Dynamics, a folder of them or an .npz
    with `logits` and `labels` are ranked as they are; anything else is learned by a `model`, once, in-sample, or once a
    fold with `folds`, out-of-sample.
    data: of dynamics, the samples that they are of, in any of these forms, for the report to show; they are found by
    their ids, by default the row. label, text, id and skip_bad are then about them; arrays and frames need no label.
    embed: the folder of a model of sentence-transformers, whose vectors of the texts take the place of TF-IDF terms.
    out: a folder for the ranking, the report and the dynamics. Interrupted, the same call goes on from there.
    """
    opened = open_source(source, label, text, id, skip_bad)
    folder = None if out is None else Path(out)
    wanted = FindOptions(model, folds, device, seed, None if embed is None else str(embed))
    if isinstance(opened, Dynamics):
        said = about_data(source, label, text, id, skip_bad)
        return find_in_dynamics(recorded(source, opened, wanted, data, said), folder)
    if data is not None:
        raise InputError("data goes with dynamics, to say what their samples are; here the samples are the source")
    named = Named.of(source, label, text, id, skip_bad)
    return find_in_data(opened, wanted, folder, named=named)


def find_in_data(
    data: UserData,
    wanted: FindOptions | None = None,
    out: Path | None = None,
    watcher: FindProgress | None = None,
    named: Named | None = None,
) -> Found:
    """Train on the data, rank its samples and, with a folder `out`, write everything there.

    named: where the data were read from, kept in the folder for whoever needs them again.
    """
    wanted = wanted or FindOptions()
    if out is not None:
        check_folder(out)
    started = time.monotonic()
    watcher = watcher or NoProgress()
    sentences = None if wanted.embed is None else model_folder(wanted.embed)
    work = None if out is None else out / WORK / _key(data, wanted, sentences)
    check_options(data, wanted)
    if out is not None:
        claim_folder(out)
    if sentences is not None:
        data = embedded(data, sentences, wanted.device, work, watcher)
    learned = train_model(data, wanted, work, watcher)
    found = _found(learned.dynamics, data, learned, {**asdict(wanted), "data": data.content_hash}, started)
    return found if out is None else _kept(_sourced(found, named, out), out)


def find_in_dynamics(run: Recorded | Dynamics, out: Path | None = None) -> Found:
    """Rank the samples of a run that was recorded before, and show what is in them if it is known."""
    if isinstance(run, Dynamics):
        run = Recorded(run)
    dynamics = run.dynamics
    if dynamics.num_classes < 2:
        raise InputError("label errors need at least two classes, and these dynamics have one")
    if out is not None:
        check_folder(out)
    found = _found(dynamics, run.data, None, run.settings, time.monotonic())
    return found if out is None else _kept(_sourced(found, run.named, out), out)


def _sourced(found: Found, named: Named | None, out: Path) -> Found:
    """With a word on where the data can be read again."""
    return found if named is None else replace(found, summary=found.summary | {"source": named.seen_from(out)})


def _found(
    dynamics: Dynamics, data: UserData | None, learned: TrainedModel | None, settings: dict[str, Any], started: float
) -> Found:
    analysis = analyse(dynamics, compare=True)
    estimate, ranking = analysis.rate, ranking_table(analysis)
    found = Found(
        ranking=ranking,
        dynamics=dynamics,
        estimate=estimate,
        conflicts=no_conflicts() if data is None else conflicts(data),
        confusions=confusions(ranking, round(estimate.rate * len(ranking))),
        curve=expected_curve(ranking["p_wrong"].to_numpy()),
        summary={HELD_OUT_LOSS: None if learned is None else learned.loss},
        data=data,
    )
    method, unit = analysis.method, "epoch" if learned is None else learned.unit
    summary = {
        "samples": len(ranking),
        "classes": dynamics.num_classes,
        "kind": "dynamics" if data is None else data.kind,
        "model": "as recorded" if learned is None else learned.model,
        "method": method.name,
        "unit": unit,
        **found.summary,
        "estimate": asdict(estimate),
        "notes": [
            *answer(found),
            *([] if learned is None else [learned.how]),
            f"Ranked by {method.name}, {dynamics.gathering or 'in-sample'}, over {_epochs_used(analysis, unit)}.",
            *(as_note(remark) for remark in (() if data is None else data.remarks)),
        ],
        "settings": settings,
        "seconds": round(time.monotonic() - started, 1),
        "version": installed_version(),
    }
    return replace(found, summary=summary)


def _kept(found: Found, out: Path) -> Found:
    """Written to the folder; from here on what an interruption would have needed is not."""
    found.save(out)
    kept = replace(found, dynamics=Dynamics.open(out / DYNAMICS))
    _drop_work(out / WORK)
    return kept


def is_begun(out: Path) -> bool:
    """Whether an interrupted run has left something in its folder to go on from."""
    return (out / WORK).is_dir() and any((out / WORK).iterdir())


def _drop_work(folder: Path) -> None:
    """Remove what unfinished runs have left, and the folder unless something else is in it."""
    for run in folder.glob(KEY_DIGITS * "[0-9a-f]"):
        shutil.rmtree(run, ignore_errors=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _key(data: UserData, wanted: FindOptions, sentences: Path | None) -> str:
    """A name for the work on this data with these wishes: another is begun afresh."""
    told = f"{data.content_hash} {wanted.model} {wanted.folds} {wanted.seed} {installed_version()}"
    if sentences is not None:
        told = f"{told} {model_key(sentences)}"
    return hashlib.sha256(told.encode()).hexdigest()[:KEY_DIGITS]


def _epochs_used(analysis: RunAnalysis, unit: str) -> str:
    """`30 epochs`, or `the first 12 of 30 epochs, before the model begins to memorise`."""
    used, recorded_epochs = analysis.epochs_used, analysis.dynamics.epochs
    every = counted(recorded_epochs, unit)
    return every if used == recorded_epochs else f"the first {used:,} of {every}, before the model begins to memorise"
