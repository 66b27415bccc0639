"""The models that suit a user's data, each with the recipe for its longest training."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.extras import require_pillow
from errata.image_decoding import decode_image, open_image
from errata.memory import check_fits
from errata.readers import UserData
from errata.readers.image_files import StoredImages

if TYPE_CHECKING:
    from errata.training.backbones import Backbone
    from errata.training.model_inputs import Inputs
    from errata.training.recipes import Recipe
    from errata.training.trials import Candidate

ModelName = Literal["auto", "boosting", "mlp", "cnn4", "cnn9", "resnet18", "fine-tuned"]
FINE_TUNED: ModelName = "fine-tuned"
IMAGE_MODELS = ("cnn4", "cnn9", "resnet18", FINE_TUNED)
# Hidden widths, learning rate and weight decay. Half or twice as many units did no better where an MLP beat boosting.
# For words, a linear model is enough, and hidden units memorise: on TREC (coarse, 20 % wrong), 128 units missed 16.9 %
# of the errors, and a linear model 16.0 %.
Network = tuple[tuple[int, ...], float, float]
NETWORK: Network = ((128, 64), 3e-3, 1e-3)
LINEAR: Network = ((), 1e-2, 3e-4)
MAX_BOOSTED_CLASSES = 100  # boosting grows one tree per class and round
MIN_EPOCHS, MAX_EPOCHS, MAX_IMAGE_EPOCHS = 10, 100, 40
MAX_STEPS = 8_000  # of the optimiser, in all epochs
# Pairs of a number of samples and the batch size up to it. The small batches are for images and text.
BATCHES = ((500, 16), (1_000, 32), (2_000, 64), (50_000, 256), (200_000, 512))
SMALL_BATCHES = ((500, 16), (1_000, 32), (2_000, 64), (50_000, 128), (200_000, 256))
MAX_BATCH = 1_024
# Sides in pixels. cnn9 pools images smaller than its minimum away before its last convolution.
MIN_SIDE_CNN9, MAX_SIDE_CNN9 = 28, 64
DECODED_SIDE, CROPPED_SIDE = 144, 128  # for larger images
MAX_DECODED_BYTES = 1 << 30  # above this, image files are decoded again in every epoch


def candidates_for(
    data: UserData, model: ModelName, seed: int, device: str = "auto", backbone: "Backbone | None" = None
) -> "list[Candidate]":
    """The candidates for "auto", or one model.

    Tables: boosting and an MLP. Text: a linear model. Features of a pretrained model: a linear model and an MLP
    (boosting takes minutes for them and is no better). Images without a backbone: a CNN. Images with a backbone: on a
    GPU, the models on its features, the fine-tuned backbone and a CNN; on a CPU, where these take too long, only the
    models on its features, unless `model` asks for fine-tuning.
    """
    if data.fit_features is None:
        return _image_candidates(data, model, seed, device)
    if backbone is None:
        return _table_candidates(data, model, seed)
    if model == FINE_TUNED:
        return [_fine_tuned(data, backbone, seed)]
    from errata.training.gather import choose_device

    on_features = _table_candidates(data, model, seed)
    if choose_device(device).type == "cpu":
        return on_features
    return [*on_features, _fine_tuned(data, backbone, seed), *_image_candidates(data, model, seed, device)]


def check_model(data: UserData, model: ModelName) -> None:
    """Raise an error if there is no such model, or if it does not take this data."""
    if model not in get_args(ModelName):
        raise InputError(f"model must be one of {', '.join(get_args(ModelName))}, not {model!r}")
    if model != "auto" and has_images(data) != (model in IMAGE_MODELS):
        suitable = IMAGE_MODELS if has_images(data) else ("boosting", "mlp")
        kind = "a table" if data.kind == "table" else data.kind
        raise InputError(f"{model} does not take {kind}; use one of auto, {', '.join(suitable)}")


def has_images(data: UserData) -> bool:
    """Whether the samples are images."""
    return data.kind in ("images", "image files")


def _recipe(samples: int, batches: Sequence[tuple[int, int]], max_epochs: int, network: Network, seed: int) -> "Recipe":
    from errata.training.recipes import Recipe, batch_size

    widths, rate, decay = network
    batch = batch_size(samples, batches, MAX_BATCH)
    epochs = max(MIN_EPOCHS, min(max_epochs, MAX_STEPS * batch // samples))
    return Recipe(epochs, batch, rate, decay, seed=seed, widths=widths)


def _table_candidates(data: UserData, model: ModelName, seed: int) -> "list[Candidate]":
    from errata.training.boosting import MAX_ROUNDS
    from errata.training.model_inputs import TableInputs
    from errata.training.recipes import BoostingRecipe
    from errata.training.trials import Candidate

    table = TableInputs(data.prepare().matrix)
    boosts = data.kind == "table" and data.num_classes <= MAX_BOOSTED_CLASSES and find_spec("lightgbm") is not None
    candidates = []
    if model == "boosting" or (model == "auto" and boosts):
        candidates.append(Candidate("boosting", table, None, BoostingRecipe(MAX_ROUNDS, seed=seed)))
    if model in ("auto", "mlp"):
        batches, networks = (BATCHES, [NETWORK]) if data.kind == "table" else (SMALL_BATCHES, [LINEAR])
        if data.embedded:
            networks = [LINEAR, NETWORK]
        recipes = [_recipe(data.samples, batches, MAX_EPOCHS, network, seed) for network in networks]
        candidates += [Candidate("mlp", table, None, recipe) for recipe in recipes]
    return candidates


def _image_candidates(data: UserData, model: ModelName, seed: int, device: str) -> "list[Candidate]":
    from errata.training import models
    from errata.training.gather import choose_device
    from errata.training.trials import Candidate

    side = _typical_side(data)
    name = model if model != "auto" else "cnn9" if side <= MAX_SIDE_CNN9 else "resnet18"
    if model == "auto" and choose_device(device).type == "cpu":
        name, side = "cnn4", min(side, MAX_SIDE_CNN9)
    build = {"cnn4": models.cnn4, "cnn9": models.cnn9, "resnet18": models.resnet18}[name]
    classes = data.num_classes
    recipe = _recipe(data.samples, SMALL_BATCHES, MAX_IMAGE_EPOCHS, ((), 1e-3, 1e-4), seed)
    return [Candidate(name, _image_inputs(data, side), lambda: build(classes), recipe)]


def _fine_tuned(data: UserData, backbone: "Backbone", seed: int) -> "Candidate":
    from errata.training.fine_tuning import SMALL_SIDE, FineTuned, fine_tuned_images
    from errata.training.model_inputs import ImageFiles
    from errata.training.recipes import fine_tuning_recipe
    from errata.training.transforms import InTurn, PadCropFlip, ResizeCentreCrop
    from errata.training.trials import Candidate

    prepare, typical, classes = backbone.preprocessing, _typical_side(data), data.num_classes
    is_small = typical <= MAX_SIDE_CNN9
    side = SMALL_SIDE if is_small and backbone.any_side else prepare.side
    recipe, name = fine_tuning_recipe(data.samples, seed), f"{FINE_TUNED} {backbone.name}"
    decoded = typical if is_small else round(side * DECODED_SIDE / CROPPED_SIDE)
    crop = PadCropFlip() if is_small else PadCropFlip(0, decoded * CROPPED_SIDE // DECODED_SIDE)
    inputs: Inputs
    if _decodes_again(data, decoded):
        resize = ResizeCentreCrop(side, side)
        augment = resize if _are_grey_files(data) else InTurn(crop, resize)
        inputs = ImageFiles(_paths(data), prepare.mean, prepare.std, augment, resize, decoded_size=decoded)
    else:
        pixels = data.inputs if _are_arrays(data) else _squares(data, decoded)
        small_crop = None if _is_grey(pixels) else PadCropFlip() if _are_arrays(data) else crop
        inputs = fine_tuned_images(pixels, prepare, side, small_crop)
    return Candidate(name, inputs, lambda: FineTuned(backbone, classes), recipe, keeps_epochs=True)


def _are_arrays(data: UserData) -> bool:
    """Whether the images are an array (N, 3, H, W) in memory."""
    return isinstance(data.inputs, np.ndarray) and data.root is None


def _typical_side(data: UserData) -> int:
    """The median of the longer sides of the images; of image files, about 100 are opened."""
    if data.root is None:
        stored = isinstance(data.inputs, StoredImages)
        return int(np.median([max(size) for size in data.inputs.sizes]) if stored else max(data.inputs.shape[2:]))
    require_pillow("reading image files")
    sides = []
    for path in _some_paths(data):
        with open_image(path) as image:
            sides.append(max(image.size))
    return int(np.median(sides))


def _decodes_again(data: UserData, side: int) -> bool:
    """Whether image files are decoded again in every epoch, as squares of this side do not fit in memory."""
    return data.root is not None and 3 * data.samples * side**2 > MAX_DECODED_BYTES


def _paths(data: UserData) -> list[Path]:
    assert data.root is not None
    return [data.root / path for path in data.inputs.tolist()]


def _some_paths(data: UserData) -> list[Path]:
    """About 100 image files, from all parts of the data."""
    return _paths(data)[:: max(1, data.samples // 100)]


def _image_inputs(data: UserData, side: int) -> "Inputs":
    from errata.training.image_preprocessing import IMAGENET_MEAN, IMAGENET_STD
    from errata.training.model_inputs import ImageFiles, Images
    from errata.training.transforms import PadCropFlip, ResizeCentreCrop

    if _are_arrays(data):
        pixels = _enlarged(data.inputs)
        return Images(pixels, *_channel_statistics(pixels), None if _is_grey(pixels) else PadCropFlip())
    small = side <= MAX_SIDE_CNN9
    side = max(side, MIN_SIDE_CNN9) if small else DECODED_SIDE
    crop = PadCropFlip() if small else PadCropFlip(0, CROPPED_SIDE)
    prepare = None if small else ResizeCentreCrop(DECODED_SIDE, CROPPED_SIDE)
    if _decodes_again(data, side):
        augment = prepare if _are_grey_files(data) else crop
        return ImageFiles(_paths(data), IMAGENET_MEAN, IMAGENET_STD, augment, prepare, decoded_size=side)
    pixels = _squares(data, side)
    return Images(pixels, *_channel_statistics(pixels), prepare if _is_grey(pixels) else crop, prepare)


def _enlarged(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Images (N, 3, H, W) whose pixels are repeated if they are too small for cnn9."""
    factor = -(-MIN_SIDE_CNN9 // min(pixels.shape[2:]))
    return pixels if factor == 1 else pixels.repeat(factor, axis=2).repeat(factor, axis=3)


def _is_grey(pixels: NDArray[np.uint8]) -> bool:
    """Whether no image has colour. Such images are often scans or drawings, which must not be mirrored."""
    return bool((pixels[:, 0] == pixels[:, 1]).all() and (pixels[:, 0] == pixels[:, 2]).all())


def _are_grey_files(data: UserData) -> bool:
    """`_is_grey` of about 100 image files."""
    return all(_is_grey(np.asarray(decode_image(path)).transpose(2, 0, 1)[None]) for path in _some_paths(data))


def _channel_statistics(pixels: NDArray[np.uint8]) -> tuple[Sequence[float], Sequence[float]]:
    """Mean and standard deviation of each channel, from at most about 2,000 images."""
    some = pixels[:: max(1, len(pixels) // 2_000)].astype(np.float32) / 255
    return some.mean(axis=(0, 2, 3)).tolist(), np.maximum(some.std(axis=(0, 2, 3)), 1e-3).tolist()


def _squares(data: UserData, side: int) -> NDArray[np.uint8]:
    """All images, resized to squares: (N, 3, side, side)."""
    from PIL import Image

    check_fits(3.0 * data.samples * side**2, f"{data.samples:,} images of {side} × {side} pixels")
    pixels = np.empty((data.samples, 3, side, side), dtype=np.uint8)
    for number in range(data.samples):
        image = decode_image(data.root / data.inputs[number]) if data.root else data.inputs.image(number)
        square = image.resize((side, side), Image.Resampling.BILINEAR)
        pixels[number] = np.asarray(square).transpose(2, 0, 1)
    return pixels
