"""Choose a model for a user's data, train it, and return the dynamics of every sample."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from errata.core.checks import check_seed, check_whole
from errata.core.default import BEATS_HELD_OUT, DEFAULTS_FROM_SUMS
from errata.core.held_out_models import held_out_predictions, log_loss
from errata.core.neighbours import APPROXIMATE_BEYOND
from errata.core.pooling import pool
from errata.dynamics.ranking import COMPARED
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.extras import require
from errata.finding.candidates import ModelName, candidates_for, check_model
from errata.finding.cluster_training import by_scratch_folder, train_on_cluster
from errata.finding.second_look import LookAgain, look_again
from errata.finding.sources import DataSource
from errata.memory import check_fits
from errata.readers import UserData
from errata.readers.features import FrameFeatures
from errata.terminal import TrainingProgress
from errata.wording import counted

if TYPE_CHECKING:
    from errata.training.backbones import Backbone
    from errata.training.recipes import Recipe
    from errata.training.search import ModelTrial
    from errata.training.trials import Candidate

RECORDED = "as recorded"  # the model of dynamics that were not trained here
MIN_SAMPLES = 10
CHECKPOINT_SECONDS = 10.0  # at most so much training is lost on Ctrl-C
# Epochs to train, as a multiple of the number with the lowest validation loss. The ranking averages over epochs, and
# the first ones are undecided: on Satellite, boosting then misses 7.9 % of the errors instead of 8.9 %. Models of words
# memorise too early for this.
EXTEND, EXTEND_FOR_TERMS = 1.5, 1.0
# Above this size of all logits in bytes, running sums are kept instead. In memory, logits are held twice for a moment.
MAX_LOGITS, MAX_LOGITS_ON_DISK = 1 << 28, 1 << 30
STREAMED = tuple(dict.fromkeys([*COMPARED, *DEFAULTS_FROM_SUMS]))
# Arrays of samples × classes held at once, counted as float32 and measured at the peak: 9 running sums, probabilities
# as float64, and with other samples the means over neighbours or the held-out predictions of each model, and blends.
COPIES, COPIES_WITH_OTHERS = 15, 30


class NoProgress:
    """Progress that is not shown."""

    def say(self, line: str) -> None: ...  # noqa: D102
    def total(self, epochs: int) -> None: ...  # noqa: D102
    def begin(self, name: str, epochs: int) -> None: ...  # noqa: D102
    def advance(self, epochs: float) -> None: ...  # noqa: D102


@dataclass(frozen=True)
class FindOptions:
    """How `find` trains: model, folds (None: in-sample), device, seed.

    backbone: the name of the pretrained model that computes features of images or texts (None: `open_pretrained`
    decides). allow_download: whether it may be downloaded.
    recipe: the file of the recipe of an MLP (None: models are tried, and the best is chosen).
    looks: 2 trains a second time, on what the first run believes about the labels; None: see `passes`.
    ray: the address of a Ray cluster that trains the run, or its folds, and the second pass; it does not change the
    results.
    """

    model: ModelName = "auto"
    folds: int | None = None
    device: str = "auto"
    seed: int = 0
    backbone: str | None = None
    recipe: str | None = None
    allow_download: bool = False
    looks: int | None = None
    ray: str | None = None

    def stored(self, data: UserData) -> dict[str, Any]:
        """What determines the results, with the hash of the data."""
        return {name: value for name, value in asdict(self).items() if name != "ray"} | {"data": data.content_hash}


def changed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, by name, that differ from the defaults of `FindOptions`."""
    defaults = asdict(FindOptions())
    return {name: options[name] for name in defaults if options.get(name, defaults[name]) != defaults[name]}


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
    from errata.training.search import choose_model

    if options.recipe is not None:
        return _train_by_recipe(data, options, folder, progress)
    candidates = candidates_for(data, options.model, options.seed, options.device, backbone)
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
    chosen = trials[0].candidate
    unit = "round" if isinstance(chosen.recipe, BoostingRecipe) else "epoch"
    epochs = (options.folds or 1) * chosen.recipe.epochs
    if options.looks == 2 and unit == "round":
        raise InputError("boosting has no second pass: use `looks=1`, or `model='mlp'`")
    progress.begin(f"training {chosen.title}", epochs)
    dynamics = _train(chosen, data, options, folder, lambda done: progress.advance(done * planned / epochs))
    return RunToRank(
        _described(dynamics, data, options, trials[0].loss, progress),
        data,
        settings=options.stored(data),
        model=f"{_title(chosen, data)}, {counted(chosen.recipe.epochs, unit)}",
        how=_reason(trials, data),
        loss=trials[0].loss,
        unit=unit,
        look_again=_look_again(chosen, data, options, folder, progress, planned),
    )


