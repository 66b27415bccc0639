"""Images with 16 bits or transparency: a model must see what a person sees."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torture.cases import Case, WrongResultError
from torture.hostile import read_and_rank

SIDE = 16
TOLERANCE = 20  # of 255: the largest mean difference between what a model sees and the picture
RAMP = np.broadcast_to(np.linspace(0, 1, SIDE), (SIDE, SIDE))
Picture = tuple[Any, str, dict[str, Any]]  # pixels, file format, options of the encoder


def encoded(
    pixels: Any = None, mode: str | None = None, form: str = "png", palette: Any = None, **options: Any
) -> bytes:
    """An encoded image; a small grey one by default."""
    from PIL import Image

    values = np.full((8, 8, 3), 90, np.uint8) if pixels is None else pixels
    image = Image.fromarray(values)
    if palette is not None:
        image.putpalette(palette)
    sink = io.BytesIO()
    (image.convert(mode) if mode else image).save(sink, form, **options)
    return sink.getvalue()


def _sixteen_bits(ramp: NDArray[Any]) -> Picture:
    return (ramp * 65535).astype(np.uint16), "png", {}


def _alpha(channels: int) -> Callable[[NDArray[Any]], Picture]:
    """A black picture whose transparency is the ramp."""

    def make(ramp: NDArray[Any]) -> Picture:
        pixels = np.zeros((*ramp.shape, channels), np.uint8)
        pixels[..., -1] = ramp * 255
        return pixels, "png", {}

    return make


PICTURES: dict[str, Callable[[NDArray[Any]], Picture]] = {
    "8 bits of grey": lambda ramp: ((ramp * 255).astype(np.uint8), "png", {}),
    "16 bits of grey": _sixteen_bits,
    "16 bits of grey in TIFF": lambda ramp: ((ramp * 65535).astype(np.uint16), "tiff", {}),
    "16 bits of grey, big-endian TIFF": lambda ramp: ((ramp * 65535).astype(">u2"), "tiff", {}),
    "transparency": _alpha(4),
    "grey with transparency": _alpha(2),
    "palette with transparency": lambda ramp: (
        (ramp * 255).astype(np.uint8),
        "png",
        {"palette": [0] * 768, "transparency": bytes(range(256))},
    ),
    "transparency in WebP": lambda ramp: (_alpha(4)(ramp)[0], "webp", {"lossless": True}),
}


def _pictures(name: str, make: Callable[[NDArray[Any]], Picture], size: str) -> Callable[[Path], None]:
    """photos/ with ramps from black to white, in both directions. large: files that are decoded again at each use."""

    def prepare(folder: Path) -> None:
        if "transparency" in name:
            (folder / "transparent").touch()
        ramp = RAMP if size == "small" else np.repeat(np.repeat(RAMP, 6, axis=0), 6, axis=1)
        for number in range(8):
            pixels, form, options = make(ramp if number % 2 else ramp[:, ::-1])
            place = folder / "photos" / ("left", "right")[number % 2] / f"{number}.{form}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(encoded(pixels, form=form, **options))

    return prepare


def _expected(id_: str, size: tuple[int, ...]) -> NDArray[Any]:
    """The grey values of a picture. What is opaque in a black picture is dark on white."""
    ramp = np.broadcast_to(np.linspace(0, 255, size[1]), size)
    ramp = ramp if id_.startswith("right") else ramp[:, ::-1]
    return 255 - ramp if Path("transparent").exists() else ramp


def _looks() -> None:
    """Fail if a model would see blank or wrong pictures."""
    import torch

    from errata.readers import open_data
    from errata.training.model_inputs import ImageFiles

    data = open_data("photos")
    pixels: Any = np.asarray(data.inputs)
    if data.kind == "image files":
        files = ImageFiles(
            [Path("photos") / path for path in data.inputs], [0.5] * 3, [0.5] * 3, decoded_size=SIDE, workers=0
        )
        pixels = next(iter(files.fetch([torch.arange(len(data.inputs))]))).numpy()
    for id_, there in zip(data.ids.tolist(), pixels.astype(float), strict=True):
        seen = np.abs(there - _expected(id_, there.shape[1:]))
        if seen.mean() > TOLERANCE:
            raise WrongResultError(
                f"the model sees another picture: {id_} is off by {seen.mean():.0f} of 255 on average"
            )
    read_and_rank("photos", None)()


def cases() -> Iterator[Case]:
    """All images that must be visible."""
    for name, make in PICTURES.items():
        for size in ("small", "large"):
            yield Case(f"images: {name}, {size}, visible", _pictures(name, make, size), _looks, "read")
