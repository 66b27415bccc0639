"""Models that suit a user's data, each with how it would be trained at most."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.extras import require_pillow
from errata.readers import UserData
from errata.readers.memory import check_fits
from errata.readers.stored_images import StoredImages

if TYPE_CHECKING:
    from PIL import Image

    from errata.training.gather import Model
    from errata.training.model_inputs import Inputs
    from errata.training.recipes import AnyRecipe, Recipe

ModelName = Literal["auto", "boosting", "mlp", "cnn4", "cnn9", "resnet18"]
OF_IMAGES = ("cnn4", "cnn9", "resnet18")
# Hidden widths, learning rate and weight decay. Half or twice as many units did no better where an MLP beat boosting.
# Words tell classes apart almost by themselves, and hidden units memorise with them: on TREC (coarse, 20 % wrong) 128
# units missed 16.9 % of the errors, a linear model 16.0 %.
Network = tuple[tuple[int, ...], float, float]
NETWORK: Network = ((128, 64), 3e-3, 1e-3)
LINEAR: Network = ((), 1e-2, 3e-4)
MOST_BOOSTED_CLASSES = 100  # every class gets a tree a round
LONGEST, FEWEST_EPOCHS, MOST_STEPS = 100, 10, 8_000  # epochs, and steps of the optimiser in all of them
LONGEST_OF_IMAGES = 40
# Up to so many samples, a batch of; beyond, the largest. The small ones are for images and text.
BATCHES = ((500, 16), (1_000, 32), (2_000, 64), (50_000, 256), (200_000, 512))
SMALL_BATCHES = ((500, 16), (1_000, 32), (2_000, 64), (50_000, 128), (200_000, 256))
LARGEST_BATCH = 1_024
LARGEST_FOR_CNN9 = 64  # pixels a side
SMALLEST_FOR_CNN9 = 28  # what is smaller is gone before its last convolution
DECODED, CROPPED = 144, 128  # pixels a side of larger images
IN_MEMORY = 1 << 30  # bytes of decoded images, beyond which they are read anew every epoch
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model to try: `model` builds it, or is the hidden widths of an MLP; None is gradient boosting."""

    name: str
    inputs: "Inputs"
    model: "Model | None"
    recipe: "AnyRecipe"

    @property
    def title(self) -> str:
        """What a reader calls it."""
        if self.model is None:
            return "gradient boosting (LightGBM)"
        if self.name != "mlp":
            return self.name
        widths = "-".join(map(str, self.recipe.widths))
        return f"an MLP of {widths} hidden units" if widths else "a linear model"


def candidates_for(data: UserData, wanted: ModelName, seed: int, device: str = "auto") -> list[Candidate]:
    """What to choose from: of a table boosting and an MLP, of text a linear model, of images a CNN, or one wanted."""
    check_model(data, wanted)
    return _of_images(data, wanted, seed, device) if _are_images(data) else _of_table(data, wanted, seed)


def check_model(data: UserData, wanted: ModelName) -> None:
    """Refuse a model that is none, or does not take this data."""
    if wanted not in get_args(ModelName):
        raise InputError(f"model must be one of {', '.join(get_args(ModelName))}, not {wanted!r}")
    images = _are_images(data)
    if wanted != "auto" and images != (wanted in OF_IMAGES):
        fitting = OF_IMAGES if images else ("boosting", "mlp")
        kind = "a table" if data.kind == "table" else data.kind
        raise InputError(f"{wanted} does not take {kind}; take one of auto, {', '.join(fitting)}")


def _are_images(data: UserData) -> bool:
    return data.kind in ("images", "image files")


def batch_size(samples: int, batches: Sequence[tuple[int, int]]) -> int:
    """Samples a batch; never so that a last batch has a single sample, which batch norm cannot take."""
    size = next((size for most, size in batches if samples <= most), LARGEST_BATCH)
    return next((larger for larger in range(size, 2 * size) if samples % larger != 1), size)


def _of_table(data: UserData, wanted: ModelName, seed: int) -> list[Candidate]:
    from errata.training.model_inputs import TableInputs
    from errata.training.recipes import BoostingRecipe

    table = TableInputs(data.prepare().matrix)
    found: list[Candidate] = []
    boosts = data.kind == "table" and data.num_classes <= MOST_BOOSTED_CLASSES and find_spec("lightgbm") is not None
    if wanted == "boosting" or (wanted == "auto" and boosts):
        from errata.training.boosting import LONGEST as MOST_ROUNDS

        found.append(Candidate("boosting", table, None, BoostingRecipe(MOST_ROUNDS, seed=seed)))
    batches = SMALL_BATCHES if data.kind == "text" else BATCHES
    if wanted in ("auto", "mlp"):
        found += [
            Candidate("mlp", table, widths, _recipe(data.samples, batches, LONGEST, rate, decay, seed, widths))
            for widths, rate, decay in _networks(data)
        ]
    return found


