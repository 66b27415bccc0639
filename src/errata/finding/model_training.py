"""Choose a model for a user's data, train it, and return the dynamics of every sample."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.core.default import BEATS_HELD_OUT, DEFAULTS_FROM_SUMS
from errata.core.held_out_models import held_out_predictions, log_loss
from errata.core.pooling import pool
from errata.dynamics.ranking import COMPARED
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.finding.candidates import candidates_for, has_images
from errata.finding.cluster_training import by_scratch_folder, train_on_cluster
from errata.finding.find_options import FindOptions, load_recipe, uses_other_samples
from errata.finding.second_look import LookAgain, look_again
from errata.finding.sources import DataSource
from errata.readers import UserData
from errata.readers.features import FrameFeatures
from errata.terminal import NoProgress, TrainingProgress
from errata.wording import counted, gigabytes

if TYPE_CHECKING:
    from errata.training.backbones import Backbone
    from errata.training.search import ModelTrial
    from errata.training.trials import Candidate

RECORDED = "as recorded"  # the model of dynamics that were not trained here
CHECKPOINT_SECONDS = 10.0  # of training, at most, are lost on Ctrl-C
# Epochs to train, as a multiple of the number with the lowest validation loss. The ranking averages over epochs, and
# the first ones are undecided: on Satellite, boosting then misses 7.9 % of the errors instead of 8.9 %. Models of words
# memorise too early for this.
EXTEND, EXTEND_FOR_TERMS = 1.5, 1.0
# Above this size of all logits in bytes, running sums are kept instead. In memory, logits are held twice for a moment.
MAX_LOGITS, MAX_LOGITS_ON_DISK = 1 << 28, 1 << 30
STREAMED = tuple(dict.fromkeys([*COMPARED, *DEFAULTS_FROM_SUMS]))


@dataclass(frozen=True, eq=False)
class RunToRank:
    """Dynamics, and what is known about them.

    data: their samples, and source: where these were read; None if unknown. settings: the options of the training.
    model: the model that `find` trained, how: a sentence on how it was chosen, and loss: its log loss on the validation
    split; all unknown for recorded dynamics. unit: "epoch" or "round".
    """

    dynamics: Dynamics
    data: UserData | None = None
    source: DataSource | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    model: str = RECORDED
    how: str | None = None
    loss: float | None = None
    unit: str = "epoch"
    look_again: LookAgain | None = None


def train_model(
    data: UserData,
    options: FindOptions,
    folder: Path | None,
    progress: TrainingProgress,
    backbone: "Backbone | None" = None,
) -> RunToRank:
    """Choose a model, train it, and return its dynamics; an interrupted call resumes from the folder.

    backbone: the network that computed the features of the images, if it may be fine-tuned.
    """
    from errata.training.recipes import BoostingRecipe

    if options.recipe is None:
        chosen, how, loss, planned = _choose(data, options, folder, progress, backbone)
    else:
        chosen, how, loss, planned = _of_recipe(data, options, progress)
    unit = "round" if isinstance(chosen.recipe, BoostingRecipe) else "epoch"
    epochs = (options.folds or 1) * chosen.recipe.epochs
    progress.begin(f"training {chosen.title}", epochs)
    dynamics = _train(chosen, data, options, folder, lambda done: progress.advance(done * planned / epochs))
    return RunToRank(
        _described(dynamics, data, options, loss, progress),
        data,
        settings=options.stored(data),
        model=f"{_title(chosen, data)}, {counted(chosen.recipe.epochs, unit)}",
        how=how,
        loss=loss,
        unit=unit,
        look_again=_look_again(chosen, data, options, folder, progress, planned),
    )


def _choose(
    data: UserData,
    options: FindOptions,
    folder: Path | None,
    progress: TrainingProgress,
    backbone: "Backbone | None",
) -> tuple["Candidate", str, float | None, int]:
    """The candidate with the lowest validation loss, why, that loss, and the number of epochs in the progress."""
    from errata.training.recipes import Recipe
    from errata.training.search import choose_model

    candidates = candidates_for(data, options.model, options.seed, options.device, backbone)
    if options.looks == 2:
        candidates = [candidate for candidate in candidates if isinstance(candidate.recipe, Recipe)]
    trial_epochs = sum(candidate.recipe.epochs for candidate in candidates)
    # The number of epochs to train for is known only after the trials: the longest is planned, and counted in full.
    planned = (options.folds or 1) * max(candidate.recipe.epochs for candidate in candidates)
    most_passes = max(passes(candidate, data, options) for candidate in candidates)
    progress.total(trial_epochs + planned * most_passes)  # a second pass counts as a first
    trials = choose_model(
        candidates,
        data.labels,
        data.num_classes,
        device=options.device,
        extend=EXTEND_FOR_TERMS if data.is_terms else EXTEND,
        folder=folder,
        checkpoint_seconds=CHECKPOINT_SECONDS,
        begin=progress.begin,
        progress=progress.advance,
    )
    return trials[0].candidate, _reason(trials, data), trials[0].loss, planned


def _of_recipe(
    data: UserData, options: FindOptions, progress: TrainingProgress
) -> tuple["Candidate", str, float | None, int]:
    """The MLP of a recipe, which is not tried, as from `_choose`."""
    from errata.training.model_inputs import TableInputs
    from errata.training.trials import Candidate

    assert options.recipe is not None
    recipe = load_recipe(options.recipe).with_seed(options.seed)
    chosen = Candidate("mlp", TableInputs(data.prepare().matrix), None, recipe)
    planned = (options.folds or 1) * recipe.epochs
    progress.total(planned * passes(chosen, data, options))
    return chosen, f"The model is {chosen.title}, trained by the recipe in {options.recipe}.", None, planned


def _title(chosen: "Candidate", data: UserData) -> str:
    on_features = data.embedded and chosen.name == "mlp"
    return f"{chosen.title} on features of {data.backbone}" if on_features else chosen.title


def _train(
    chosen: "Candidate",
    data: UserData,
    options: FindOptions,
    folder: Path | None,
    progress: Callable[[int], object],
) -> Dynamics:
    """Train on all samples, once or once per fold."""
    from errata.training.gather import gather
    from errata.training.jobs import TrainingOptions
    from errata.training.out_of_memory import out_of_memory

    if options.ray is not None and folder is None:
        return by_scratch_folder(lambda scratch: _train(chosen, data, options, scratch, progress))
    size = _logits_bytes(chosen, data)
    streams = options.folds is None and size > (MAX_LOGITS if folder is None else MAX_LOGITS_ON_DISK)
    if streams and options.ray is not None:
        raise InputError(
            f"a Ray task cannot return the {gigabytes(size)} of logits of this run: leave out `ray`, or use `folds`"
        )
    training_options = TrainingOptions(
        swa=False,
        features=_records_features(chosen, data),
        checkpoint_seconds=CHECKPOINT_SECONDS,
        stream=STREAMED if streams else None,
    )
    if options.ray is not None and folder is not None:
        how = options.folds, options.seed, training_options, options.device
        train_on_cluster(options.ray, chosen, data, *how, folder, progress)
        progress = NoProgress().advance  # it is read from the folder, and folds are merged
    with out_of_memory(chosen.title):
        (result,) = gather(
            chosen.inputs,
            data.labels,
            data.num_classes,
            chosen.model,
            chosen.recipe,
            folds=options.folds,
            seeds=(options.seed,),
            options=training_options,
            device=options.device,
            folder=None if streams else folder,
            progress=progress,
        )
    if result.dynamics is None:
        raise InputError(f"the training failed: {result.stopped}; try another `model=` or `seed=`")
    return result.dynamics


def passes(candidate: "Candidate", data: UserData, options: FindOptions) -> int:
    """How often the candidate is trained: as `looks` says, or twice if it learns from pixels on a GPU.

    There, a second pass found more errors on every setting of docs/backbones.md. A run whose logits do not fit in
    memory has one pass.
    """
    if options.looks is not None:
        return options.looks
    from errata.training.gather import choose_device
    from errata.training.model_inputs import TableInputs

    from_pixels = not isinstance(candidate.inputs, TableInputs)
    fits = _logits_bytes(candidate, data) <= MAX_LOGITS
    return 2 if from_pixels and fits and options.folds is None and choose_device(options.device).type != "cpu" else 1


def _logits_bytes(candidate: "Candidate", data: UserData) -> int:
    return 4 * candidate.recipe.epochs * data.samples * data.num_classes


def _look_again(
    chosen: "Candidate",
    data: UserData,
    options: FindOptions,
    folder: Path | None,
    progress: TrainingProgress,
    planned: int,
) -> LookAgain | None:
    """A function that trains the second pass, if there is one; its progress adds up to `planned`."""
    if passes(chosen, data, options) == 1:
        return None
    how = {"seed": options.seed, "device": options.device, "checkpoint_seconds": CHECKPOINT_SECONDS}
    how |= {"features": _records_features(chosen, data)}
    own = None if folder is None else folder / "second-pass"
    return look_again(chosen, data, how, options.ray, own, progress, planned)


def _reason(trials: "Sequence[ModelTrial]", data: UserData) -> str:
    """A sentence on why the first trial was chosen over the others."""
    from errata.training.search import clear_difference

    best, *others = trials
    compared = f", against {others[0].loss:.3f} of {others[0].candidate.title}" if others else ""
    if others and others[0].loss < best.loss:
        compared += f", which would have to be {clear_difference(data.samples):.1%} lower to be chosen"
    return (
        f"The model is {best.candidate.title}, chosen by its log loss on a held-out fifth of the samples: "
        f"{best.loss:.3f}{compared}."
    )


def _described(
    dynamics: Dynamics, data: UserData, options: FindOptions, loss: float | None, progress: TrainingProgress
) -> Dynamics:
    """The dynamics with the ids and classes of the data, and with what the ranking uses besides the run.

    With folds there are no features: those of different models cannot be compared. loss: the log loss of the model on
    the validation split, if it was tried.
    """
    described = replace(dynamics, ids=data.ids, classes=data.classes, features=None, inputs=None, path=None)
    if not uses_other_samples(data):
        return described
    features = dynamics.features if options.folds is None else None
    if data.fit_features is None:
        return replace(described, features=features)
    import torch

    from errata.training.model_inputs import TableInputs
    from errata.training.search import model_split

    progress.begin("predicting labels that are held out", 0)
    predictions, inputs = [], dynamics.inputs
    if inputs is None and data.embedded:  # the model learned from pixels
        inputs = TableInputs(data.prepare().matrix).scaled(torch.arange(data.samples)).numpy()
    if inputs is not None:
        predictions += held_out_predictions(inputs, data.labels, data.num_classes)
    if data.kind == "text" and isinstance(data.fit_features, FrameFeatures):
        predictions += held_out_predictions(data.fit_features.terms(), data.labels, data.num_classes)
    held_out = pool(predictions, data.labels)
    if held_out is None:
        return replace(described, features=features, inputs=inputs)
    rows = model_split(data.labels, data.num_classes, options.seed).validation_rows
    # The pool has the same kinds of models of frozen features: that one is better by chance only (docs/backbones.md).
    on_frozen_features = has_images(data) and data.embedded and dynamics.inputs is not None
    beaten = loss is not None and not on_frozen_features and loss < log_loss(held_out[rows], data.labels[rows])
    return replace(
        described,
        features=features,
        inputs=inputs,
        held_out=held_out.astype(np.float32),
        settings=dynamics.settings | ({BEATS_HELD_OUT: True} if beaten else {}),
    )


def _records_features(chosen: "Candidate", data: UserData) -> bool:
    """Whether the model's own features are used to find neighbours.

    TF-IDF terms give poor distances, and a model of them memorises. Features of a backbone are known before training.
    """
    return uses_other_samples(data) and not data.is_terms and (chosen.name == "mlp" or not data.embedded)
