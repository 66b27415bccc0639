"""errata.find: from labelled data to the list of labels that are probably wrong.

open -> choose and train a model (or take recorded dynamics) -> rank -> answer -> write
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.core.random_part import EVERY, design_seed
from errata.dynamics.files import DYNAMICS
from errata.dynamics.ranking import analyse, ranking_table, with_second_pass
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.finding.answer import (
    answer,
    how_ranked,
    notes,
    reasons,
    samples_described,
    states_number,
    what_was_read,
)
from errata.finding.attached_data import recorded_run, refuse_to_lose_contents
from errata.finding.conflicts import conflicts
from errata.finding.find_options import FindOptions, changed_options, check_options, load_recipe
from errata.finding.found import Found, check_folder, no_conflicts
from errata.finding.found_files import read_summary
from errata.finding.model_training import RunToRank, train_model
from errata.finding.out_folder import KEY_DIGITS, ORIGIN, features_folder, keep_features, origin, write_results
from errata.finding.pretrained import PretrainedModel, backbone_name, open_pretrained
from errata.finding.second_look import NO_SECOND_PASS
from errata.finding.sources import DataSource
from errata.finding.trust import trust_lines
from errata.readers import UserData
from errata.terminal import NoProgress, TrainingProgress
from errata.version import installed_version

if TYPE_CHECKING:
    from errata.finding.candidates import ModelName


def find(
    source: Any,
    label: Any = None,
    *,
    data: Any = None,
    text: str | Sequence[str] | None = None,
    id: Any = None,  # noqa: A002
    backbone: Any = None,
    allow_download: bool = False,
    recipe: str | Path | None = None,
    model: "ModelName" = "auto",
    folds: int | None = None,
    looks: int | None = None,
    ray: str | None = None,
    device: str = "auto",
    seed: int = 0,
    out: str | Path | None = None,
    overwrite: bool = False,
    ignore: str | Sequence[str] | None = None,
    skip_bad: bool = False,
    merge_labels: bool = False,
    excel_safe: bool = False,
    progress: TrainingProgress | None = None,
) -> Found:
    """Find the samples whose labels are probably wrong. The data are never changed.

    source: inputs with `label` as the labels, as in find(X, y); a data frame or a file with `label` as the name of the
    label column; or a folder of images. A model is trained on these, in-sample, or once per fold, out-of-sample, with
    `folds`. Dynamics, a folder of them, or saved logits with labels are ranked without training.
    label, text, id, ignore, skip_bad: how to read the data; `errata find --help` describes the options of these names.
    merge_labels: labels that differ only in spaces, capitals, type or the spelling of a number are one class, named by
    the most frequent of them.
    data: for dynamics and logits, their samples in any of these forms, so that the report can show them. They are
    matched by id, by default the row number. label, text, id, ignore and skip_bad then describe `data`; arrays and data
    frames need no label.
    backbone: a pretrained model. For images: `lite0` (the default if errata[images] is installed), `lite2`, a folder or
    cached name of an image model for transformers, any torch.nn.Module that returns features, or "none" to train on the
    pixels only. On a GPU, models on its features, the fine-tuned backbone and a network trained from scratch are tried,
    and the one that predicts held-out labels best is used; on a CPU, models on its features, or model="fine-tuned".
    For texts: a folder with a sentence-transformers model.
    allow_download: whether a backbone that is not in the cache of transformers may be downloaded.
    recipe: a file that `errata choose` wrote, with the network and how it is trained; no other model is tried.
    looks: 2 trains the model again, on the labels that the first run trusts and on its predictions for the others, and
    ranks by both runs together. Not for gradient boosting, and not with folds. By default 2 for networks that learn
    from pixels on a GPU, otherwise 1. If fewer than 3.5 % of the labels seem to be wrong, there is no second pass.
    ray: "auto" or HOST:PORT of a Ray cluster, which trains the run, each fold or the second pass as one task. The
    results are the same.
    out: a folder for the ranking, the report and the dynamics. The same call resumes an interrupted one.
    overwrite: replace results of other data in that folder.
    excel_safe: text in .csv files that spreadsheets would run as a formula gets an apostrophe in front.
    progress: an object with the methods say(line), total(epochs), begin(name, epochs) and advance(epochs), called while
    a model is trained; None is silent.

    >>> import errata
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> y[0] = 2  # a wrong label
    >>> found = errata.find(X, y, model="mlp")
    >>> found.ranking[["id", "label", "suggested"]].head(1).to_dict("records")
    [{'id': 0, 'label': 2, 'suggested': 0}]
    """
    started = time.monotonic()
    progress = progress or NoProgress()
    if not isinstance(out, str | Path | None):
        raise InputError(f"`out=` must be the path of a folder, not {type(out).__name__}")
    folder = None if out is None else Path(out)
    if folder is not None:
        check_folder(folder)
    backbone = str(backbone) if isinstance(backbone, Path) else backbone
    recipe_file = None if recipe is None else str(recipe)
    options = FindOptions(model, folds, device, seed, backbone_name(backbone), recipe_file, allow_download, looks, ray)
    described = DataSource(source, label, text, id, skip_bad, ignore, merge_labels)
    opened = described.open()
    if isinstance(opened, Dynamics):
        opened.verify()
        recorded = recorded_run(opened, described, data, options)
        if folder is not None and not overwrite:
            refuse_to_lose_contents(recorded, folder)
    elif data is not None:
        raise InputError(f"`data=` is for recorded dynamics and logits; {described.path or 'the source'} holds samples")
    else:
        check_options(opened, options)
        pretrained = open_pretrained(opened, backbone, options.model, options.device, options.allow_download)
    with nullcontext() if folder is None else write_results(folder, opened, described, overwrite) as work:
        for line in what_was_read(str(described.path or "data"), opened):
            progress.say(line)
        if isinstance(opened, Dynamics):
            run = recorded
        else:
            stored = None if folder is None or pretrained is None else features_folder(folder, opened, pretrained.key)
            run = _train(opened, described, options, pretrained, work, stored, progress)
            if folder is not None:
                keep_features(folder, stored)
        found = rank_run(run, started)
        found.summary[ORIGIN] = origin(folder, opened, described)
        return found if folder is None else _write(found, run.source, folder, excel_safe)


def find_again(folder: Path, labels: Mapping[str, str]) -> Found:
    """Train as for the results in `folder`, on the same data with verified labels, by id. Writes no results.

    Features of a pretrained model that are stored in the folder are not computed again.
    """
    started, summary = time.monotonic(), read_summary(folder)
    described = DataSource.from_summary(summary, folder)
    data = None if described is None else described.reopen()
    if described is None or not isinstance(data, UserData):
        raise InputError(
            "only results of a file or folder of samples can be trained again: the path of these is unknown"
        )
    classes = {str(name): code for code, name in enumerate(data.classes)}
    values, given = list(data.classes), data.labels.copy()
    rows = {str(id_): row for row, id_ in enumerate(data.ids.tolist())}
    for id_, label in labels.items():
        if id_ not in rows:
            raise InputError(f"{described.source} has no sample {id_!r} any more")
        if label not in classes:
            classes[label] = len(values)
            values.append(label)
        given[rows[id_]] = classes[label]
    data = replace(data, labels=given, classes=tuple(values))
    options = FindOptions(**changed_options(summary.get("settings", {})))
    check_options(data, options)
    pretrained = open_pretrained(data, options.backbone, options.model, options.device, options.allow_download)
    stored = None if pretrained is None else features_folder(folder, data, pretrained.key)
    if stored is not None and not stored.is_dir():
        stored = None
    return rank_run(_train(data, described, options, pretrained, None, stored, NoProgress()), started)


def _train(
    data: UserData,
    described: DataSource,
    options: FindOptions,
    pretrained: PretrainedModel | None,
    work: Path | None,
    stored: Path | None,
    progress: TrainingProgress,
) -> RunToRank:
    """Choose a model and train it. With a folder `work`, finished steps of an interrupted call are not repeated.

    stored: the folder of the features of the pretrained model, which are computed if they are not there.
    """
    own = None if work is None else work / _work_key(data, options, pretrained)
    if pretrained is not None:
        data = pretrained.embed(data, stored, progress)
    backbone = None if pretrained is None else pretrained.backbone
    return replace(train_model(data, options, own, progress, backbone), source=described)


def _work_key(data: UserData, options: FindOptions, pretrained: PretrainedModel | None) -> str:
    """The name of the folder with resume files: one per data, options and version."""
    text = f"{data.content_hash} {data.columns} {options.model} {options.folds} {options.seed} {installed_version()}"
    if pretrained is not None:
        text = f"{text} {pretrained.key}"
    if options.recipe is not None:
        text = f"{text} {load_recipe(options.recipe)}"
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def rank_run(run: RunToRank, started: float) -> Found:
    """Rank the samples and write the summary."""
    analysis = analyse(run.dynamics, compare=True)
    second = None if run.look_again is None else run.look_again(analysis)
    how = f"{run.how} {NO_SECOND_PASS}" if run.look_again is not None and second is None else run.how
    if second is not None:
        analysis = with_second_pass(analysis, second)
    ranking, estimate = ranking_table(analysis), analysis.rate
    summary: dict[str, Any] = {
        "samples": len(ranking),
        "classes": run.dynamics.num_classes,
        "kind": "dynamics" if run.data is None else run.data.kind,
        "model": run.model,
        "model_choice": how,
        "method": analysis.method.name,
        "unit": run.unit,
        "epochs_used": analysis.epochs_used,
        "passes": 1 if second is None else 2,
        "held_out_loss": run.loss,
        "random_part": {"seed": design_seed(run.dynamics.labels), "share": 1 / EVERY},
        "estimate": asdict(estimate),
        "trust": [],
        "remarks": [] if run.data is None else [f"{remark}." for remark in run.data.remarks],
        "notes": [],
        "settings": run.settings,
        "seconds": 0.0,
        "version": installed_version(),
    }
    found = Found(
        ranking=ranking,
        dynamics=run.dynamics,
        estimate=estimate,
        conflicts=no_conflicts() if run.data is None else conflicts(run.data),
        summary=summary,
        data=run.data,
    )
    stated = estimate if states_number(found) else None
    summary["trust"] = trust_lines(analysis, ranking, stated, samples_described(found), run.loss, run.unit)
    summary["notes"] = [*answer(found), how_ranked(found), *summary["trust"], *reasons(found), *notes(found)]
    summary["seconds"] = round(time.monotonic() - started, 1)
    return found


def _write(found: Found, source: DataSource | None, out: Path, excel_safe: bool) -> Found:
    """Write everything to the folder."""
    stored = None if source is None else source.for_summary(out)
    if stored is not None:
        found = replace(found, summary=found.summary | {"source": stored})
    found.save(out, excel_safe=excel_safe)
    return replace(found, dynamics=Dynamics.open(out / DYNAMICS))
