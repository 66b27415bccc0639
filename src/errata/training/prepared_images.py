"""Images with the preprocessing of a backbone, for worker processes."""

from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from errata.errors import InputError
from errata.training.image_loading import DecodedImages
from errata.training.image_preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL import Image


class PictureSource(Protocol):
    """N images of any size."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> "Image.Image":
        """An image in RGB, or an InputError."""


class PreparedImages(DecodedImages):
    """Images as uint8 (3, side, side)."""

    def __init__(self, pictures: PictureSource, preprocessing: Preprocessing) -> None:
        self._pictures, self._preprocessing = pictures, preprocessing

    def __len__(self) -> int:
        return len(self._pictures)

    def __getitem__(self, row: int) -> Tensor | InputError:
        try:
            return torch.from_numpy(self._preprocessing.pixels(self._pictures[row]))
        except InputError as error:
            return error
