"""Networks. Any other `nn.Module` can be trained too; recording features needs a linear last layer."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import conv2d

from errata.errors import InputError


def mlp(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them; `widths` starts with the inputs and ends with the classes."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn9(num_classes: int, dropout: float = 0.25, *, always_drop: bool = False) -> nn.Sequential:
    """The nine-layer network of Co-teaching for 32 x 32 images, with dropout of whole channels.

    always_drop: dropout stays on in evaluation mode.
    """
    drop = _AlwaysDropout2d if always_drop else nn.Dropout2d
    return nn.Sequential(
        *_convolutions(3, 128, 128, 128),
        nn.MaxPool2d(2),
        drop(dropout),
        *_convolutions(128, 256, 256, 256),
        nn.MaxPool2d(2),
        drop(dropout),
        *_convolutions(256, 512, 256, 128, padding=0),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, num_classes),
    )


class _AlwaysDropout2d(nn.Dropout2d):
    """Dropout of whole channels, in evaluation mode too. A batch has its own draws, the same in every run."""

    def __init__(self, p: float) -> None:
        super().__init__(p)
        self._evaluated = 0  # batches

    def forward(self, x: Tensor) -> Tensor:
        """The input with about p of the channels set to 0, and the others scaled up."""
        if self.training:
            return super().forward(x)
        self._evaluated += 1
        samples, channels = x.shape[:2]
        generator = Generator(x.device).manual_seed(1000 * self._evaluated + channels)  # other draws in other layers
        kept = torch.rand((samples, channels, 1, 1), generator=generator, device=x.device) >= self.p
        return x * (kept / (1 - self.p)).to(x.dtype)


def cnn4(num_classes: int) -> nn.Sequential:
    """Four convolutions for small images, with 1/30 of the arithmetic of cnn9, for training on a CPU."""
    return nn.Sequential(
        *_convolutions(3, 32, 32),
        nn.MaxPool2d(2),
        *_convolutions(32, 64, 64),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(16 * 64, 128),
        nn.ReLU(),
        nn.Linear(128, num_classes),
    )


def _convolutions(*channels: int, padding: int = 1) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(channels):
        layers += [_CentredConv2d(inputs, outputs, 3, padding), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.01)]
    return layers


class _CentredConv2d(nn.Conv2d):
    """A convolution before batch norm. Its bias stays 0 and is not added, because batch norm would remove it.

    Training the bias would only take time. But loaded biases that are not 0 are used.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, padding: int) -> None:
        super().__init__(inputs, outputs, kernel, padding=padding)
        assert self.bias is not None
        nn.init.zeros_(self.bias).requires_grad_(False)
        self._biased = False

    def forward(self, x: Tensor) -> Tensor:
        """The convolved images."""
        return conv2d(x, self.weight, self.bias if self._biased else None, padding=self.padding)

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._biased = self.bias is not None and bool(self.bias.any())


def resnet18(num_classes: int) -> "ResNet":
    """ResNet-18; parameters are named and shaped as torchvision's, so that its weights load."""
    return ResNet((2, 2, 2, 2), num_classes)


def resnet34(num_classes: int) -> "ResNet":
    """ResNet-34; parameters are named and shaped as torchvision's, so that its weights load."""
    return ResNet((3, 4, 6, 3), num_classes)


class ResNet(nn.Module):
    """Residual network of basic blocks (He et al., 2016) for images of about 224 x 224."""

    def __init__(self, blocks: Sequence[int], num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = _stage(64, 64, blocks[0], stride=1)
        self.layer2 = _stage(64, 128, blocks[1], stride=2)
        self.layer3 = _stage(128, 256, blocks[2], stride=2)
        self.layer4 = _stage(256, 512, blocks[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, K) of images (n, 3, H, W)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(self.avgpool(x).flatten(1))
        return logits


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """The input plus the residual."""
        shortcut = x if self.downsample is None else self.downsample(x)
        residual = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        result: Tensor = self.relu(residual + shortcut)
        return result


def _stage(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
    rest = [BasicBlock(outputs, outputs, 1) for _ in range(blocks - 1)]
    return nn.Sequential(BasicBlock(inputs, outputs, stride), *rest)


def transformer(num_classes: int) -> "VisionTransformer":
    """A vision transformer of six small blocks for 32 x 32 images, with 1/4 of the arithmetic of cnn9."""
    return VisionTransformer(num_classes, side=32, patch=4, width=192, depth=6, heads=3)


class VisionTransformer(nn.Module):
    """Vision transformer (Dosovitskiy et al., 2021) that averages its tokens before the last layer."""

    def __init__(self, num_classes: int, *, side: int, patch: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.places = nn.Parameter(0.02 * torch.randn((side // patch) ** 2, width))
        self.blocks = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(
                    width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
                )
                for _ in range(depth)
            )
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, K) of images (n, 3, side, side)."""
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.places
        logits: Tensor = self.head(self.norm(self.blocks(tokens)).mean(dim=1))
        return logits


def penultimate(model: nn.Module) -> nn.Linear:
    """The last linear layer of the model; its inputs are the features."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise InputError(f"{type(model).__name__} has no linear layer, so it has no features to record")
    return layers[-1]