def _train_by_recipe(
    data: UserData, options: FindOptions, folder: Path | None, progress: TrainingProgress
) -> RunToRank:
    """Train the MLP of a recipe, without trials."""
    from errata.training.model_inputs import TableInputs
    from errata.training.trials import Candidate

    assert options.recipe is not None
    recipe = load_recipe(options.recipe).with_seed(options.seed)
    chosen = Candidate("mlp", TableInputs(data.prepare().matrix), None, recipe)
    epochs = (options.folds or 1) * recipe.epochs
    progress.total(epochs * passes(chosen, data, options))
    progress.begin(f"training {chosen.title}", epochs)
    dynamics = _train(chosen, data, options, folder, progress.advance)
    return RunToRank(
        _described(dynamics, data, options, None, progress),
        data,
        settings=options.stored(data),
        model=f"{_title(chosen, data)}, {counted(recipe.epochs, 'epoch')}",
        how=f"The model is {chosen.title}, trained by the recipe in {options.recipe}.",
        look_again=_look_again(chosen, data, options, folder, progress, epochs),
    )


def _title(chosen: "Candidate", data: UserData) -> str:
    on_features = data.embedded and chosen.name == "mlp"
    return f"{chosen.title} on features of {data.backbone}" if on_features else chosen.title


def load_recipe(path: str) -> "Recipe":
    """The recipe of an MLP in a file that `errata choose` wrote."""
    from errata.training.recipes import Recipe

    recipe = Recipe.load(path)
    if recipe.parts > 1:
        raise InputError(f"{path}: an epoch of this recipe is a part of a pass over the data, which find cannot rank")
    return recipe


def check_options(data: UserData, options: FindOptions) -> None:
    """Raise an error, before anything takes time, if the data cannot be trained on with these options."""
    require("torch", "torch", "torch", "training")
    from errata.training.gather import choose_device

    check_model(data, options.model)
    if options.recipe is not None:
        load_recipe(options.recipe)
        if options.model not in ("auto", "mlp") or data.kind in ("images", "image files"):
            raise InputError("`recipe=` is for an MLP on a table or text: pass neither images nor another `model=`")
    if options.looks not in (None, 1, 2):
        raise InputError(f"looks must be 1 or 2, not {options.looks!r}")
    if options.looks == 2 and options.folds is not None:
        raise InputError("a second pass needs a model that is trained on all samples: pass no `folds=` with `looks=2`")
    if options.looks == 2 and options.model == "boosting":
        raise InputError("boosting has no second pass: use `looks=1`, or `model='mlp'`")
    choose_device(options.device)
    check_seed(options.seed)
    if options.folds is not None:
        check_whole("folds", options.folds, 2)
    if data.samples < MIN_SAMPLES:
        raise InputError(f"there are {data.samples} samples; finding wrong labels needs at least {MIN_SAMPLES}")
    if options.folds is not None and options.folds > data.samples:
        raise InputError(f"{data.samples:,} samples cannot be split into {options.folds} folds; use 2 to 10")
    copies = COPIES_WITH_OTHERS if _uses_other_samples(data) else COPIES
    size = copies * 4.0 * data.samples * data.num_classes
    check_fits(size, f"the predictions for {data.samples:,} samples and {data.num_classes:,} classes")


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

    if options.ray is not None and folder is None:
        return by_scratch_folder(lambda scratch: _train(chosen, data, options, scratch, progress))
    size = _logits_bytes(chosen, data)
    streams = options.folds is None and size > (MAX_LOGITS if folder is None else MAX_LOGITS_ON_DISK)
    training_options = TrainingOptions(
        swa=False,
        features=_records_features(chosen, data),
        checkpoint_seconds=CHECKPOINT_SECONDS,
        stream=STREAMED if streams else None,
    )
    if options.ray is not None and folder is not None and not streams:
        how = options.folds, options.seed, training_options, options.device
        train_on_cluster(options.ray, chosen, data, *how, folder, progress)
        progress = NoProgress().advance  # it is read from the folder, and folds are merged
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
    if not _uses_other_samples(data):
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
    beaten = loss is not None and loss < log_loss(held_out[rows], data.labels[rows])
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
    return _uses_other_samples(data) and not data.is_terms and (chosen.name == "mlp" or not data.embedded)


def _uses_other_samples(data: UserData) -> bool:
    """For very many samples, the search for neighbours would take longer than the training, and more memory."""
    return data.samples <= APPROXIMATE_BEYOND
