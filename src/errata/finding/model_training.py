"""A model of the data, trained once: what it said of every sample at every epoch."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from errata.core.default import DEFAULTS_FROM_SUMS
from errata.core.neighbours import APPROXIMATE_BEYOND
from errata.dynamics.ranking import COMPARED
from errata.dynamics.store import Dynamics
from errata.errors import InputError
from errata.extras import require
from errata.finding.candidates import Candidate, ModelName, candidates_for, check_model
from errata.finding.choosing import choose
from errata.finding.trials import CHECKPOINT_SECONDS, FEWEST_SAMPLES
from errata.readers import UserData
from errata.readers.memory import check_fits
from errata.wording import counted

if TYPE_CHECKING:
    from errata.training.gather import SeedResult

# Bytes of logits in memory, where they are held twice for a moment, and in a folder: beyond, running sums are kept.
STREAM_BEYOND, STREAM_BEYOND_ON_DISK = 1 << 28, 1 << 30
STREAMED = tuple(dict.fromkeys([*COMPARED, *DEFAULTS_FROM_SUMS]))
# How often samples × classes are held at once, counted in float32 and measured at the peak: running sums 9 times, the
# probabilities as float64, and votes, means and blends of neighbours besides.
COPIES, COPIES_WITH_NEIGHBOURS = 15, 24


class FindProgress(Protocol):
    """Who is told how far the training is."""

    def say(self, line: str) -> None:
        """Something worth a line is begun."""

    def total(self, epochs: int) -> None:
        """So many epochs are to be trained in all, as far as is known yet."""

    def begin(self, name: str, epochs: int) -> None:
        """Something is trained for so many epochs."""

    def advance(self, epochs: int) -> None:
        """So many more epochs are done."""


class NoProgress:
    """Nobody is told."""

    def say(self, line: str) -> None: ...  # noqa: D102
    def total(self, epochs: int) -> None: ...  # noqa: D102
    def begin(self, name: str, epochs: int) -> None: ...  # noqa: D102
    def advance(self, epochs: int) -> None: ...  # noqa: D102


@dataclass(frozen=True)
class FindOptions:
    """What is asked for: a model, folds to train out-of-sample (None: in-sample), a device, a seed.

    embed: the folder of a sentence model that texts are embedded by (None: texts are weighted terms).
    """

    model: ModelName = "auto"
    folds: int | None = None
    device: str = "auto"
    seed: int = 0
    embed: str | None = None


def changed_options(wishes: Mapping[str, Any]) -> dict[str, Any]:
    """Those wishes of a `FindOptions`, by name, that are not the usual ones."""
    usual = asdict(FindOptions())
    return {name: wishes[name] for name in usual if wishes.get(name, usual[name]) != usual[name]}


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """The dynamics of all samples, the model they come from, and how it was chosen, in words.

    loss: its log loss on samples held out, if it is known. unit: what one step of its training is called.
    """

    dynamics: Dynamics
    model: str
    how: str
    loss: float | None
    unit: str


def train_model(data: UserData, wanted: FindOptions, folder: Path | None, watcher: FindProgress) -> TrainedModel:
    """Choose a model, train it, and hand back what it said of every sample at every epoch.

    In a folder, what an interrupted call has done already is not done again.
    """
    check_options(data, wanted)
    candidates = candidates_for(data, wanted.model, wanted.seed, wanted.device)
    trials = sum(candidate.recipe.epochs for candidate in candidates)
    watcher.total(trials)
    choice = choose(candidates, data, wanted.device, folder, watcher)
    chosen, unit = choice.candidate, "round" if choice.candidate.model is None else "epoch"
    watcher.total(trials + (wanted.folds or 1) * chosen.recipe.epochs)
    dynamics = _train_once(chosen, data, wanted, folder, watcher)
    model = f"{chosen.title}, {counted(chosen.recipe.epochs, unit)}"
    return TrainedModel(_of_samples(dynamics, data, wanted), model, choice.how, choice.loss, unit)


def check_options(data: UserData, wanted: FindOptions) -> None:
    """Refuse what cannot be learned as it is wanted, before anything takes time."""
    require("torch", "torch", "torch", "training")
    from errata.training.validation import check_device

    check_model(data, wanted.model)
    check_device(wanted.device)
    if data.samples < FEWEST_SAMPLES:
        raise InputError(f"there are {data.samples} samples; finding wrong labels takes at least {FEWEST_SAMPLES}")
    if wanted.folds is not None and not 2 <= wanted.folds <= data.samples:
        raise InputError(f"{data.samples:,} samples cannot be dealt out to {wanted.folds} folds; take 2 to 10")
    copies = COPIES_WITH_NEIGHBOURS if _asks_neighbours(data) else COPIES
    size = copies * 4.0 * data.samples * data.num_classes
    check_fits(size, f"what a model says of {data.samples:,} samples and {data.num_classes:,} classes")


def _train_once(
    chosen: Candidate, data: UserData, wanted: FindOptions, folder: Path | None, watcher: FindProgress
) -> Dynamics:
    """All samples once, or once a fold."""
    from errata.training.recipes import BoostingRecipe

    watcher.begin(f"training {chosen.title}", (wanted.folds or 1) * chosen.recipe.epochs)
    size = 4 * chosen.recipe.epochs * data.samples * data.num_classes
    most = STREAM_BEYOND if folder is None else STREAM_BEYOND_ON_DISK
    streams = size > most and wanted.folds is None
    own = _Training(chosen, data, wanted, None if streams else folder, STREAMED if streams else None, watcher.advance)
    gathered = own.boost() if isinstance(chosen.recipe, BoostingRecipe) else own.train()
    if gathered.dynamics is None:
        raise InputError(f"the training failed: {gathered.stopped}; try another --model or --seed")
    return gathered.dynamics


@dataclass(frozen=True, eq=False)
class _Training:
    """One call of the training engine, whatever is trained and however it is gathered."""

    chosen: Candidate
    data: UserData
    wanted: FindOptions
    folder: Path | None
    stream: tuple[str, ...] | None
    progress: Callable[[int], object]

    def boost(self) -> "SeedResult":
        """LightGBM."""
        from errata.training.boosting import boost_in_sample, boost_out_of_sample
        from errata.training.model_inputs import TableInputs
        from errata.training.recipes import BoostingRecipe

        inputs, recipe = self.chosen.inputs, self.chosen.recipe
        assert isinstance(inputs, TableInputs)
        assert isinstance(recipe, BoostingRecipe)
        labels, classes, seeds = self.data.labels, self.data.num_classes, (self.wanted.seed,)
        if self.wanted.folds is None:
            (gathered,) = boost_in_sample(
                inputs,
                labels,
                classes,
                recipe,
                seeds=seeds,
                folder=self.folder,
                stream=self.stream,
                progress=self.progress,
            )
        else:
            (gathered,) = boost_out_of_sample(
                inputs,
                labels,
                classes,
                recipe,
                seeds=seeds,
                folds=self.wanted.folds,
                folder=self.folder,
                progress=self.progress,
            )
        return gathered

    def train(self) -> "SeedResult":
        """A network."""
        from errata.training.gather import in_sample, out_of_sample
        from errata.training.recipes import Recipe
        from errata.training.tracks import TrainingOptions

        model, recipe = self.chosen.model, self.chosen.recipe
        assert model is not None
        assert isinstance(recipe, Recipe)
        labels, classes, seeds = self.data.labels, self.data.num_classes, (self.wanted.seed,)
        features = _asks_neighbours(self.data)
        options = TrainingOptions(
            swa=False, features=features, checkpoint_seconds=CHECKPOINT_SECONDS, stream=self.stream
        )
        if self.wanted.folds is None:
            (gathered,) = in_sample(
                self.chosen.inputs,
                labels,
                classes,
                model,
                recipe,
                seeds=seeds,
                options=options,
                device=self.wanted.device,
                folder=self.folder,
                progress=self.progress,
            )
        else:
            (gathered,) = out_of_sample(
                self.chosen.inputs,
                labels,
                classes,
                model,
                recipe,
                folds=self.wanted.folds,
                seeds=seeds,
                options=options,
                device=self.wanted.device,
                folder=self.folder,
                progress=self.progress,
            )
        return gathered


def _of_samples(dynamics: Dynamics, data: UserData, wanted: FindOptions) -> Dynamics:
    """The dynamics under the ids and class names of the data, with the points among which neighbours can be sought.

    Features of the models of different folds have nothing in common.
    """
    few = _are_few(data)
    return replace(
        dynamics,
        ids=data.ids,
        classes=data.classes,
        features=dynamics.features if few and wanted.folds is None else None,
        inputs=dynamics.inputs if few else None,
        path=None,
    )


def _asks_neighbours(data: UserData) -> bool:
    """Rare words say little of distances, and a model of them memorises."""
    return _are_few(data) and not data.is_terms


def _are_few(data: UserData) -> bool:
    """Among very many samples a search for neighbours would take longer than the training, and more memory."""
    return data.samples <= APPROXIMATE_BEYOND
