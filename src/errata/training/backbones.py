"""Backbones: pretrained networks that turn images into features, with the preprocessing they were trained with.

`open_backbone` takes a name (`lite0`, `lite2`), a folder or cached name that transformers opens as an image model, or
any `torch.nn.Module`. No pickled code is ever run, and nothing is downloaded unless the caller allows it.
"""

import hashlib
import operator
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from errata.errors import InputError
from errata.training.efficientnet_lite import LITE, load_lite
from errata.training.image_preprocessing import BICUBIC, IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from errata.wording import nearest, one_line

LITE_MEAN, LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3
DEFAULT_SIDE = 224
KEY_DIGITS = 16


@dataclass(frozen=True, eq=False)
class Backbone:
    """A network in evaluation mode that maps images (n, 3, side, side) to features (n, width), and its preprocessing.

    key: a hash of the weights and the preprocessing, for names of caches. any_side: whether it takes images of other
    sides too.
    """

    name: str
    module: nn.Module
    preprocessing: Preprocessing
    width: int
    key: str
    any_side: bool = False

    def features(self, pixels: Tensor) -> Tensor:
        """Features (n, width) in float32 of pixels (n, 3, side, side) of uint8, which are on the module's device."""
        with torch.inference_mode():
            features: Tensor = self.module(self.preprocessing.normalised(pixels)).float()
        if not bool(torch.isfinite(features).all()):
            raise InputError(
                f"the backbone {self.name} returned features that are not finite: check its weights and its "
                "preprocessing, or pass another `backbone=`"
            )
        return features


def open_backbone(spec: str | Path | nn.Module | Backbone, allow_download: bool = False) -> Backbone:
    """The backbone of a name, of a folder, of a name in the cache of transformers, or of a module.

    allow_download: whether a name that is not in the cache is downloaded. A module is used as in `module_backbone`.
    """
    if isinstance(spec, Backbone):
        return spec
    if isinstance(spec, nn.Module):
        return module_backbone(spec)
    name = str(spec)
    if name in LITE:
        return _lite_backbone(name)
    if "/" not in name and not Path(name).expanduser().is_dir():
        similar = nearest(name, LITE)
        hint = f" (did you mean {similar}?)" if similar else ""
        raise InputError(
            f"there is no backbone {one_line(name)!r}{hint}: use {', '.join(LITE)}, a folder, or OWNER/NAME of an "
            "image model for transformers"
        )
    from errata.training.transformers_backbones import load_transformer, model_files

    folder = model_files(name, allow_download)
    module, preprocessing, content_hash = load_transformer(folder)
    return checked_backbone(
        folder.name if Path(name).expanduser().is_dir() else name, module, preprocessing, content_hash
    )


def module_backbone(
    module: nn.Module,
    *,
    side: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    name: str | None = None,
) -> Backbone:
    """A module that maps images (n, 3, side, side) to features (n, D). It is copied, and the copy is never trained.

    side, mean, std: if they are not given, the attributes of the module with these names that are not methods; if it
    has none, 224 pixels and the statistics of ImageNet. The whole image is used.
    """
    preprocessing = Preprocessing(
        side=_whole(_stated(module, "side", DEFAULT_SIDE) if side is None else side),
        mean=_three("mean", _stated(module, "mean", IMAGENET_MEAN) if mean is None else mean),
        std=_three("std", _stated(module, "std", IMAGENET_STD) if std is None else std),
    )
    return checked_backbone(name or type(module).__name__, deepcopy(module), preprocessing, _weights_hash(module))


def checked_backbone(name: str, module: nn.Module, preprocessing: Preprocessing, weights_hash: str) -> Backbone:
    """The backbone of a module, or an error if it returns no features (2, D) for two images of its side."""
    module = module.eval()
    side = preprocessing.side
    try:
        with torch.inference_mode():
            device = next((value.device for value in module.state_dict().values()), torch.device("cpu"))
            shape = tuple(module(torch.zeros(2, 3, side, side, device=device)).shape)
    except Exception as error:  # by the layers of the module
        raise InputError(
            f"the backbone {name} does not take images (n, 3, {side}, {side}): {one_line(error)}; "
            "if they are too small for it, state a larger side (`size` in preprocessor_config.json, or the attribute "
            "`side` of a module)"
        ) from error
    if len(shape) != 2 or shape[0] != 2:
        raise InputError(
            f"the backbone {name} must return features (n, D) for images (n, 3, {side}, {side}), but returns shape "
            f"{shape} for two images"
        )
    key = hashlib.sha256(repr((weights_hash, preprocessing)).encode()).hexdigest()[:KEY_DIGITS]
    return Backbone(name, module, preprocessing, shape[1], key)


def _lite_backbone(name: str) -> Backbone:
    version = LITE[name]
    # Trained on the central 7/8 of images, but with the whole image fewer errors are missed: docs/backbones.md.
    preprocessing = Preprocessing(version.side, LITE_MEAN, LITE_STD, None, BICUBIC)
    return replace(checked_backbone(name, load_lite(name), preprocessing, version.sha256), any_side=True)


def _stated(module: nn.Module, name: str, default: Any) -> Any:
    """An attribute of a module; the default if there is none, or if it is a method."""
    value = getattr(module, name, default)
    return default if callable(value) else value


def _whole(side: Any) -> int:
    try:
        whole: Any = side.item() if isinstance(side, Tensor | np.ndarray) else side
        return operator.index(whole)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"the `side` of a module must be one whole number of pixels, such as 224, not {one_line(repr(side))}"
        ) from error


def _three(name: str, values: Any) -> tuple[float, ...]:
    """One number per channel, from a number, a sequence or a tensor."""
    try:
        array = values.detach().cpu() if isinstance(values, Tensor) else values
        flat = np.asarray(array, dtype=np.float64).reshape(-1).tolist()
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the `{name}` of a module must be a number, or one number for each of 3 channels, not "
            f"{one_line(repr(values))}"
        ) from error
    return tuple(flat * 3 if len(flat) == 1 else flat)


def _weights_hash(module: nn.Module) -> str:
    """A hash of the layers and the weights of a module."""
    digest = hashlib.sha256(repr(module).encode())
    for name, value in module.state_dict().items():
        digest.update(repr((name, value.dtype, tuple(value.shape))).encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
