"""The samples that models are trained on, in memory or read from files, with their training and test transforms."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor

from errata.core.checks import check_labels
from errata.core.held_out_models import mostly_zeros
from errata.errors import InputError
from errata.extras import require_pillow
from errata.image_decoding import decode_image
from errata.training.image_loading import DecodedImages, decoded_batches, default_workers
from errata.training.transforms import Augmentation, RandomResizedCrop, ResizeCentreCrop
from errata.wording import one_line

EVALUATION_BATCH, MIN_EVALUATION_BATCH = 2048, 64  # rows of a table, or images of at most 32 × 32 pixels; at least
EVALUATED_PIXELS = EVALUATION_BATCH * 32 * 32

Rows = Tensor


class Inputs(ABC):
    """N samples. `fetch` moves raw batches to the device; `train` and `test` transform them into inputs of a model."""

    device: torch.device
    resident = True  # whether all samples are on the device
    evaluation_batch = EVALUATION_BATCH  # samples that are evaluated at a time

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def to(self, device: torch.device) -> Self:
        """The same samples for a model on that device."""

    @abstractmethod
    def fetch(self, batches: Sequence[Rows]) -> Iterator[Tensor]:
        """The raw samples of each batch of rows, in order."""

    @abstractmethod
    def train(self, raw: Tensor, generator: Generator | None) -> Tensor:
        """A raw batch with the training transform."""

    @abstractmethod
    def test(self, raw: Tensor) -> Tensor:
        """A raw batch with the test transform."""


def check_labelled(inputs: Inputs, labels: ArrayLike, num_classes: int) -> NDArray[np.int64]:
    """Check that there is one label of at least two classes per sample; returns the labels (N,) as class numbers."""
    if num_classes < 2:
        raise InputError(f"label errors need at least two classes, not {num_classes}")
    checked = check_labels(labels, num_classes)
    if len(checked) != len(inputs):
        raise InputError(f"there are {len(checked)} labels for {len(inputs)} samples")
    return checked


class TableInputs(Inputs):
    """A table (N, D) of numbers, without transforms."""

    def __init__(self, values: Any) -> None:
        self.values = torch.as_tensor(values)
        if self.values.ndim != 2 or not self.values.is_floating_point():
            raise InputError(
                f"a table must have floats of shape (N, D), not {self.values.dtype} {tuple(self.values.shape)}"
            )
        if not bool(torch.isfinite(self.values).all()):
            row = int((~torch.isfinite(self.values).all(dim=1)).nonzero()[0])
            raise InputError(f"row {row} of the table has a value that is not finite")
        self.device = self.values.device

    def __len__(self) -> int:
        return len(self.values)

    def scaled(self, rows: Rows) -> Tensor:
        """Columns (n, D) scaled to mean 0 and standard deviation 1 over all rows; constant columns become 0.

        A table that is mostly zeros stays as it is: its rows, such as TF-IDF terms, have their own scale.
        """
        if mostly_zeros(self.values.cpu().numpy()):
            return self.values[rows]
        centred = self.values - self.values.mean(dim=0)
        deviation = centred.square().mean(dim=0).sqrt()
        return (centred / torch.where(deviation > 0, deviation, 1))[rows]

    def to(self, device: torch.device) -> Self:
        moved = copy(self)
        moved.values = self.values.to(device)
        moved.device = moved.values.device
        return moved

    def fetch(self, batches: Sequence[Rows]) -> Iterator[Tensor]:
        return (self.values[rows] for rows in batches)

    def train(self, raw: Tensor, generator: Generator | None) -> Tensor:
        return raw

    def test(self, raw: Tensor) -> Tensor:
        return raw


class _NormalisedImages(Inputs):
    """Images as uint8, which `train` and `test` turn into floats of mean 0 and standard deviation 1 per channel."""

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        augment: Augmentation | None,
        prepare: ResizeCentreCrop | None,
    ) -> None:
        if len(mean) != len(std) or not all(deviation > 0 for deviation in std):
            raise InputError(
                f"each channel needs a mean and a standard deviation above 0, not {list(mean)} and {list(std)}"
            )
        self.augment, self.prepare = augment, prepare
        self.device = torch.device("cpu")
        self._offset, self._scale = (
            torch.tensor(values, dtype=torch.float32).view(1, -1, 1, 1) * 255 for values in (mean, std)
        )

    def to(self, device: torch.device) -> Self:
        moved = copy(self)
        moved.device = device
        # A CUDA graph cannot copy constants from the CPU.
        moved._offset, moved._scale = self._offset.to(device), self._scale.to(device)
        return moved

    def train(self, raw: Tensor, generator: Generator | None) -> Tensor:
        """Augmented, each image differently, and normalised."""
        return self._normalise(raw if self.augment is None else self.augment(raw, generator))

    def test(self, raw: Tensor) -> Tensor:
        """Prepared without randomness, and normalised."""
        return self._normalise(raw if self.prepare is None else self.prepare(raw))

    def _normalise(self, images: Tensor) -> Tensor:
        floats = (images.float() - self._offset) / self._scale
        return floats.contiguous(memory_format=torch.channels_last)


def _evaluation_batch(height: int, width: int) -> int:
    """Images per batch, such that the activations of large images fit in memory."""
    return min(EVALUATION_BATCH, max(MIN_EVALUATION_BATCH, EVALUATED_PIXELS // (height * width)))


class Images(_NormalisedImages):
    """Images of one size that fit in memory, uint8 (N, 3, H, W)."""

    def __init__(
        self,
        pixels: Any,
        mean: Sequence[float],
        std: Sequence[float],
        augment: Augmentation | None = None,
        prepare: ResizeCentreCrop | None = None,
    ) -> None:
        super().__init__(mean, std, augment, prepare)
        self.pixels = torch.as_tensor(pixels)
        if self.pixels.dtype != torch.uint8 or self.pixels.ndim != 4:
            raise InputError(f"images must be uint8 (N, C, H, W), not {self.pixels.dtype} {tuple(self.pixels.shape)}")
        if self.pixels.shape[1] != len(mean):
            raise InputError(f"images have {self.pixels.shape[1]} channels, but there are {len(mean)} means")
        self.evaluation_batch = _evaluation_batch(*self.pixels.shape[2:])

    def __len__(self) -> int:
        return len(self.pixels)

    def to(self, device: torch.device) -> Self:
        images = super().to(device)
        images.pixels = self.pixels.to(device)
        return images

    def fetch(self, batches: Sequence[Rows]) -> Iterator[Tensor]:
        return (self.pixels[rows] for rows in batches)


class ImageFiles(_NormalisedImages):
    """Image files that do not fit in memory: worker processes decode and resize them, batch by batch.

    Images become squares of side `decoded_size`; with `keep_shape`, they keep their proportions and this is the longer
    side. `workers` is the number of processes; by default one per usable CPU, at most 16.
    """

    resident = False

    def __init__(
        self,
        paths: Sequence[str | Path],
        mean: Sequence[float],
        std: Sequence[float],
        augment: Augmentation | None = None,
        prepare: ResizeCentreCrop | None = None,
        *,
        decoded_size: int = 256,
        keep_shape: bool = False,
        workers: int | None = None,
    ) -> None:
        super().__init__(mean, std, augment, prepare)
        if keep_shape and not (isinstance(augment, RandomResizedCrop) and isinstance(prepare, ResizeCentreCrop)):
            raise InputError("images with keep_shape need RandomResizedCrop and ResizeCentreCrop to get a common size")
        require_pillow("reading image files")
        self._paths = [str(path) for path in paths]
        missing = next((path for path in self._paths if not Path(path).is_file()), None)
        if missing is not None:
            raise InputError(f"image {missing} does not exist")
        self._decoded_size, self._keep_shape = decoded_size, keep_shape
        self.evaluation_batch = _evaluation_batch(decoded_size, decoded_size)
        self._workers = default_workers() if workers is None else workers

    def __len__(self) -> int:
        return len(self._paths)

    def fetch(self, batches: Sequence[Rows]) -> Iterator[Tensor]:
        """Decoded images of each batch; workers prepare the next batches while the model trains."""
        images = DecodedImages(len(self), _Decoder(self._paths, self._decoded_size, self._keep_shape))
        return decoded_batches(images, [rows.tolist() for rows in batches], self._workers, self.device)


@dataclass(frozen=True)
class _Decoder:
    """Decodes image files to squares of `size`; with `keep_shape` they get a fourth channel: see `transforms`."""

    paths: Sequence[str]
    size: int
    keep_shape: bool

    def __call__(self, row: int) -> NDArray[np.uint8]:
        """The pixels (3 or 4, size, size) of a file."""
        from PIL import Image

        try:
            picture = decode_image(self.paths[row])
            pixels = np.array(picture.resize(self._target(*picture.size), Image.Resampling.BILINEAR))
        except Exception as error:  # decoders raise many types of error for broken files
            raise InputError(f"image {self.paths[row]} cannot be read: {one_line(error)}") from error
        return (self._placed(pixels) if self.keep_shape else pixels).transpose(2, 0, 1)

    def _target(self, width: int, height: int) -> tuple[int, int]:
        """The width and height to resize an image to."""
        if not self.keep_shape:
            return self.size, self.size
        factor = self.size / max(width, height)
        return max(1, round(width * factor)), max(1, round(height * factor))

    def _placed(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        height, width, _ = pixels.shape
        square = np.zeros((self.size, self.size, 4), dtype=np.uint8)
        square[:height, :width, :3] = pixels
        square[:height, :width, 3] = 255
        return square
