"""Image models of transformers as backbones: ViT, DINOv2, ConvNeXt, CLIP's vision tower, ResNet and others.

Weights are read from safetensors only, and preprocessing from the JSON file beside them.
"""

import hashlib
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from errata.errors import InputError
from errata.extras import require
from errata.memory import SMALLER_BACKBONE, check_fits
from errata.training.efficientnet_lite import file_hash
from errata.training.image_preprocessing import Preprocessing
from errata.training.safe_weights import safetensors_files, without_progress_bars
from errata.training.stated_preprocessing import read_preprocessing
from errata.wording import one_line

FILES = ("*.json", "*.safetensors")  # all that is ever downloaded or read


def model_files(name: str, allow_download: bool) -> Path:
    """The folder with the files of a model: `name` itself, or the folder of this name in the cache of transformers."""
    _require_transformers()
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES), local_files_only=not allow_download))
    except Exception as error:  # by the name, the cache, the network and the version
        if allow_download:
            raise InputError(
                f"the backbone {name} cannot be downloaded: {one_line(error)}; check its name and the connection"
            ) from error
        raise InputError(
            f"{name} is neither a folder nor a model in the cache of transformers, and nothing is downloaded unless "
            "you pass `allow_download=True`"
        ) from error


def load_transformer(folder: Path) -> tuple[nn.Module, Preprocessing, str]:
    """The network in a folder up to its features, its preprocessing, and a hash of its files."""
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder} holds no image model for transformers: it has no config.json. Name a folder that "
            "save_pretrained(FOLDER) wrote"
        )
    weights = safetensors_files(folder)
    preprocessing = read_preprocessing(folder)
    check_fits(3.0 * sum(file.stat().st_size for file in weights), f"the backbone in {folder}", SMALLER_BACKBONE)
    _require_transformers()
    from transformers import AutoModel

    try:
        with without_progress_bars():
            model, loading = AutoModel.from_pretrained(
                str(folder),
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except Exception as error:  # an incomplete folder raises a different type of error for each architecture
        raise InputError(
            f"the backbone in {folder} cannot be loaded: {one_line(error)}; if its files are damaged, copy or download "
            "them again"
        ) from error
    network = getattr(model, "vision_model", model)  # CLIP and its relatives also contain a network for texts
    missing = [name for name in loading["missing_keys"] if "pooler" not in name]
    if missing:
        raise InputError(
            f"the weights in {folder} are incomplete: {missing[0]} is missing; copy or download the folder again"
        )
    digest = hashlib.sha256()
    for file in (folder / "config.json", *weights):
        digest.update(file_hash(file).encode())
    return TransformerFeatures(network, has_pooler=not loading["missing_keys"]), preprocessing, digest.hexdigest()


class TransformerFeatures(nn.Module):
    """The features (n, D) of an image model: its pooled output if it was trained with one, else its first token.

    A model without tokens and without a pooled output gives the mean over all places.
    """

    def __init__(self, network: nn.Module, has_pooler: bool) -> None:
        super().__init__()
        self.network, self._has_pooler = network, has_pooler

    def forward(self, images: Tensor) -> Tensor:
        """Features (n, D) of images (n, 3, side, side)."""
        output: Any = self.network(pixel_values=images)
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        if pooled is not None and self._has_pooler:
            return pooled.flatten(1)  # (n, D), or (n, D, 1, 1)
        last: Tensor = output.last_hidden_state
        return last[:, 0] if last.ndim == 3 else last.mean(dim=(2, 3))


def _require_transformers() -> None:
    require("transformers", "transformers", "frameworks", "a backbone from a folder or by OWNER/NAME")
