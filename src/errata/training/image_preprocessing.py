"""From an image to the input of a pretrained network: resize, crop the centre, normalise."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from errata.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BILINEAR, BICUBIC = 2, 3  # filters of Pillow
LARGEST_SIDE = 4_096
LARGEST_STATISTIC = 1e9  # means and deviations beyond it, and deviations below its inverse, are errors


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes an input (3, side, side) of a network.

    mean, std: of each channel, for pixels from 0 to 1. centre: the side of the central square that is used, as a part
    of the shorter side of the image; None: the whole image is used, and loses its proportions. resample: a filter of
    Pillow.
    """

    side: int
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    centre: float | None = None
    resample: int = BILINEAR

    def __post_init__(self) -> None:
        if not 1 <= self.side <= LARGEST_SIDE:
            raise InputError(
                f"the side of a backbone's images must be from 1 to {LARGEST_SIDE:,} pixels, not {self.side:,}"
            )
        mean, std = np.abs(self.mean), np.asarray(self.std)
        usable = (mean < LARGEST_STATISTIC).all() and ((std > 1 / LARGEST_STATISTIC) & (std < LARGEST_STATISTIC)).all()
        if not len(mean) == len(std) == 3 or not usable:
            raise InputError(
                "a backbone needs a mean and a standard deviation above 0 of each of 3 channels, "
                f"not {list(self.mean)} and {list(self.std)}"
            )
        if self.centre is not None and not 0 < self.centre <= 1:
            raise InputError(f"the part of an image that a backbone uses must be above 0 and at most 1: {self.centre}")

    @property
    def decoded_side(self) -> int:
        """The shorter side in pixels that an image should have before it is resized."""
        return round(self.side / (self.centre or 1))

    def pixels(self, image: "Image.Image") -> NDArray[np.uint8]:
        """The pixels (3, side, side) of an image of any size; a smaller one is enlarged."""
        width, height = image.size
        box = (0.0, 0.0, float(width), float(height))
        if self.centre is not None:
            square = self.centre * min(width, height)
            left, top = (width - square) / 2, (height - square) / 2
            box = (left, top, left + square, top + square)
        resized = image.resize((self.side, self.side), self.resample, box=box)
        return np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1))

    def normalised(self, pixels: Tensor) -> Tensor:
        """Inputs (n, 3, side, side) of the network for pixels (n, 3, side, side) of uint8."""
        mean, std = (
            pixels.new_tensor(values, dtype=torch.float32).view(1, 3, 1, 1) for values in (self.mean, self.std)
        )
        return ((pixels.float() / 255 - mean) / std).contiguous(memory_format=torch.channels_last)
