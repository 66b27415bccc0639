"""The options of a training by `errata.find`, and the checks before it starts."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errata.core.checks import check_seed, check_whole
from errata.core.neighbours import APPROXIMATE_BEYOND
from errata.errors import InputError
from errata.extras import require
from errata.finding.candidates import ModelName, check_model
from errata.memory import check_fits
from errata.ray_cluster import RayCluster
from errata.readers import UserData

if TYPE_CHECKING:
    from errata.training.recipes import Recipe

MIN_SAMPLES = 10
# Arrays of samples × classes held at once, counted as float32 and measured at the peak: 9 running sums, probabilities
# as float64, and with other samples the means over neighbours or the held-out predictions of each model, and blends.
COPIES, COPIES_WITH_OTHERS = 15, 30


@dataclass(frozen=True)
class FindOptions:
    """How `find` trains: model, folds (None: in-sample), device, seed.

    backbone: the name of the pretrained model that computes features of images or texts (None: `open_pretrained`
    decides). allow_download: whether it may be downloaded.
    recipe: the file of the recipe of an MLP (None: models are tried, and the best is chosen).
    looks: 2 trains a second time, on the labels that the first run trusts and on its predictions for the others; None:
    see `errata.finding.model_training.passes`.
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
        """What determines the results, with the hash of the data. The path of a recipe is absolute."""
        values = {name: value for name, value in asdict(self).items() if name != "ray"}
        recipe = None if self.recipe is None else str(Path(self.recipe).absolute())
        return values | {"recipe": recipe, "data": data.content_hash}


def changed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, by name, that differ from the defaults of `FindOptions`."""
    defaults = asdict(FindOptions())
    return {name: options[name] for name in defaults if options.get(name, defaults[name]) != defaults[name]}


def load_recipe(path: str) -> "Recipe":
    """The recipe of an MLP in a file that `errata choose` wrote."""
    from errata.training.recipes import Recipe

    recipe = Recipe.load(path)
    if recipe.parts > 1:
        raise InputError(f"{path}: an epoch of this recipe is a part of a pass over the data, which find cannot rank")
    return recipe


def check_options(data: UserData, options: FindOptions) -> None:
    """Raise an error, before anything takes time, if the data cannot be trained on with these options."""
    images = data.kind in ("images", "image files")
    require("torch", "torch", "images" if images else "find", "training")
    from errata.training.gather import choose_device

    check_model(data, options.model)
    if options.recipe is not None:
        load_recipe(options.recipe)
        if options.model not in ("auto", "mlp") or images:
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
    copies = COPIES_WITH_OTHERS if uses_other_samples(data) else COPIES
    size = copies * 4.0 * data.samples * data.num_classes
    check_fits(size, f"the predictions for {data.samples:,} samples and {data.num_classes:,} classes")
    if options.ray is not None:
        with RayCluster(options.ray) as cluster:
            cluster.check({})


def uses_other_samples(data: UserData) -> bool:
    """For very many samples, the search for neighbours would take longer than the training, and more memory."""
    return data.samples <= APPROXIMATE_BEYOND