def _networks(data: UserData) -> Sequence[Network]:
    """Vectors of sentences may need hidden units or none; trees take minutes for them and predict no better."""
    if data.kind == "text":
        return (LINEAR, NETWORK) if data.embedded else (LINEAR,)
    return (NETWORK,)


def _recipe(
    samples: int,
    batches: Sequence[tuple[int, int]],
    longest: int,
    rate: float,
    decay: float,
    seed: int,
    widths: tuple[int, ...] = (),
) -> "Recipe":
    from errata.training.recipes import Recipe

    batch = batch_size(samples, batches)
    epochs = max(FEWEST_EPOCHS, min(longest, MOST_STEPS * batch // samples))
    return Recipe(epochs, batch, rate, decay, seed=seed, widths=widths)


def _of_images(data: UserData, wanted: ModelName, seed: int, device: str) -> list[Candidate]:
    from errata.training import models
    from errata.training.gather import choose_device

    side = _usual_side(data)
    name = wanted if wanted != "auto" else "cnn9" if side <= LARGEST_FOR_CNN9 else "resnet18"
    if wanted == "auto" and choose_device(device).type == "cpu":
        name, side = "cnn4", min(side, LARGEST_FOR_CNN9)
    build = {"cnn4": models.cnn4, "cnn9": models.cnn9, "resnet18": models.resnet18}[name]
    classes = data.num_classes
    recipe = _recipe(data.samples, SMALL_BATCHES, LONGEST_OF_IMAGES, 1e-3, 1e-4, seed)
    return [Candidate(name, _image_inputs(data, side), lambda: build(classes), recipe)]


def _usual_side(data: UserData) -> int:
    """The longer side of most images, from some of them."""
    if data.root is None:
        stored = isinstance(data.inputs, StoredImages)
        return int(np.median([max(size) for size in data.inputs.sizes]) if stored else max(data.inputs.shape[2:]))
    require_pillow("reading image files")
    from PIL import Image

    sides = []
    for path in data.inputs[:: max(1, data.samples // 100)].tolist():
        with Image.open(data.root / path) as image:
            sides.append(max(image.size))
    return int(np.median(sides))


def _image_inputs(data: UserData, side: int) -> "Inputs":
    from errata.training.model_inputs import ImageFiles, Images
    from errata.training.transforms import PadCropFlip, ResizeCentreCrop

    if isinstance(data.inputs, np.ndarray) and data.root is None:
        pixels = _large_enough(data.inputs)
        return Images(pixels, *_colours(pixels), None if _is_grey(pixels) else PadCropFlip())
    small = side <= LARGEST_FOR_CNN9
    decoded = max(side, SMALLEST_FOR_CNN9) if small else DECODED
    augment, prepare = (PadCropFlip(), None) if small else (PadCropFlip(0, CROPPED), ResizeCentreCrop(DECODED, CROPPED))
    if data.root is not None and 3 * data.samples * decoded**2 > IN_MEMORY:
        paths = [data.root / path for path in data.inputs.tolist()]
        return ImageFiles(paths, IMAGENET_MEAN, IMAGENET_STD, augment, prepare, decoded_size=decoded)
    pixels = _decoded(data, decoded)
    return Images(pixels, *_colours(pixels), augment, prepare)


def _large_enough(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Images (N, 3, H, W) whose pixels are doubled where they are too few."""
    factor = -(-SMALLEST_FOR_CNN9 // min(pixels.shape[2:]))
    return pixels if factor == 1 else pixels.repeat(factor, axis=2).repeat(factor, axis=3)


def _is_grey(pixels: NDArray[np.uint8]) -> bool:
    """Whether all is without colour, as scans and drawings are, which often mean something else in a mirror."""
    return bool((pixels[:, 0] == pixels[:, 1]).all() and (pixels[:, 0] == pixels[:, 2]).all())


def _colours(pixels: NDArray[np.uint8]) -> tuple[Sequence[float], Sequence[float]]:
    """Mean and deviation of each channel, from some of the images."""
    some = pixels[:: max(1, len(pixels) // 2_000)].astype(np.float32) / 255
    return some.mean(axis=(0, 2, 3)).tolist(), np.maximum(some.std(axis=(0, 2, 3)), 1e-3).tolist()


def _decoded(data: UserData, side: int) -> NDArray[np.uint8]:
    """All images, squashed to squares: (N, 3, side, side)."""
    from PIL import Image

    check_fits(3.0 * data.samples * side**2, f"{data.samples:,} images of {side} × {side} pixels")
    pixels = np.empty((data.samples, 3, side, side), dtype=np.uint8)
    for place in range(data.samples):
        square = _image_at(data, place).resize((side, side), Image.Resampling.BILINEAR)
        pixels[place] = np.asarray(square).transpose(2, 0, 1)
    return pixels


def _image_at(data: UserData, place: int) -> "Image.Image":
    from PIL import Image

    if data.root is None:
        stored: StoredImages = data.inputs
        return stored.image(place)
    with Image.open(data.root / data.inputs[place]) as image:
        return image.convert("RGB")
