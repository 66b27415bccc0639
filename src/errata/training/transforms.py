"""Image transforms in batched tensor code: one call augments a whole batch, each image by its own draw.

Images are uint8 (n, 3, H, W) and stay so through every crop. Everything
runs on the device of the images and inside a CUDA graph: no draw leaves the device and no shape depends on one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn.functional import grid_sample, interpolate, pad

from errata.errors import InputError

Augmentation = Callable[[Tensor, Generator | None], Tensor]


@dataclass(frozen=True)
class PadCropFlip:
    """Zero-pad by `pad`, crop to `size` (by default as it was) at a random place, mirror half of the images."""

    pad: int = 4
    size: int | None = None

    def __call__(self, images: Tensor, generator: Generator | None) -> Tensor:
        """Augmented images (n, 3, size, size)."""
        count, _, full_height, full_width = images.shape
        height, width = self.size or full_height, self.size or full_width
        device = images.device
        down, right = full_height + 2 * self.pad - height, full_width + 2 * self.pad - width
        if down < 0 or right < 0:
            raise InputError(f"a crop of {self.size} pixels does not fit in images of {full_height} x {full_width}")
        top = torch.randint(0, down + 1, (count, 1), device=device, generator=generator)
        left = torch.randint(0, right + 1, (count, 1), device=device, generator=generator)
        mirrored = torch.rand((count, 1), device=device, generator=generator) < 0.5
        rows = top + torch.arange(height, device=device)
        columns = left + torch.arange(width, device=device)
        columns = torch.where(mirrored, columns.flip(1), columns)
        padded = pad(images, (self.pad,) * 4).permute(0, 2, 3, 1)
        every = torch.arange(count, device=device)[:, None, None]
        return padded[every, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of each image, `scale` of its area and up to 4:3 out of shape, brought to `size`; half mirrored."""

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __call__(self, images: Tensor, generator: Generator | None) -> Tensor:
        """Augmented images (n, 3, size, size)."""
        count, _, height, width = images.shape

        def draw(low: float, high: float) -> Tensor:
            return low + (high - low) * torch.rand(count, device=images.device, generator=generator)

        area = draw(*self.scale) * height * width
        shape = draw(math.log(self.ratio[0]), math.log(self.ratio[1])).exp()
        crop_width = (area * shape).sqrt().clamp(1, width)
        crop_height = (area / shape).sqrt().clamp(1, height)
        left = draw(0, 1) * (width - crop_width)
        top = draw(0, 1) * (height - crop_height)
        direction = torch.where(draw(0, 1) < 0.5, -1.0, 1.0)
        grid = _sampling_grid(left, top, crop_width * direction, crop_height, (height, width), self.size)
        return _sample(images, grid)


@dataclass(frozen=True)
class ResizeCentreCrop:
    """The centre of each image after its shorter side was brought to `resize`, `size` wide and high."""

    resize: int
    size: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.resize:
            raise InputError(f"a crop of {self.size} pixels does not fit in an image brought to {self.resize}")

    def __call__(self, images: Tensor, generator: Generator | None = None) -> Tensor:
        """Images (n, 3, size, size); nothing is drawn."""
        height, width = images.shape[-2:]
        factor = self.resize / min(height, width)
        target = (round(height * factor), round(width * factor))
        resized = interpolate(images.float(), target, mode="bilinear", antialias=True, align_corners=False)
        top, left = (target[0] - self.size) // 2, (target[1] - self.size) // 2
        return resized[:, :, top : top + self.size, left : left + self.size].round().clamp(0, 255).to(torch.uint8)


def _sampling_grid(
    left: Tensor, top: Tensor, width: Tensor, height: Tensor, full: tuple[int, int], size: int
) -> Tensor:
    """Where in the image, in -1..1, each output pixel of each crop lies, (n, size, size, 2); negative widths mirror."""
    steps = (torch.arange(size, device=left.device) + 0.5) / size
    start = torch.where(width < 0, left - width, left)
    x = (start[:, None] + width[:, None] * steps) / full[1] * 2 - 1
    y = (top[:, None] + height[:, None] * steps) / full[0] * 2 - 1
    rows, columns = y[:, :, None].expand(-1, -1, size), x[:, None, :].expand(-1, size, -1)
    return torch.stack([columns, rows], dim=-1)


def _sample(images: Tensor, grid: Tensor) -> Tensor:
    sampled = grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return sampled.round().clamp(0, 255).to(torch.uint8)
