"""Fine-tuning: a pretrained backbone and a new last layer, both trained on the user's labels.

After a first run, neighbours are searched in the features of the backbone as it was: no wrong label has influenced
them. A second pass is trained on labels that the first run trusts, so its own features are used.
"""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from errata.training.backbones import Backbone
from errata.training.image_preprocessing import Preprocessing
from errata.training.model_inputs import Images, Inputs, Rows
from errata.training.transforms import Augmentation, InTurn, ResizeCentreCrop

HEAD_RATE = 10.0  # the last layer learns this many times as fast as the backbone
NORM_MOMENTUM = 0.1  # a short training would not reach the statistics of the user's images with that of the backbone
SMALL_SIDE = 128  # small images are enlarged to it if the backbone takes any side: a third of the work of 224
EVALUATED_IMAGES = 256  # at once, for frozen features


class FineTuned(nn.Module):
    """Logits (n, K) of images (n, 3, side, side), from a copy of a backbone and a linear layer.

    searches_frozen: whether neighbours are searched in the features of the backbone before training.
    """

    def __init__(self, backbone: Backbone, num_classes: int) -> None:
        super().__init__()
        self.searches_frozen = True
        self._frozen = backbone
        self.body = deepcopy(backbone.module)
        self.head = _FastLinear(backbone.width, num_classes)
        for layer in self.body.modules():
            if isinstance(layer, _BatchNorm):
                layer.momentum = NORM_MOMENTUM

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, K)."""
        logits: Tensor = self.head(self.body(images))
        return logits

    @torch.no_grad()
    def frozen_features(self, inputs: Inputs, rows: Rows) -> Tensor:
        """Features (n, D) of some rows from the backbone before training, at the size it was trained with."""
        side = self._frozen.preprocessing.side
        resize = ResizeCentreCrop(side, side)
        self._frozen.module.to(inputs.device)
        batches = torch.split(rows, EVALUATED_IMAGES)
        return torch.cat([self._frozen.features(resize(raw)) for raw in inputs.fetch(batches)])


class _FastLinear(nn.Linear):
    """A linear layer that Adam changes HEAD_RATE times as fast: its steps do not depend on the scale of the gradient.

    It starts at zero, so that the first steps do not pull the backbone towards random directions.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """The scaled outputs (n, outputs)."""
        return HEAD_RATE * super().forward(x)


def fine_tuned_images(values: Any, preprocessing: Preprocessing, side: int, augment: Augmentation | None) -> Images:
    """Images (N, 3, H, W) of uint8 for fine-tuning: augmented as they are, then resized to `side` on the device."""
    resize = ResizeCentreCrop(side, side)
    in_training = resize if augment is None else InTurn(augment, resize)
    return Images(values, preprocessing.mean, preprocessing.std, in_training, resize)
