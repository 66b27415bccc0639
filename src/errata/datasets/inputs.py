"""Prepared data as what the training engine takes."""

from typing import TYPE_CHECKING, Literal

from errata.datasets.spec import Pixels, Prepared

if TYPE_CHECKING:
    from errata.training.data import Inputs
    from errata.training.transforms import Augmentation, ResizeCentreCrop


def inputs(data: Prepared, part: Literal["train", "test"]) -> "Inputs":
    """The training or test part, with the transforms of the dataset."""
    import numpy as np

    from errata.training.data import ImageFiles, Images, Table

    values = data.train_inputs if part == "train" else data.test_inputs
    if data.kind == "table":
        return Table(np.array(values, dtype=np.float32))
    assert data.pixels is not None
    augment, prepare, decoded_size = _transforms(data.pixels)
    mean, std = data.pixels.mean, data.pixels.std
    if data.kind == "images":
        return Images(np.array(values), mean, std, augment, prepare)
    assert data.root is not None
    paths = [data.root / path.decode() for path in values.tolist()]
    return ImageFiles(paths, mean, std, augment, prepare, decoded_size=decoded_size)


def _transforms(pixels: Pixels) -> "tuple[Augmentation, ResizeCentreCrop | None, int]":
    """For training, for testing, and the size that files are decoded to."""
    from errata.training.transforms import PadCropFlip, RandomResizedCrop, ResizeCentreCrop

    if pixels.transforms == "pad-crop-flip":
        return PadCropFlip(), None, 32
    if pixels.transforms == "crop-flip-224":
        return PadCropFlip(pad=0, size=224), ResizeCentreCrop(256, 224), 256
    return RandomResizedCrop(128), ResizeCentreCrop(128, 128), 256
