"""Features of a user's images from a pretrained network that was not trained on their labels."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from errata.errors import InputError
from errata.extras import require, require_pillow
from errata.finding.stored_blocks import Vectors, stored_blocks
from errata.image_decoding import decode_image
from errata.memory import check_fits
from errata.readers import UserData
from errata.readers.image_files import StoredImages, image_of, printable
from errata.terminal import TrainingProgress
from errata.wording import counted, one_line

if TYPE_CHECKING:
    import torch
    from PIL import Image

    from errata.training.backbones import Backbone
    from errata.training.image_preprocessing import Preprocessing

BLOCK = 256  # images per file of features; after Ctrl-C at most one file is computed again
# Images per step of the network, at a side of 224 pixels. On a CPU, small batches stay in its cache.
BATCH, BATCH_ON_GPU = 8, 128
BATCH_SIDE = 224
COPIES = 3  # of the features in memory: the blocks, the joined matrix, and its normalised copy


def frozen_features(
    data: UserData, backbone: "Backbone", device: str, work: Path | None, progress: TrainingProgress
) -> Vectors:
    """Features (N, D) in float32 of N images, in the order of the data.

    work: a folder for finished blocks, so that an interrupted call with the same data resumes; it must be used for this
    data only. Each backbone has its own folder in it.
    """
    if data.kind not in ("images", "image files"):
        raise InputError(f"a backbone computes features of images, but this data is {data.kind}")
    require("torch", "torch", "torch", "computing features")
    require_pillow("computing features of images")
    from errata.training.gather import choose_device

    what = f"the features of {counted(data.samples, 'image')}"
    check_fits(COPIES * 4.0 * data.samples * backbone.width, what)
    target = choose_device(device)
    folder = None if work is None else work / f"features-{backbone.key}"

    def compute(blocks: Sequence[range]) -> Iterator[Vectors]:
        return _computed(data, backbone, target, blocks)

    return stored_blocks(data.samples, BLOCK, folder, compute, f"features of {backbone.name}", progress)


def _computed(
    data: UserData, backbone: "Backbone", device: "torch.device", blocks: Sequence[range]
) -> Iterator[Vectors]:
    """The features (n, D) of each block of rows; worker processes decode the next images meanwhile."""
    from errata.training.image_loading import DecodedImages, decoded_batches, default_workers
    from errata.training.out_of_memory import out_of_memory

    at_once = BATCH_ON_GPU if device.type == "cuda" else BATCH
    size = max(1, at_once * BATCH_SIDE**2 // backbone.preprocessing.side**2)
    parts = [_batches(rows, size) for rows in blocks]
    is_small = isinstance(data.inputs, np.ndarray) and data.root is None
    pictures = Pictures(data.inputs, data.root, backbone.preprocessing)
    workers = 0 if is_small else min(default_workers(), sum(map(len, parts)))
    images = DecodedImages(data.samples, pictures.pixels)
    batches = decoded_batches(images, [batch for part in parts for batch in part], workers, device)
    with out_of_memory(f"the backbone {backbone.name}"):
        backbone.module.to(device)
        for part in parts:
            yield np.concatenate([backbone.features(next(batches)).cpu().numpy() for _ in part])


def _batches(rows: range, size: int) -> list[list[int]]:
    """Batches of about `size` rows that differ by one row at most."""
    cuts = np.linspace(rows.start, rows.stop, -(-len(rows) // size) + 1).astype(int).tolist()
    return [list(range(start, stop)) for start, stop in pairwise(cuts)]


@dataclass(frozen=True, eq=False)
class Pictures:
    """The images of `UserData.inputs` and `UserData.root`, decoded and prepared for a backbone on access."""

    inputs: Any
    root: Path | None
    preprocessing: "Preprocessing"

    def pixels(self, row: int) -> NDArray[np.uint8]:
        """The pixels (3, side, side) of an image; an error names the file or the row of one that cannot be read."""
        return self.preprocessing.pixels(self._decoded(row))

    def _decoded(self, row: int) -> "Image.Image":
        """The image in RGB. A JPEG is decoded at the smallest size that is enough, which is faster."""
        side = self.preprocessing.decoded_side
        try:
            if self.root is not None:
                return decode_image(self.root / self.inputs[row], side)
            if isinstance(self.inputs, StoredImages):
                return decode_image(io.BytesIO(self.inputs.encoded(int(self.inputs.rows[row]))), side)
            return image_of(self.inputs[row])
        except Exception as error:  # decoders raise many types of error for broken files
            name = f"sample {row}" if self.root is None else printable(self.root / str(self.inputs[row]))
            raise InputError(
                f"image {name} cannot be read: {one_line(error)}; replace it, or leave out such files with "
                "`skip_bad=True`"
            ) from error
