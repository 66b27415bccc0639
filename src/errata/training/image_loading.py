"""Worker processes that decode images, batch by batch, while a model works on the batch before."""

import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.utils.data import DataLoader, Dataset

from errata.core.jit import usable_cpus
from errata.errors import InputError

MAX_WORKERS = 16  # processes that decode images


class DecodedImages(Dataset[Tensor | InputError]):
    """Images as uint8 (3 or 4, H, W), decoded on access. For an image that cannot be read, the error is returned.

    Raised in a worker, it would have the worker's traceback.
    """

    def __init__(self, count: int, pixels: Callable[[int], NDArray[np.uint8]]) -> None:
        """pixels: decodes the image of a row, or raises an InputError."""
        self._count, self._pixels = count, pixels

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> Tensor | InputError:
        try:
            return torch.from_numpy(self._pixels(row))
        except InputError as error:
            return error


def default_workers() -> int:
    """One process per usable CPU, at most MAX_WORKERS."""
    return min(MAX_WORKERS, usable_cpus())


def decoded_batches(
    images: DecodedImages, batches: Sequence[list[int]], workers: int, device: torch.device
) -> Iterator[Tensor]:
    """The images (n, 3 or 4, H, W) of each batch of rows, in order, on the device; the first error is raised."""
    loader: DataLoader[Tensor | InputError] = DataLoader(
        images,
        batch_sampler=batches,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        collate_fn=_collate,
        generator=Generator(),  # otherwise the loader draws a seed from torch's default generator
    )
    with warnings.catch_warnings():
        # Since Python 3.12. The workers only decode, and wait for no lock that a thread may hold.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork", DeprecationWarning)
        decoded = iter(loader)
    try:
        for raw in decoded:
            yield _raise_error(raw).to(device, non_blocking=True)
    finally:
        del decoded  # ends the workers, even if the traceback of an error keeps this frame


def _collate(images: Sequence[Tensor | InputError]) -> Tensor | InputError:
    """A batch (n, 3 or 4, H, W) of decoded images, or the first error among them."""
    broken = next((image for image in images if isinstance(image, InputError)), None)
    return torch.stack([image for image in images if isinstance(image, Tensor)]) if broken is None else broken


def _raise_error(batch: Tensor | InputError) -> Tensor:
    if isinstance(batch, InputError):
        raise batch
    return batch
