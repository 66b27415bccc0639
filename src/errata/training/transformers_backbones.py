"""Image models of transformers as backbones: ViT, DINOv2, ConvNeXt, CLIP's vision tower, ResNet and others.

Weights are read from safetensors only, and preprocessing from the JSON file beside them.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from errata.errors import InputError
from errata.extras import require
from errata.memory import check_fits
from errata.training.efficientnet_lite import file_hash
from errata.training.image_preprocessing import BICUBIC, BILINEAR, Preprocessing
from errata.wording import one_line

FILES = ("*.json", "*.safetensors")  # all that is ever downloaded or read
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
HOW_TO_CONVERT = "load it with transformers where you trust it, and save it with save_pretrained(FOLDER)"
HOW_TO_ADD = "AutoImageProcessor.from_pretrained(NAME).save_pretrained(FOLDER) adds it"
CENTRE = 224 / 256  # ConvNeXt's default part of the shorter side that is used
FULL_IMAGE_SIDE = 384  # from this side on, ConvNeXt uses the whole image


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
            raise InputError(f"the backbone {name} cannot be downloaded: {one_line(error)}") from error
        raise InputError(
            f"{name} is neither a folder nor a model in the cache of transformers, and nothing is downloaded unless "
            "you pass `--allow-download` (in Python, `allow_download=True`)"
        ) from error


def load_transformer(folder: Path) -> tuple[nn.Module, Preprocessing, str]:
    """The network in a folder up to its features, its preprocessing, and a hash of its files."""
    weights = _weights(folder)
    preprocessing = read_preprocessing(folder)
    check_fits(3.0 * sum(file.stat().st_size for file in weights), f"the backbone in {folder}")
    _require_transformers()
    from transformers import AutoModel

    try:
        with _without_progress_bars():
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
        raise InputError(f"the weights in {folder} are incomplete: {missing[0]} is missing")
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


def read_preprocessing(folder: Path) -> Preprocessing:
    """The preprocessing that the folder of a model states in preprocessor_config.json or processor_config.json."""
    settings = _settings(folder)
    side, centre = _side_and_centre(settings, folder)
    # transformers computes (factor × pixel − mean) / std for pixels from 0 to 255.
    factor = 255 * float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 255.0
    mean, std = settings.get("image_mean"), settings.get("image_std")
    if not settings.get("do_normalize", True):
        mean, std = (0.0,) * 3, (1.0,) * 3
    if mean is None or std is None:
        raise InputError(f"the preprocessing in {folder} states no image_mean or no image_std: {HOW_TO_ADD}")
    mean, std = (_per_channel(values) for values in (mean, std))
    resample = settings.get("resample", BILINEAR)
    return Preprocessing(
        side,
        tuple(value / factor for value in mean),
        tuple(value / factor for value in std),
        centre,
        resample if resample in range(BICUBIC + 3) else BICUBIC,
    )


def _side_and_centre(settings: dict[str, Any], folder: Path) -> tuple[int, float | None]:
    """The side of the inputs, and the part of the shorter side of an image that is used (None: the whole image)."""
    size, crop = settings.get("size"), settings.get("crop_size")
    whole, shortest = _square(size), _shortest(size)
    if crop is not None and settings.get("do_center_crop", True):
        side = _square(crop) or _shortest(crop)
        resized = shortest or whole
        if side is not None and settings.get("do_resize", True):
            return side, None if resized is None else min(1.0, side / resized)
        if side is not None:
            return side, 1.0
    elif shortest is not None:  # ConvNeXt: the shorter side becomes side / crop_pct, and the centre is used
        part = float(settings.get("crop_pct") or CENTRE)
        return shortest, None if shortest >= FULL_IMAGE_SIDE else min(1.0, part)
    elif whole is not None:
        return whole, None
    raise InputError(f"the preprocessing in {folder} states no square size of images: {size or crop}")


def _settings(folder: Path) -> dict[str, Any]:
    for name, part in (("preprocessor_config.json", None), ("processor_config.json", "image_processor")):
        file = folder / name
        if not file.is_file():
            continue
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{file} is damaged: {one_line(error)}") from error
        found = content if part is None or not isinstance(content, dict) else content.get(part)
        if isinstance(found, dict):
            return found
    raise InputError(f"{folder} has no preprocessor_config.json with the preprocessing of its images: {HOW_TO_ADD}")


def _weights(folder: Path) -> list[Path]:
    """The files with weights, or an error if there are none that can be read without running pickled code."""
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} holds no image model for transformers: it has no config.json")
    weights = sorted(folder.glob("*.safetensors"))
    if weights:
        return weights
    pickle = next((file.name for file in sorted(folder.iterdir()) if file.suffix in PICKLES), None)
    if pickle is None:
        raise InputError(f"{folder} has no weights: there is no .safetensors file in it")
    raise InputError(
        f"the weights in {folder} are not safetensors but {pickle}, which could run any code: {HOW_TO_CONVERT}"
    )


def _square(size: Any) -> int | None:
    """The side of a square size: 224, or a height and a width that are equal."""
    if isinstance(size, int):
        return size
    if isinstance(size, dict) and size.get("height") is not None and size.get("height") == size.get("width"):
        return int(size["height"])
    return None


def _shortest(size: Any) -> int | None:
    if isinstance(size, dict) and size.get("shortest_edge") is not None:
        return int(size["shortest_edge"])
    return None


def _per_channel(values: Any) -> tuple[float, ...]:
    return (float(values),) * 3 if isinstance(values, int | float) else tuple(map(float, values))


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """A context in which transformers shows no bars for loading, which takes less than a second."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _require_transformers() -> None:
    require("transformers", "transformers", "frameworks", "a backbone from a folder or by OWNER/NAME")
