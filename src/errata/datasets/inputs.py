"""Prepared data as what the training engine takes."""

from typing import TYPE_CHECKING, Literal

from errata.datasets.spec import Pixels, Prepared

if TYPE_CHECKING:
    from errata.training.model_inputs import Inputs
    from errata.training.transforms import Augmentation, ResizeCentreCrop

DECODED_SIZE = 256  # pixels a side of the images that are streamed from files


def inputs(data: Prepared, part: Literal["train", "test"]) -> "Inputs":
    """The training or test part, with the transforms of the dataset."""
    import numpy as np

    from errata.training.model_inputs import ImageFiles, Images, TableInputs

    values = data.train_inputs if part == "train" else data.test_inputs
    if data.kind == "table":
        return TableInputs(np.array(values, dtype=np.float32))
    assert data.pixels is not None
    augment, prepare = _transforms(data.pixels)
    mean, std = data.pixels.mean, data.pixels.std
    if data.kind == "images":
        return Images(np.array(values), mean, std, augment, prepare)
    assert data.root is not None
    paths = [data.root / path.decode() for path in values.tolist()]
    keep_shape = data.pixels.transforms == "resized-crop-128"
    return ImageFiles(paths, mean, std, augment, prepare, decoded_size=DECODED_SIZE, keep_shape=keep_shape)


def _transforms(pixels: Pixels) -> "tuple[Augmentation, ResizeCentreCrop | None]":
    """For training and for testing.

    Crops are the paper's, of the whole image: squashed to 256 × 256 for Clothing1M, in its own shape for Food-101N.
    There alone something is lost: crops come from images whose longer side is 256 pixels, finer detail is gone.
    """
    from errata.training.transforms import PadCropFlip, RandomResizedCrop, ResizeCentreCrop

    if pixels.transforms == "pad-crop-flip":
        return PadCropFlip(), None
    if pixels.transforms == "crop-flip-224":
        return PadCropFlip(pad=0, size=224), ResizeCentreCrop(DECODED_SIZE, 224)
    return RandomResizedCrop(128), ResizeCentreCrop(128, 128)
