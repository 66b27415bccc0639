"""The preprocessing that a folder of transformers states in preprocessor_config.json or processor_config.json.

Every value is checked: these files are often edited by hand.
"""

import json
from pathlib import Path
from typing import Any

from errata.errors import InputError
from errata.training.image_preprocessing import BICUBIC, BILINEAR, Preprocessing
from errata.wording import one_line

HOW_TO_WRITE = "AutoImageProcessor.from_pretrained(NAME).save_pretrained(FOLDER) writes this file"
CENTRE = 224 / 256  # ConvNeXt's default part of the shorter side that is used
FULL_IMAGE_SIDE = 384  # from this side on, ConvNeXt uses the whole image
LARGEST_NUMBER = 1e9


def read_preprocessing(folder: Path) -> Preprocessing:
    """The preprocessing that the folder of a model states."""
    return _StatedSettings(*_settings(folder)).preprocessing()


class _StatedSettings:
    """The settings in a file, by name. null stands for a setting that is not there."""

    def __init__(self, file: Path, settings: dict[str, Any]) -> None:
        self._file, self._settings = file, {name: value for name, value in settings.items() if value is not None}

    def preprocessing(self) -> Preprocessing:
        """All of it, or an error that names the setting that cannot be used."""
        side, centre = self._side_and_centre()
        # transformers computes (factor × pixel - mean) / std for pixels from 0 to 255.
        factor = 255 * self._positive("rescale_factor", 1 / 255) if self._is_on("do_rescale") else 255.0
        mean: tuple[float, ...] = (0.0,) * 3
        std: tuple[float, ...] = (1.0,) * 3
        if self._is_on("do_normalize"):
            mean, std = self._per_channel("image_mean"), self._per_channel("image_std")
        resample = self._settings.get("resample", BILINEAR)
        try:
            return Preprocessing(
                side,
                tuple(value / factor for value in mean),
                tuple(value / factor for value in std),
                centre,
                resample if type(resample) is int and resample in range(BICUBIC + 3) else BICUBIC,
            )
        except InputError as error:
            raise InputError(f"{self._file}: {error}; {HOW_TO_WRITE}") from error

    def _side_and_centre(self) -> tuple[int, float | None]:
        """The side of the inputs, and the part of the shorter side of an image that is used (None: the whole image)."""
        whole, shortest = self._square("size"), self._pixels("size", "shortest_edge")
        if "crop_size" in self._settings and self._is_on("do_center_crop"):
            side = self._square("crop_size") or self._pixels("crop_size", "shortest_edge")
            resized = shortest or whole
            if side is not None and self._is_on("do_resize"):
                return side, None if resized is None else min(1.0, side / resized)
            if side is not None:
                return side, 1.0
        elif shortest is not None:  # ConvNeXt: the shorter side becomes side / crop_pct, and the centre is used
            part = self._positive("crop_pct", CENTRE)
            return shortest, None if shortest >= FULL_IMAGE_SIDE else min(1.0, part)
        elif whole is not None:
            return whole, None
        raise InputError(
            f'{self._file} states no square size of images, such as "size": {{"height": 224, "width": 224}}: '
            f"write the size that the model was trained with; {HOW_TO_WRITE}"
        )

    def _square(self, name: str) -> int | None:
        """The side of a square size: 224, or a height and a width that are equal."""
        if not isinstance(self._settings.get(name, {}), dict):
            return self._pixels(name)
        height, width = self._pixels(name, "height"), self._pixels(name, "width")
        return height if height == width else None

    def _pixels(self, name: str, part: str | None = None) -> int | None:
        """A number of pixels, or of a part of a setting; None if it is not stated."""
        value = self._settings.get(name)
        if part is not None:
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            return None
        if not _is_number(value) or value != int(value) or value < 1:
            raise self._wrong(name if part is None else f"{part} of {name}", value, "a number of pixels")
        return int(value)

    def _positive(self, name: str, default: float) -> float:
        value = self._settings.get(name, default)
        if not _is_number(value) or value <= 0:
            raise self._wrong(name, value, "a number above 0")
        return float(value)

    def _per_channel(self, name: str) -> tuple[float, ...]:
        """One number for each of three channels, which may be stated as one number."""
        value = self._settings.get(name)
        values = [value] * 3 if _is_number(value) else value
        if not isinstance(values, list) or len(values) != 3 or not all(map(_is_number, values)):
            raise self._wrong(name, value, "a number or a list of 3 numbers")
        return tuple(map(float, values))

    def _is_on(self, name: str) -> bool:
        value = self._settings.get(name, True)
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def _wrong(self, name: str, value: Any, expected: str) -> InputError:
        stated = "is not stated" if value is None else f"is {one_line(json.dumps(value))}"
        return InputError(f"{self._file}: {name} {stated}, and must be {expected}; {HOW_TO_WRITE}")


def _is_number(value: Any) -> bool:
    """Whether a value of JSON is a number, which is not NaN and not too large to compute with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_NUMBER


def _settings(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The file that states the preprocessing, and its settings."""
    for name, part in (("preprocessor_config.json", None), ("processor_config.json", "image_processor")):
        file = folder / name
        if not file.is_file():
            continue
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file} is damaged: {one_line(error)}; {HOW_TO_WRITE}") from error
        if not isinstance(content, dict):
            raise InputError(f"{file} is damaged: it holds no settings by name; {HOW_TO_WRITE}")
        settings = content if part is None else content.get(part)
        if isinstance(settings, dict):
            return file, settings
    raise InputError(f"{folder} has no preprocessor_config.json with the preprocessing of its images; {HOW_TO_WRITE}")
