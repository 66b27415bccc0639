"""Batch norm fused with the activation and the pooling that follow it, for training on a GPU."""

from importlib.util import find_spec
from itertools import pairwise

from torch import Tensor, nn
from torch.nn.functional import leaky_relu, max_pool2d

FEWEST_CHANNELS = 16  # a block of the kernels; the number of channels must be a multiple


class FusedNorm(nn.BatchNorm2d):
    """A batch norm with its leaky ReLU and, if `pooled`, max pooling of 2 x 2. It has the state of the batch norm."""

    def __init__(self, norm: nn.BatchNorm2d, slope: float, pooled: bool) -> None:
        super().__init__(norm.num_features)
        vars(self).update(vars(norm))
        self.slope, self.pooled = slope, pooled

    def forward(self, x: Tensor) -> Tensor:
        """In training on a GPU, three kernels forward and three backward; their results are those of torch."""
        if not self.training or not x.is_cuda or self.momentum is None or (self.pooled and _is_odd(x)):
            y = leaky_relu(super().forward(x), self.slope)
            return max_pool2d(y, 2) if self.pooled else y
        return self.fused(x)

    def fused(self, x: Tensor) -> Tensor:
        """The output by the kernels. The counter num_batches_tracked stays, because nothing uses it."""
        from errata.training.norm_kernels import NormActivation

        running = (self.running_mean, self.running_var)
        constants = (self.eps, self.momentum, self.slope, 4 if self.pooled else 1)
        y: Tensor = NormActivation.apply(x, self.weight, self.bias, running, constants)  # type: ignore[no-untyped-call]
        return y


def fuse_norms(model: nn.Module) -> None:
    """Fuse the layers that follow each other in an nn.Sequential, if Triton is there. Names in the state stay."""
    if find_spec("triton") is None:
        return
    for sequence in [module for module in model.modules() if isinstance(module, nn.Sequential)]:
        layers = list(sequence)
        for number, (norm, activation) in enumerate(pairwise(layers)):
            if not _can_be_fused(norm) or not isinstance(activation, nn.LeakyReLU):
                continue
            assert isinstance(norm, nn.BatchNorm2d)
            pooled = number + 2 < len(layers) and _halves(layers[number + 2])
            sequence[number] = FusedNorm(norm, activation.negative_slope, pooled)
            for following in range(number + 1, number + 2 + pooled):
                sequence[following] = nn.Identity()


def _can_be_fused(layer: nn.Module) -> bool:
    return (
        type(layer) is nn.BatchNorm2d
        and layer.affine
        and layer.track_running_stats
        and layer.num_features % FEWEST_CHANNELS == 0
    )


def _halves(layer: nn.Module) -> bool:
    """Whether a layer is max pooling of 2 x 2 pixels that do not overlap."""
    if not isinstance(layer, nn.MaxPool2d):
        return False
    return (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode, layer.return_indices) == (
        *(2, 2, 0, 1, False, False),
    )


def _is_odd(x: Tensor) -> bool:
    return x.shape[2] % 2 != 0 or x.shape[3] % 2 != 0
