"""Image transforms as batched tensor code: one call augments a whole batch, each image differently.

Images are uint8 (n, 3, H, W), before and after. A batch of images of different shapes is (n, 4, H, W): each is in the
upper left corner, and the fourth channel is not 0 where the image is. Everything runs on the device of the images, and
inside a CUDA graph: random numbers stay on the device, and no shape depends on them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn.functional import affine_grid, grid_sample, pad

from errata.errors import InputError

Augmentation = Callable[[Tensor, Generator | None], Tensor]


@dataclass(frozen=True)
class PadCropFlip:
    """Zero-pad by `pad`, crop to `size` (by default the original size) at a random place, mirror half of the images."""

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
class StrongView:
    """Turn, scale, shear and shift an image, change its contrast, brightness and saturation, and cut out a square.

    Each image has its own draws. angle in radians; scale, shear, shift (of half of the side), contrast and saturation
    are the largest relative changes; brightness is the largest change, as a part of 255. cutout: the side of the grey
    square as a part of the shorter side of the image. A quarter of the images keep their geometry.
    """

    angle: float = 0.5
    scale: float = 0.2
    shear: float = 0.3
    shift: float = 0.25
    contrast: float = 0.6
    saturation: float = 0.8
    brightness: float = 0.125
    cutout: float = 0.5

    def __call__(self, images: Tensor, generator: Generator | None) -> Tensor:
        """Changed images of the same shape."""
        count, _, height, width = images.shape
        device = images.device

        def draw(most: float) -> Tensor:
            return most * (2 * torch.rand(count, device=device, generator=generator) - 1)

        moved = (torch.rand(count, device=device, generator=generator) < 0.75).float()
        angle, across, down, shear, right, below = (
            moved * draw(most) for most in (self.angle, self.scale, self.scale, self.shear, self.shift, self.shift)
        )
        first = torch.stack([(1 + across) * angle.cos(), shear - angle.sin(), right], dim=1)
        second = torch.stack([angle.sin(), (1 + down) * angle.cos(), below], dim=1)
        grid = affine_grid(torch.stack([first, second], dim=1), [count, 3, height, width], align_corners=False)
        x = grid_sample(images[:, :3].float(), grid, padding_mode="reflection", align_corners=False)
        contrast, saturation, brightness = (
            draw(most).view(-1, 1, 1, 1) for most in (self.contrast, self.saturation, 255 * self.brightness)
        )
        mean = x.mean(dim=(1, 2, 3), keepdim=True)
        x = (x - mean) * (1 + contrast) + mean + brightness
        grey = x.mean(dim=1, keepdim=True)
        x = (x - grey) * (1 + saturation) + grey
        half = self.cutout * min(height, width) / 2
        inside = []
        for side in (height, width):
            centre = side * torch.rand((count, 1), device=device, generator=generator)
            inside.append((torch.arange(side, device=device) + 0.5 - centre).abs() < half)
        cut = inside[0][:, None, :, None] & inside[1][:, None, None, :]
        return torch.where(cut, 127.0, x).round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class RandomResizedCrop:
    """Crop a random part (share of the area in `scale`, aspect ratio in `ratio`), resize it to `size`, mirror half."""

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __call__(self, images: Tensor, generator: Generator | None) -> Tensor:
        """Augmented images (n, 3, size, size)."""
        pictures, height, width = _pictures(images)
        count = len(images)

        def draw(low: float, high: float) -> Tensor:
            return low + (high - low) * torch.rand(count, device=images.device, generator=generator)

        area = draw(*self.scale) * height * width
        shape = draw(math.log(self.ratio[0]), math.log(self.ratio[1])).exp()
        crop_width = torch.minimum((area * shape).sqrt().clamp(min=1), width)
        crop_height = torch.minimum((area / shape).sqrt().clamp(min=1), height)
        left = draw(0, 1) * (width - crop_width)
        top = draw(0, 1) * (height - crop_height)
        mirrored = draw(0, 1) < 0.5
        across = _Span(
            torch.where(mirrored, left + crop_width, left), torch.where(mirrored, -crop_width, crop_width), width
        )
        return _resample(pictures, _Span(top, crop_height, height), across, self.size)


@dataclass(frozen=True)
class ResizeCentreCrop:
    """Resize the shorter side to `resize`, then crop the centre, `size` wide and high."""

    resize: int
    size: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.resize:
            raise InputError(f"a crop of {self.size} pixels does not fit in an image resized to {self.resize}")

    def __call__(self, images: Tensor, generator: Generator | None = None) -> Tensor:
        """Images (n, 3, size, size); there is no randomness."""
        pictures, height, width = _pictures(images)
        factor = self.resize / torch.minimum(height, width)
        return _resample(pictures, self._centre(height, factor), self._centre(width, factor), self.size)

    def _centre(self, length: Tensor, factor: Tensor) -> "_Span":
        """The centre of a side whose new length is rounded to whole pixels; the crop starts at a whole pixel."""
        target = (length * factor).round()
        step = length / target
        return _Span(((target - self.size) / 2).floor() * step, self.size * step, length)


@dataclass(frozen=True)
class InTurn:
    """Two transforms, one after the other."""

    first: Augmentation
    second: Augmentation

    def __call__(self, images: Tensor, generator: Generator | None) -> Tensor:
        """Images as the second transform returns them."""
        return self.second(self.first(images, generator), generator)


@dataclass(frozen=True)
class _Span:
    """A part of each image along one axis, in pixels; a mirrored part has a negative length.

    start, length and side (the length of the whole image): (n,), or (1,) if the same for all.
    """

    start: Tensor
    length: Tensor
    side: Tensor


def _pictures(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Images (n, 3, H, W), and the height and width of the content of each: (n,), or (1,) if all are equal."""
    if images.shape[1] == 3:
        height, width = (torch.full((1,), float(side), device=images.device) for side in images.shape[2:])
        return images, height, width
    filled = images[:, 3] > 0
    return images[:, :3], filled[:, :, 0].sum(dim=1).float(), filled[:, 0].sum(dim=1).float()


def _resample(images: Tensor, down: _Span, across: _Span, size: int) -> Tensor:
    """A part of each image, resized to (n, 3, size, size)."""
    height, width = images.shape[2:]
    rows, columns = _weights(down, height, size)[:, None], _weights(across, width, size)[:, None]
    return (rows @ images.float() @ columns.mT).round().clamp(0, 255).to(torch.uint8)


def _weights(span: _Span, pixels: int, size: int) -> Tensor:
    """The weight (n, size, pixels) of every source pixel in each of `size` target pixels that cover a span.

    As in Pillow and torchvision, the filter is bilinear, and wider when the image shrinks, to avoid aliasing.
    """
    step = span.length / size
    centres = span.start[:, None] + step[:, None] * (torch.arange(size, device=step.device) + 0.5)
    places = torch.arange(pixels, device=step.device) + 0.5
    reach = step.abs().clamp(min=1)[:, None, None]
    weights = (1 - (places - centres[:, :, None]).abs() / reach).clamp(min=0)
    weights = weights * (places < span.side[:, None, None])
    return weights / weights.sum(dim=2, keepdim=True)
