"""Prepared datasets as inputs of the training engine."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from errata.datasets.spec import PreparedData

if TYPE_CHECKING:
    from errata.training.model_inputs import Inputs

DECODED_SIZE = 256  # longer side in pixels of images that are streamed from files


def inputs(data: PreparedData, part: Literal["train", "test"]) -> "Inputs":
    """The training or test inputs, with the dataset's augmentation for training and preparation for testing.

    The crops are those of the paper. For Clothing1M they are taken from the image squashed to 256 × 256, for Food-101N
    from the image in its own shape, decoded with a longer side of 256 pixels: small crops lose detail.
    """
    from errata.training.model_inputs import ImageFiles, Images, TableInputs
    from errata.training.transforms import Augmentation, PadCropFlip, RandomResizedCrop, ResizeCentreCrop

    values = data.train_inputs if part == "train" else data.test_inputs
    if data.kind == "table":
        return TableInputs(np.array(values, dtype=np.float32))
    assert data.pixels is not None
    transforms: dict[str, tuple[Augmentation, ResizeCentreCrop | None]] = {
        "pad-crop-flip": (PadCropFlip(), None),
        "crop-flip-224": (PadCropFlip(pad=0, size=224), ResizeCentreCrop(DECODED_SIZE, 224)),
        "resized-crop-128": (RandomResizedCrop(128), ResizeCentreCrop(128, 128)),
    }
    augment, prepare = transforms[data.pixels.transforms]
    mean, std = data.pixels.mean, data.pixels.std
    if data.kind == "images":
        return Images(np.array(values), mean, std, augment, prepare)
    assert data.root is not None
    paths = [data.root / path.decode() for path in values.tolist()]
    keep_shape = data.pixels.transforms == "resized-crop-128"
    return ImageFiles(paths, mean, std, augment, prepare, decoded_size=DECODED_SIZE, keep_shape=keep_shape)
